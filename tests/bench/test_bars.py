"""The picture of bars is as long as its figures say, and can be read without seeing it."""

import re
from xml.etree import ElementTree

import pytest

from bench.bars import Bar, Group, Rule, draw

SVG = "{http://www.w3.org/2000/svg}"
GROUPS = [
    Group("500 nodes", [Bar("filter", 2, 1, 4), Bar("prioritize", 1, 1, 1)]),
    Group("5,000 nodes", [Bar("filter", 4, 3, 5), Bar("prioritize", 3, 2, 6)]),
]


def texts(picture: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def bars(picture: str) -> list[tuple[str, float, float]]:
    """Colour, start and width of each bar; the squares of the legend are smaller."""
    found = [one.attrib for one in ElementTree.fromstring(picture).iter(f"{SVG}rect") if "rx" in one.attrib]
    return [(one["class"], float(one["x"]), float(one["width"])) for one in found]


def test_a_bar_is_as_long_as_its_figure() -> None:
    (_, start, two), (_, _, one), (_, _, four), (_, also_start, three) = bars(draw("Title", GROUPS))

    assert start == also_start
    assert [two, four, three] == pytest.approx([2 * one, 4 * one, 3 * one], abs=0.3)


def test_a_thin_line_goes_from_the_lowest_to_the_highest_round() -> None:
    picture = draw("Title", GROUPS)
    (_, start, width), *_ = bars(picture)
    spread = next(one for one in ElementTree.fromstring(picture).iter(f"{SVG}path")).attrib["d"]

    low, high = float(spread[1:].split(",")[0]), float(re.findall(r"H([\d.]+)", spread)[0])
    assert [low, high] == pytest.approx([start + width / 2, start + width * 2], abs=0.3)


def test_bars_of_a_name_have_one_colour_and_the_legend_names_it() -> None:
    picture = draw("Title", GROUPS)

    assert [colour for colour, _, _ in bars(picture)] == ["fill-0", "fill-1", "fill-0", "fill-1"]
    assert {"filter", "prioritize"} <= set(texts(picture))


def test_each_figure_is_told_with_its_spread_where_it_has_one() -> None:
    said = texts(draw("Title", GROUPS, unit=" ms"))

    assert "2.0 ms (1.0 to 4.0)" in said
    assert "1.0 ms" in said


def test_a_long_name_takes_several_lines_and_leaves_room_for_bars() -> None:
    name = "names only, functions of one node beside a policy that reads the pods on it"
    picture = draw("Title", [*GROUPS, Group(name, [Bar("filter", 1, 1, 1)])])

    written = [text for text in texts(picture) if text and text in name]
    assert " ".join(written) == name
    assert len(written) == 3
    assert max(width for _, _, width in bars(picture)) > 200


def test_a_rule_crosses_all_bars_at_its_figure() -> None:
    picture = draw("Title", GROUPS, rules=[Rule(3, "aim")])
    (rule,) = [
        one.attrib
        for one in ElementTree.fromstring(picture).iter(f"{SVG}line")
        if one.attrib["class"] == "rule"
    ]
    *_, (_, start, three) = bars(picture)

    assert float(rule["x1"]) == float(rule["x2"]) == pytest.approx(start + three, abs=0.2)
    assert "aim" in texts(picture)


def test_it_says_what_it_is_to_those_who_do_not_see_it() -> None:
    picture = ElementTree.fromstring(draw('Bars & "figures" <here>', GROUPS))

    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-label"] == 'Bars & "figures" <here>'


def test_it_has_colours_for_dark_pages_and_loads_nothing() -> None:
    picture = draw("Title", GROUPS)

    assert "prefers-color-scheme: dark" in picture
    assert re.findall(r"href|src=|url\(|@import|<script", picture) == []


def test_more_names_than_colours_can_be_drawn() -> None:
    many = [Group("all", [Bar(f"variant {number}", number, number, number) for number in range(12)])]

    colours = [colour for colour, _, _ in bars(draw("Title", many))]
    assert len(colours) == 12
    assert len(set(colours[:8])) == 8


def test_nothing_but_zeros_can_be_drawn() -> None:
    assert bars(draw("Title", [Group("none", [Bar("filter", 0, 0, 0)])]))[0][2] == 0
