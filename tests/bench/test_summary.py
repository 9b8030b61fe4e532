"""The aims beside the figures: read from the files that the benchmarks write, and never typed in by hand."""

from pathlib import Path

import pytest

from bench.report import END, START
from bench.summary import PAGE, Row, summary

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def test_the_page_shows_what_the_files_say() -> None:
    shown = PAGE.read_text().partition(START)[2].partition(END)[0].strip()

    assert shown == summary(DOCS), "run `python -m bench.summary`"


@pytest.mark.parametrize(
    ("ratios", "aim", "cells"),
    [
        pytest.param([1.41, 1.3], 1.3, ["1.41 and 1.30", "1.3", "reached"], id="at the aim is reached"),
        pytest.param([1.41, 1.29], 1.3, ["**1.41 and 1.29**", "1.3", "**missed**"], id="every size counts"),
        pytest.param([0.999], 1.0, ["**1.00**", "1", "**missed**"], id="rounding reaches no aim"),
        pytest.param([3.4, 5.12, 4.0], 3.0, ["3.4 to 5.1", "3", "reached"], id="many sizes are a range"),
        pytest.param([0.47, 0.5], None, ["0.47 and 0.50", "-", ""], id="without an aim"),
    ],
)
def test_a_row(ratios: list[float], aim: float | None, cells: list[str]) -> None:
    row = Row("wire", "speed", "Go extender", ratios, aim)

    assert row.cells == ["[wire](wire.md)", "speed", "Go extender", *cells]


def test_every_benchmark_is_in_the_table() -> None:
    table = summary(DOCS)

    assert [name for name in ("wire", "cluster", "state", "scale", "bind") if f"[{name}]" not in table] == []
