"""The aims of the benchmarks beside what was recorded last, in one table, for ``docs/benchmarks/README.md``.

    python -m bench.summary

Everything is read from the JSON files that the benchmarks write. Nothing is typed in by hand, and a test
compares the page with the files.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.cluster import Written
from bench.cluster_figures import Summary, summaries
from bench.cluster_variants import GO, GO_TEN, NONE
from bench.outputs import rows
from bench.picture import number
from bench.report import describe, write_between_markers
from bench.scale import Series, loud
from bench.state import OURS, PEER, Part
from bench.wire_figures import (
    ASKED,
    BESIDE,
    EACH,
    FULL,
    NAMES,
    REFERENCE,
    TARGET,
    TARGET_FROM_NODES,
    Line,
    Recorded,
)

DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
PAGE = DOCS / "README.md"
_HEAD = ["benchmark", "measured", "compared with", "ratio", "aim", ""]
_PARTS = ("wire", "cluster", "state", "scale", "bind")
_GO_EXTENDER, _NO_EXTENDER = "Go extender", "no extender"


@dataclass(frozen=True)
class Row:
    """One line of the table: ratios at one or more sizes, and the ratio that each of them should reach."""

    part: str
    what: str
    peer: str
    ratios: Sequence[float]
    aim: float | None = None

    @property
    def cells(self) -> list[str]:
        """As the page shows it; bold where a ratio misses the aim."""
        told = _range(self.ratios) if len(self.ratios) > 2 else " and ".join(map(_two_digits, self.ratios))
        if self.aim is None:
            return [_link(self.part), self.what, self.peer, told, "-", ""]
        missed = min(self.ratios) < self.aim
        verdict = "**missed**" if missed else "reached"
        told = f"**{told}**" if missed else told
        return [_link(self.part), self.what, self.peer, told, f"{self.aim:g}", verdict]


def summary(docs: Path = DOCS) -> str:
    """The table and its machines; then, for recordings of other machines, a table of the comparisons."""
    found = [*_wire(docs / "wire.json"), *_cluster(docs / "cluster.json"), *_state(docs / "state.json")]
    found += _bind(docs / "bind.json")
    lines = [row.cells for row in found] + list(_scale(docs / "scale.json"))
    parts = [rows(_HEAD, lines), f"Machines: {_machines([docs / f'{name}.json' for name in _PARTS])}."]
    for wire in sorted(docs.glob("wire-*.json")):
        cluster = wire.with_name(wire.name.replace("wire", "cluster", 1))
        others = [*_wire(wire), *(_cluster(cluster) if cluster.exists() else [])]
        files = [wire, *([cluster] if cluster.exists() else [])]
        parts += [f"Recorded before, {_machines(files)}:", rows(_HEAD, [row.cells for row in others])]
    return "\n\n".join(parts)


def _wire(file: Path) -> list[Row]:
    lines = Recorded.read(file).lines

    def row(what: str, mode: str, figure: str, *, least: int = 0) -> list[Row]:
        chosen = [line for line in lines if line.mode == mode and line.nodes >= least]
        ratios = [getattr(line, figure)(REFERENCE).value for line in chosen]
        where = f"{what}, {_sizes(chosen)} nodes, {figure}" if chosen else ""
        return [Row("wire", where, _GO_EXTENDER, ratios, TARGET)] if where else []

    return [
        *row("speed, names only", NAMES, "p50", least=TARGET_FROM_NODES),
        *row("speed, names only", NAMES, "p99", least=TARGET_FROM_NODES),
        *row("speed, full nodes", FULL, "p50"),
        *row("speed, full nodes", FULL, "p99"),
        *row("speed, policies called for every pod", ASKED, "p50"),
        *row("speed, Python functions called for every node and pod", EACH, "p50"),
        *row("speed, Python functions of one node, beside a policy called for every pod", BESIDE, "p50"),
    ]


def _cluster(file: Path) -> list[Row]:
    written = msgspec.json.decode(file.read_bytes(), type=Written)
    sizes = list(dict.fromkeys(run.nodes for run in written.runs))
    by_size = [{each.variant.key: each for each in summaries(written.runs, nodes=nodes)} for nodes in sizes]
    where = " and ".join(f"{nodes:,}" for nodes in sizes)

    def row(what: str, key: str, peer: str, name: str) -> Row:
        found: list[Summary] = [size[key] for size in by_size]
        aim = found[0].variant.aim
        ratios = [ratio.middle for each in found if (ratio := each.ratios[peer]) is not None]
        wanted = aim.ratio if aim is not None and aim.of == peer else None
        return Row("cluster", f"pods a second, {what}, {where} nodes", name, ratios, wanted)

    return [
        row("one policy", "one", GO, _GO_EXTENDER),
        row("one policy, `nodesOnly`", "nodes-only", GO, _GO_EXTENDER),
        row("`keep: 1`", "keep", NONE, _NO_EXTENDER),
        row("`keep: 1`, `nodesOnly`", "keep-nodes-only", NONE, _NO_EXTENDER),
        row("ten policies", "ten", GO, f"{_GO_EXTENDER} with one rule"),
        row("ten policies", "ten", GO_TEN, f"{_GO_EXTENDER} with the same ten rules"),
    ]


def _state(file: Path) -> list[Row]:
    parts = msgspec.convert(json.loads(file.read_text())["parts"], type=list[Part])
    where = " and ".join(f"{part.pods:,}" for part in parts)

    def ratio(part: Part, figure: str) -> float:
        ours, theirs = (part.middle(who, lambda seen: getattr(seen, figure)) for who in (OURS, PEER))
        return theirs / ours

    return [
        Row("state", f"{what}, {where} pods", "plain `json`", [ratio(part, name) for part in parts])
        for what, name in (("speed until ready", "ready_seconds"), ("smaller in memory", "resident_mb"))
    ]


def _bind(file: Path) -> list[Row]:
    parts: list[dict[str, Any]] = json.loads(file.read_text())["parts"]
    limit = "API server alone"
    ways = [way for way in parts[0]["ways"] if way != limit]
    where = ", ".join(str(part["at_once"]) for part in parts)
    return [
        Row(
            "bind",
            f"binds a second, {way.removeprefix('Bayplan, ')}, {where} at once",
            limit,
            [statistics.median(_by_round(part["ways"], way, limit)) for part in parts],
        )
        for way in ways
    ]


def _by_round(ways: dict[str, Any], way: str, limit: str) -> list[float]:
    pairs = zip(ways[way]["rounds"], ways[limit]["rounds"], strict=True)
    return [ours["rate"] / alone["rate"] for ours, alone in pairs]


def _scale(file: Path) -> Iterable[list[str]]:
    written = json.loads(file.read_text())
    for series in msgspec.convert(written["series"], type=list[Series], strict=False):
        sizes, growth = list(series.rounds), series.growth
        grown = series.middle(sizes[-1]) / series.middle(sizes[0])
        what = f"cost of {series.verb}, {sizes[0]:,} to {sizes[-1]:,} {series.axis}"
        told = f"{number(grown)} times for {number(sizes[-1] / sizes[0])} times as many"
        yield [
            _link("scale"),
            what,
            "itself",
            told,
            "linear",
            loud(growth.verdict),
        ]


def _machines(files: Sequence[Path]) -> str:
    """Which machine made which figures: each part may have been recorded on another one."""
    by_machine: dict[str, list[str]] = {}
    for file in files:
        sentence = describe(json.loads(file.read_text())["machine"]).partition(";")[0]
        by_machine.setdefault(sentence, []).append(file.stem.partition("-")[0])
    return "; ".join(f"{', '.join(names)} on {sentence}" for sentence, names in by_machine.items())


def _sizes(lines: Sequence[Line]) -> str:
    nodes = list(dict.fromkeys(line.nodes for line in lines))
    return f"{nodes[0]:,}" if len(nodes) == 1 else f"{nodes[0]:,} to {nodes[-1]:,}"


def _range(ratios: Sequence[float]) -> str:
    return f"{_two_digits(min(ratios))} to {_two_digits(max(ratios))}"


def _two_digits(value: float) -> str:
    return f"{value:.2f}" if value < 2 else f"{value:.1f}"


def _link(part: str) -> str:
    return f"[{part}]({part}.md)"


def main() -> None:
    """Write the table into the page."""
    write_between_markers(PAGE, summary())
    print(f"wrote the summary into {PAGE.relative_to(PAGE.parents[2])}")


if __name__ == "__main__":
    main()
