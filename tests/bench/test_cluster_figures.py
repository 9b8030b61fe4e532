"""What runs of the cluster benchmark come to: who is compared with whom, and what does not count."""

import xml.etree.ElementTree as ET

from bench.cluster_figures import Spread, picture, ratio, summaries, tables
from bench.cluster_run import Figures, Quantiles, Run

NODES = 1_000


def ran(
    variant: str,
    number: int,
    rate: float,
    *,
    nodes: int = NODES,
    problems: tuple[str, ...] = (),
    extender_cpu_seconds: float | None = 1.0,
) -> Run:
    figures = Figures(
        pods=2_000,
        seconds=2_000 / rate,
        attempt=Quantiles(4.0, 16.0),
        algorithm=Quantiles(2.0, 8.0),
        extender_cpu_seconds=extender_cpu_seconds,
        scheduler_cpu_seconds=3.0,
        served_cpu_seconds=5.0,
        others_cores=0.1,
    )
    return Run(variant, nodes, number, problems, figures)


def cells(runs: list[Run], name: str) -> list[str]:
    """What both tables say of a variant, after its name."""
    lines = tables(summaries(runs, nodes=NODES)).splitlines()
    found = [line for line in lines if line.startswith(f"| {name} |")]
    assert len(found) == 2
    return [cell.strip() for line in found for cell in line.strip("|").split("|")[1:]]


def test_a_ratio_compares_runs_of_the_same_round() -> None:
    runs = [ran("go", 0, 100), ran("one", 0, 200), ran("go", 1, 20), ran("one", 1, 80), ran("go", 2, 50)]
    runs += [ran("one", 2, 50)]

    assert ratio(runs, "one", to="go") == Spread(2.0, 1.0, 4.0)


def test_a_run_with_a_problem_is_left_out_with_its_ratio() -> None:
    runs = [
        ran("go", 0, 100),
        ran("one", 0, 150),
        ran("go", 1, 900, problems=("3 errors",)),
        ran("one", 1, 160),
    ]

    by_name = {summary.variant.key: summary for summary in summaries(runs, nodes=NODES)}

    assert by_name["go"].rate == Spread(100, 100, 100)
    assert by_name["one"].rounds == 2
    assert by_name["one"].ratios["go"] == Spread(1.5, 1.5, 1.5)


def test_other_sizes_are_other_tables() -> None:
    runs = [ran("go", 0, 100), ran("go", 0, 50, nodes=5_000)]

    (found,) = summaries(runs, nodes=5_000)

    assert found.rate == Spread(50, 50, 50)


def test_a_cell_has_the_lowest_and_the_highest_round_beside_the_middle() -> None:
    runs = [ran("go", number, rate) for number, rate in enumerate((90, 1_100, 100))]

    assert cells(runs, "Go extender")[:2] == ["3", "100 (90 to 1,100)"]


def test_an_aim_that_is_reached_is_said_beside_the_ratio() -> None:
    assert cells([ran("go", 0, 100), ran("one", 0, 130)], "Bayplan, one policy")[2:5] == [
        "1.30, aim 1.3: reached",
        "-",
        "-",
    ]


def test_an_aim_that_is_missed_is_bold() -> None:
    assert cells([ran("none", 0, 200), ran("keep", 0, 190)], "Bayplan, keep: 1")[2:5] == [
        "-",
        "-",
        "**0.95, aim 1: missed**",
    ]


def test_ten_policies_are_compared_with_ten_rules_in_go_too() -> None:
    runs = [ran("go", 0, 100), ran("go-ten", 0, 50), ran("ten", 0, 75)]

    assert cells(runs, "Bayplan, ten policies")[2:4] == ["**0.75, aim 1.3: missed**", "1.50"]


def test_the_middle_of_ratios_decides_and_not_their_worst() -> None:
    runs = [ran("none", number, 100) for number in range(3)]
    runs += [ran("keep", 0, 50), ran("keep", 1, 110), ran("keep", 2, 120)]

    (summary,) = [found for found in summaries(runs, nodes=NODES) if found.variant.key == "keep"]

    assert not summary.misses


def test_what_the_scheduler_says_of_attempts_is_told_with_and_without_the_bind() -> None:
    said = ["4.0", "16.0", "2.0", "8.0"]

    assert cells([ran("go", 0, 100)], "Go extender")[5:9] == said


def test_cpu_is_told_for_each_pod_and_only_of_extenders_that_there_are() -> None:
    runs = [ran("none", 0, 200, extender_cpu_seconds=None), ran("go", 0, 100)]

    assert cells(runs, "no extender")[-2:] == ["-", "1.50"]
    assert cells(runs, "Go extender")[-2:] == ["0.50", "1.50"]


def test_a_variant_of_which_no_run_counts_has_a_line_without_figures() -> None:
    runs = [ran("go", 0, 100), ran("one", 0, 150, problems=("3 errors",))]

    assert cells(runs, "Bayplan, one policy") == ["0", *["-"] * 10]


def test_the_picture_shows_every_variant_at_every_size() -> None:
    runs = [ran(key, 0, 100, nodes=nodes) for nodes in (1_000, 5_000) for key in ("none", "go", "keep")]

    drawn = ET.fromstring(picture(runs, pods=2_000))
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]

    assert words[2:4] == ["1,000 nodes", "5,000 nodes"]  # the legend: a colour for each size
    named = [word for word in words if word in {"no extender", "Go extender", "Bayplan, keep: 1"}]
    assert named == ["no extender", "Go extender", "Bayplan, keep: 1"]
