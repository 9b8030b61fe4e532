"""How the cost of a verb grows with nodes and with policies, fitted: worse than linear is said aloud.

    python -m bench.scale [--quick] [--json FILE] [--plot FILE.svg] [--docs FILE.md]

Each size has a server of its own. All of them are there at once, and a round goes over all sizes: what else
the machine does meanwhile does not fall on one size alone.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.busy import Busy
from bench.curves import Curve, Scale, draw
from bench.outputs import Outputs, rows
from bench.scale_fit import LIMIT, Growth, grow
from bench.scale_servers import Sized, servers

VERBS = ("filter", "prioritize")
NODES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
POLICIES = (1, 2, 5, 10, 15, 20)
QUICK_NODES, QUICK_POLICIES = (100, 1_000, 5_000, 10_000, 20_000), (1, 5, 10, 20)
NODES_OF_POLICIES, POLICIES_OF_NODES = 5_000, 1
UPPER_NODES, UPPER_POLICIES = 5_000, 5
ROUNDS, QUICK_ROUNDS = 20, 7
_WARMING = 3
# So many nodes in all, for each size and round: small sizes are asked about more pods.
_NODES_A_ROUND, _MOST_PODS, _FEWEST_PODS = 20_000, 20, 2


KNOWN, ASKED, POLICIES_ASKED = "nodes", "nodes, policies asked each time", "policies"


@dataclass(frozen=True)
class Axis:
    """Something to have more of: nodes or policies."""

    name: str
    one: str
    sizes: Mapping[int, tuple[int, int]]
    """What a size means: how many nodes, how many policies."""
    upper: int
    """From here on the power is fitted."""
    asked: bool
    """Whether policies are called for each pod; else answers come from stored results."""


@dataclass(frozen=True)
class Series:
    """One verb along one axis: milliseconds, a median for each round, by size."""

    axis: str
    verb: str
    rounds: dict[int, list[float]]
    growth: Growth

    def middle(self, size: int) -> float:
        """The median of the rounds."""
        return median(self.rounds[size])


def axes(nodes: Sequence[int], policies: Sequence[int]) -> list[Axis]:
    """Nodes with stored results and with a policy that is called, and policies that are called."""
    by_node = {size: (size, POLICIES_OF_NODES) for size in nodes}
    by_policy = {size: (NODES_OF_POLICIES, size) for size in policies}
    return [
        Axis(KNOWN, "node", by_node, UPPER_NODES, asked=False),
        Axis(ASKED, "node", by_node, UPPER_NODES, asked=True),
        Axis(POLICIES_ASKED, "policy", by_policy, UPPER_POLICIES, asked=True),
    ]


def measure(axis: Axis, rounds: int) -> list[Series]:
    """Both verbs at each size, round by round."""
    took: dict[str, dict[int, list[float]]] = {verb: {size: [] for size in axis.sizes} for verb in VERBS}
    with (
        tempfile.TemporaryDirectory() as made,
        servers(Path(made), axis.sizes, asked=axis.asked) as started,
    ):
        print(f"... {len(started)} servers are there", flush=True)
        for sized in started:
            _round(sized, _WARMING)
        gc.collect()
        gc.disable()
        for number in range(rounds):
            turn = number % len(started)
            for sized in (*started[turn:], *started[:turn]):
                count, _ = axis.sizes[sized.size]
                for verb, middle in zip(VERBS, _round(sized, pods_a_round(count)), strict=True):
                    took[verb][sized.size].append(middle)
        gc.enable()
        for sized in started:
            sized.child.check()
    return [Series(axis.name, verb, took[verb], grow(took[verb], upper=axis.upper)) for verb in VERBS]


def pods_a_round(nodes: int) -> int:
    """How many pods a server of that size is asked about in a round."""
    return max(_FEWEST_PODS, min(_MOST_PODS, _NODES_A_ROUND // nodes))


def _round(sized: Sized, pods: int) -> tuple[float, float]:
    """The median of each verb, in milliseconds."""
    filters, priorities = zip(*(sized.place() for _ in range(pods)), strict=True)
    return median(filters) * 1000, median(priorities) * 1000


def tables(axis: Axis, series: Sequence[Series]) -> str:
    """Cost and fit along one axis, to be read."""
    smallest = min(axis.sizes)
    head = [axis.name]
    for verb in VERBS:
        head += [f"{verb}, ms (rounds)", f"÷ that of {smallest}", "fit ÷ measured"]
    lines = []
    for size in axis.sizes:
        cells = [f"{size:,}"]
        for one in series:
            fitted = one.growth.constant + one.growth.each * size
            low, high = min(one.rounds[size]), max(one.rounds[size])
            cells += [
                f"{one.middle(size):.2f} ({low:.2f} to {high:.2f})",
                f"{one.middle(size) / one.middle(smallest):.1f}",
                f"{fitted / one.middle(size):.2f}",
            ]
        lines.append(cells)
    fits = [
        [
            one.verb,
            f"{one.growth.constant:.2f} ms + {_micro(one.growth.each)} µs for each {axis.one}",
            _power(one.growth),
            loud(one.growth.verdict),
        ]
        for one in series
    ]
    head_of_fits = [axis.name, "straight line", f"power from {axis.upper:,} on (95 of 100 draws)", ""]
    return f"{rows(head, lines)}\n\n{rows(head_of_fits, fits)}"


def _micro(milliseconds: float) -> str:
    """In microseconds, with three digits that count."""
    value = milliseconds * 1000
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _power(growth: Growth) -> str:
    if growth.power is None or growth.low is None or growth.high is None:
        return "none"
    return f"{growth.power:.2f} ({growth.low:.2f} to {growth.high:.2f})"


def loud(verdict: str) -> str:
    """The verdict, in bold where it is a bad one."""
    return f"**{verdict}**" if "worse" in verdict.lower() else verdict


def picture(series: Sequence[Series]) -> str:
    """Cost against nodes, on logarithmic axes: a straight line of slope 1 is linear growth."""
    curves = []
    for one in (one for one in series if one.axis == KNOWN):
        points = [(float(size), one.middle(size)) for size in one.rounds]
        fit = [(x, one.growth.constant + one.growth.each * x) for x, _ in points]
        curves.append(Curve(one.verb, points, fit))
    return draw(
        "A verb, by the number of nodes",
        curves,
        note="milliseconds, names only; dots: medians; dashed: constant + each node",
        x=Scale(name="nodes", log=True),
        y=Scale(" ms", log=True),
    )


def main() -> None:
    """Measure along each axis."""
    outputs = Outputs(__doc__.splitlines()[0] if __doc__ else "", quick="fewer sizes, up to 20,000 nodes")
    nodes, policies, rounds = (
        (QUICK_NODES, QUICK_POLICIES, QUICK_ROUNDS) if outputs.quick else (NODES, POLICIES, ROUNDS)
    )
    texts, series = [], []
    for axis in axes(nodes, policies):
        busy = Busy()
        found = measure(axis, rounds)
        print(f"... {axis.name}; {busy.by_others():.0%} of a core used by others", flush=True)
        series += found
        texts.append(tables(axis, found))
        outputs.keep({"unit": "ms", "limit": LIMIT, "series": [asdict(one) for one in series]})
    caption = "Milliseconds of filter and prioritize against the number of nodes, with the fitted line"
    outputs.finish("\n\n".join(texts), picture(series), caption=caption)
    for one in series:
        if one.growth.verdict == "WORSE THAN LINEAR":
            print(f"!!! {one.verb} grows WORSE THAN LINEAR with {one.axis}: power {_power(one.growth)}")


if __name__ == "__main__":
    main()
