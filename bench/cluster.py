"""Pods a second through the real kube-scheduler: without an extender, with one in Go, and with Bayplan.

    make bench-cluster

All pods wait when kube-scheduler starts, on the real API server and etcd. In each round every variant has one
run, in an order of its own. kube-scheduler's own limit on requests is raised, or that would be measured;
everything else of it is as by default, the share of nodes that it looks at included.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.cluster_figures import picture, summaries, tables
from bench.cluster_run import Run, run
from bench.cluster_variants import VARIANTS, Variant
from bench.cluster_world import APISERVER_ENV, APISERVER_FLAGS, make_world
from bench.peers_built import GO_PEERS, PeerMissing, find_go
from bench.report import check_markers, describe, machine, write_between_markers
from tests.controlplane.binaries import BinariesMissing, BuildFailed, find_or_build
from tests.controlplane.plane import ControlPlane

SIZES = (1_000, 5_000)
# The first run on an API server that was just started is slower than the others.
_WARMING_PODS = 500


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    sizes: tuple[int, ...]
    pods: int
    rounds: int
    variants: tuple[Variant, ...]

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.sizes) * self.rounds * len(self.variants)

    @property
    def command(self) -> str:
        """How to have it once more."""
        words = [f"--nodes {nodes}" for nodes in self.sizes]
        words += [f"--pods {self.pods} --rounds {self.rounds}"]
        if self.variants != VARIANTS:
            words += [f"--variant {variant.key}" for variant in self.variants]
        return " ".join(["python -m bench.cluster", *words])

    def order(self, number: int) -> tuple[Variant, ...]:
        """Who comes when in a round: shuffled, so that nobody always runs after the same one."""
        return tuple(random.Random(number).sample(self.variants, len(self.variants)))  # noqa: S311


class Written(msgspec.Struct, frozen=True):
    """The file with all figures."""

    command: str
    machine: Mapping[str, str | int | float | None]
    pods: int
    runs: list[Run]


def measure(plan: Plan) -> Iterator[Run]:
    """Run after run, each on a cluster that is as it was before; each round on a new one."""
    for nodes in plan.sizes:
        for number in range(plan.rounds):
            yield from measure_round(plan, number, nodes=nodes)


def measure_round(plan: Plan, number: int, *, nodes: int) -> Iterator[Run]:
    """One round, on an API server of its own: with every run it grows by 100 MB, and becomes slower."""
    with (
        tempfile.TemporaryDirectory(prefix="bayplan-bench-") as made,
        ControlPlane(find_or_build(), apiserver_flags=APISERVER_FLAGS, apiserver_env=APISERVER_ENV) as plane,
    ):
        folder = Path(made)
        world = make_world(plane, folder, nodes=nodes)
        warming = min(plan.pods, _WARMING_PODS)
        run(world, VARIANTS[0], number=-1, nodes=nodes, pods=warming, folder=folder / "warming")
        for variant in plan.order(number):
            yield run(world, variant, number=number, nodes=nodes, pods=plan.pods, folder=folder / variant.key)


def say(found: Run, *, done: int, plan: Plan, elapsed_seconds: float) -> None:
    """A line about a run; loud where it does not count."""
    left_minutes = elapsed_seconds / done * (plan.runs - done) / 60
    name = next(variant.name for variant in VARIANTS if variant.key == found.variant)
    said = "nothing measured"
    if found.figures is not None:
        others = found.figures.others_cores
        said = f"{found.figures.rate:,.0f} pods a second; {others:.0%} of a core used by others"
    print(
        f"... {done} of {plan.runs}: {found.nodes:,} nodes, round {found.round + 1}, {name}: {said};"
        f" about {left_minutes:.0f} minutes left",
        flush=True,
    )
    for problem in found.problems:
        print(f"!!! DOES NOT COUNT: {problem}", flush=True)


def report(written: Written, *, shown: str = "") -> str:
    """Everything in Markdown: machine, a table for each size, what did not count; `shown` is a picture."""
    busiest = max((found.figures.others_cores for found in written.runs if found.figures), default=0.0)
    parts = [
        f"Made by `{written.command}` on {describe(written.machine)}"
        f" Other programs used at most {busiest:.0%} of a core during a run."
    ]
    if shown:
        parts.append(f"![Pods a second by variant and number of nodes]({shown})")
    for nodes in dict.fromkeys(found.nodes for found in written.runs):
        parts += [f"### {nodes:,} nodes, {written.pods:,} pods", tables(summaries(written.runs, nodes=nodes))]
    parts += [
        f"Left out: {found.nodes:,} nodes, round {found.round + 1}, {found.variant}:"
        f" {'; '.join(found.problems)}."
        for found in written.runs
        if found.problems
    ]
    return "\n\n".join(parts)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line asks for; a page without a place for figures is an error before the work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round with 1,000 nodes and 1,000 pods")
    parser.add_argument("--nodes", type=int, action="append", help="more than once for several sizes")
    parser.add_argument("--pods", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--variant", action="append", choices=[variant.key for variant in VARIANTS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, after each run")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw them")
    parser.add_argument("--docs", type=Path, metavar="FILE.md", help="write the tables between its markers")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="earlier", help="take them from a --json")
    options = parser.parse_args(arguments)
    numbers = [*(options.nodes or []), options.pods, options.rounds]
    if any(number is not None and number < 1 for number in numbers):
        parser.error("--nodes, --pods and --rounds must be 1 at least")
    if options.docs:
        check_markers(options.docs)
    return options


def make_plan(options: argparse.Namespace) -> Plan:
    """What is asked for, and what goes without saying."""
    wanted = options.variant or [variant.key for variant in VARIANTS]
    return Plan(
        tuple(options.nodes or (SIZES[:1] if options.quick else SIZES)),
        options.pods or (1_000 if options.quick else 2_000),
        options.rounds or (1 if options.quick else 5),
        tuple(variant for variant in VARIANTS if variant.key in wanted),
    )


def _measured(plan: Plan, file: Path | None) -> Written:
    try:
        for peer in GO_PEERS:
            find_go(peer)
        find_or_build()
    except (PeerMissing, BinariesMissing, BuildFailed) as missing:
        raise SystemExit(str(missing)) from missing
    written = Written(plan.command, machine(), plan.pods, [])
    print(describe(written.machine) + "\n", flush=True)
    start = time.monotonic()
    for found in measure(plan):
        written.runs.append(found)
        say(found, done=len(written.runs), plan=plan, elapsed_seconds=time.monotonic() - start)
        if file is not None:
            # Written each time: a run that is ended early keeps what it has.
            file.write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n")
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or read what was measured; print the tables, and write down what is asked for."""
    options = parse_options(arguments)
    if options.earlier:
        written = msgspec.json.decode(options.earlier.read_bytes(), type=Written)
    else:
        written = _measured(make_plan(options), options.json)
    if all(found.rate is None for found in written.runs):
        raise SystemExit("no run counts: there are no figures")
    shown = ""
    if options.plot:
        options.plot.write_text(picture(written.runs, pods=written.pods))
        shown = os.path.relpath(options.plot, options.docs.parent) if options.docs else ""
    said = report(written, shown=shown)
    print(f"\n{said}")
    if options.docs:
        write_between_markers(options.docs, said)


if __name__ == "__main__":
    main()
