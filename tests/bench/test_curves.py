"""The picture of curves puts every point where it belongs, on plain and on logarithmic axes."""

from xml.etree import ElementTree

import pytest

from bench.curves import Curve, Scale, draw

SVG = "{http://www.w3.org/2000/svg}"
LOG = Scale(log=True)


def lines(picture: str) -> list[tuple[str, list[tuple[float, float]]]]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}polyline")
    return [(one.attrib["class"], _points(one.attrib["points"])) for one in found]


def texts(picture: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def _points(text: str) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in text.split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_runs_of_a_name_have_one_colour() -> None:
    runs = [
        Curve("ours", [(0, 0), (1, 5)]),
        Curve("theirs", [(0, 0), (2, 5)]),
        Curve("ours", [(0, 0), (1, 4)]),
    ]

    assert [colour for colour, _ in lines(draw("Title", runs))] == ["line-0", "line-1", "line-0"]


def test_twice_as_much_is_twice_as_high() -> None:
    ((_, points),) = lines(draw("Title", [Curve("ours", [(0, 0), (1, 500), (2, 1000)])]))

    (left, bottom), (middle, half), (right, top) = points
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert bottom - half == pytest.approx(half - top, abs=0.2)
    assert top < bottom


def test_ten_times_as_much_is_one_step_on_a_logarithmic_axis() -> None:
    curve = Curve("ours", [(1, 1), (10, 10), (100, 100)])
    ((_, points),) = lines(draw("Title", [curve], x=LOG, y=LOG))

    (left, bottom), (middle, half), (right, top) = points
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert bottom - half == pytest.approx(half - top, abs=0.2)


def test_with_a_fit_the_points_are_dots_and_the_fit_is_a_dashed_line() -> None:
    picture = draw("Title", [Curve("ours", [(1, 2), (2, 3), (3, 5)], fit=[(1, 2), (3, 5)])])
    drawing = ElementTree.fromstring(picture)

    assert len(list(drawing.iter(f"{SVG}circle"))) == 3
    (line,) = drawing.iter(f"{SVG}polyline")
    assert len(line.attrib["points"].split()) == 2
    assert "stroke-dasharray" in line.attrib


def test_axes_say_what_they_count_in_round_numbers() -> None:
    curve = Curve("ours", [(100, 0.3), (50_000, 60)])
    picture = draw("Title", [curve], x=Scale(name="nodes", log=True), y=Scale(" ms", log=True))

    assert {"nodes", "100", "1,000", "50,000", "0.2 ms", "1 ms", "100 ms"} <= set(texts(picture))


def test_a_logarithmic_axis_refuses_what_it_has_no_place_for() -> None:
    with pytest.raises(ValueError, match="no place for 0: all values must be above 0"):
        draw("Title", [Curve("ours", [(0, 1), (10, 2)])], x=LOG)


def test_it_says_what_it_is_to_those_who_do_not_see_it() -> None:
    picture = ElementTree.fromstring(draw("Pods & nodes", [Curve("ours", [(0, 0), (1, 1)])]))

    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-label"] == "Pods & nodes"
