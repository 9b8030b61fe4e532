"""What the runs of the cluster benchmark come to: medians with their spread, ratios by round, a picture.

A ratio is taken inside a round, and the median of these ratios counts: what else the machine did in a round
then changes both sides of it. Runs with problems are left out, and so are the ratios that would need them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.bars import Bar, Group, draw
from bench.cluster_run import Figures, Run
from bench.cluster_variants import GO, GO_TEN, NONE, VARIANTS, Variant
from bench.outputs import rows

_RATES = ["", "rounds", "pods a second", "÷ Go extender", "÷ Go, ten rules", "÷ no extender"]
_PEERS = (GO, GO_TEN, NONE)
_COSTS = [
    "",
    "attempt p50, ms",
    "attempt p99, ms",
    "without the bind p50, ms",
    "without the bind p99, ms",
    "CPU of the extender, ms a pod",
    "CPU of kube-scheduler, ms a pod",
]


@dataclass(frozen=True)
class Spread:
    """The middle of some rounds, and the lowest and the highest of them."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Nothing where there are none."""
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1]) if found else None


@dataclass(frozen=True)
class Summary:
    """One variant at one size."""

    variant: Variant
    rounds: int
    rate: Spread | None
    ratios: dict[str, Spread | None]
    """Pods a second, as a multiple of those of each extender in Go, and of those without any."""
    attempt_p50: Spread | None
    attempt_p99: Spread | None
    algorithm_p50: Spread | None
    algorithm_p99: Spread | None
    extender_cpu: Spread | None
    scheduler_cpu: Spread | None

    @property
    def misses(self) -> bool:
        """Whether there is something to reach, and it was not reached."""
        aim = self.variant.aim
        ratio = self.ratios.get(aim.of) if aim else None
        return aim is not None and ratio is not None and ratio.middle < aim.ratio


def summaries(runs: Sequence[Run], *, nodes: int) -> list[Summary]:
    """Every variant that ran with so many nodes."""
    here = [run for run in runs if run.nodes == nodes]
    keys = {run.variant for run in here}
    return [_summary(variant, here) for variant in VARIANTS if variant.key in keys]


def _summary(variant: Variant, runs: Sequence[Run]) -> Summary:
    figures = [
        run.figures
        for run in runs
        if run.variant == variant.key and run.figures is not None and not run.problems
    ]

    def spread(value: Callable[[Figures], float]) -> Spread | None:
        return Spread.of(map(value, figures))

    return Summary(
        variant,
        len(figures),
        rate=spread(lambda found: found.rate),
        ratios={peer: ratio(runs, variant.key, to=peer) for peer in _PEERS if peer != variant.key},
        attempt_p50=spread(lambda found: found.attempt.p50),
        attempt_p99=spread(lambda found: found.attempt.p99),
        algorithm_p50=spread(lambda found: found.algorithm.p50),
        algorithm_p99=spread(lambda found: found.algorithm.p99),
        extender_cpu=Spread.of(
            1000 * found.extender_cpu_seconds / found.pods
            for found in figures
            if found.extender_cpu_seconds is not None
        ),
        scheduler_cpu=spread(lambda found: 1000 * found.scheduler_cpu_seconds / found.pods),
    )


def ratio(runs: Sequence[Run], key: str, *, to: str) -> Spread | None:
    """How many times as many pods a second as another variant placed in the same round."""
    rates = {(run.variant, run.round): run.rate for run in runs if run.rate is not None}
    return Spread.of(
        rate / rates[to, number]
        for (variant, number), rate in rates.items()
        if variant == key and (to, number) in rates
    )


def tables(found: Sequence[Summary]) -> str:
    """In Markdown: how many pods, and what they took."""
    rates, costs = [_rates(each) for each in found], [_costs(each) for each in found]
    return f"{rows(_RATES, rates)}\n\n{rows(_COSTS, costs)}"


def _rates(summary: Summary) -> list[str]:
    ratios = [_ratio_cell(summary, peer) for peer in _PEERS]
    return [summary.variant.name, str(summary.rounds), _cell(summary.rate, 0), *ratios]


def _costs(summary: Summary) -> list[str]:
    return [
        summary.variant.name,
        _cell(summary.attempt_p50, 1),
        _cell(summary.attempt_p99, 1),
        _cell(summary.algorithm_p50, 1),
        _cell(summary.algorithm_p99, 1),
        _cell(summary.extender_cpu, 2),
        _cell(summary.scheduler_cpu, 2),
    ]


def _ratio_cell(summary: Summary, peer: str) -> str:
    said = _cell(summary.ratios.get(peer), 2)
    aim = summary.variant.aim
    if aim is None or aim.of != peer:
        return said
    verdict = "missed" if summary.misses else "reached"
    said = f"{said}, aim {aim.ratio:g}: {verdict}" if summary.ratios.get(peer) else said
    return f"**{said}**" if summary.misses else said


def _cell(spread: Spread | None, digits: int) -> str:
    """The middle, with the spread where there is one to speak of."""
    if spread is None:
        return "-"
    middle, low, high = (f"{value:,.{digits}f}" for value in (spread.middle, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def picture(runs: Sequence[Run], *, pods: int) -> str:
    """Pods a second of every variant, for every size, as SVG: each variant is named beside its bars."""
    found: dict[str, list[Bar]] = {}
    for nodes in dict.fromkeys(run.nodes for run in runs):
        for each in summaries(runs, nodes=nodes):
            if (rate := each.rate) is not None:
                bar = Bar(f"{nodes:,} nodes", rate.middle, rate.low, rate.high)
                found.setdefault(each.variant.name, []).append(bar)
    groups = [Group(name, bars) for name, bars in found.items()]
    note = "The middle of the rounds; the thin line goes from the lowest to the highest."
    return draw(f"Pods a second, {pods:,} pods waiting for kube-scheduler", groups, note=note)
