"""What the journal costs: writing a decision over 5,000 nodes down, against making and answering it.

    make bench-journal

The filter call is the whole verb: JSON in, four policies over all nodes, JSON out. The journal's part is
measured apart, with whoever the page has it tell. The journal on disk is written by a thread of its own,
between calls where it can: so calls are made with it and without, in turns, with a pause of 3 ms between
them and with none, which is the worst that can be.
"""

import argparse
import os
import platform
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.ops.metrics import Metrics
from bayplan.recording.journal_file import JournalFile, JournalFileOptions
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.web.series import Series
from bench.policies import SETTINGS
from bench.world import make_one

POLICIES = ("MostAvailableCPU", "Spread", "ResourceLimits", "Cost")
MAX_PART = 0.05
_TURN_CALLS = 10
PAUSE_SECONDS = 0.003
"""Between two calls, in which kube-scheduler asks its own plugins: an assumption, not a measurement."""


def make_world(nodes: int) -> Snapshot:
    """Nodes in racks, a tenth of which is full."""
    made = [
        make_node(
            f"node-{number:04}",
            zone="abc"[number % 3],
            labels={"rack": f"rack-{number % 100}", "example.com/price": f"{0.5 + number % 16 / 10:.2f}"},
            cpu=64,
        )
        for number in range(nodes)
    ]
    full = [make_pod(f"full-{number}", cpu=64, node=f"node-{number:04}") for number in range(0, nodes, 10)]
    return make_cluster(made, full)


def make_policies() -> list[Policy]:
    """Four built-ins that filter and score."""
    return [load(name)[0].make(args=SETTINGS[name]) for name in POLICIES]


def part_of_a_filter_call(nodes: int, rounds: int) -> tuple[float, float]:
    """Median seconds of a whole filter call, and of the journal's part in it."""
    cluster, policies = make_world(nodes), make_policies()
    with ThreadPoolExecutor(1) as page:
        journal = Journal(on_entry=[Series(later=page.submit).add])
        return _measured(cluster, policies, journal, rounds)


def _measured(
    cluster: Snapshot, policies: list[Policy], journal: Journal, rounds: int
) -> tuple[float, float]:
    verbs = Verbs(policies=policies, metrics=Metrics(version="bench"), journal=journal)
    calls, parts = [], []
    for number in range(rounds + 1):
        pod = make_one(number)
        body = _body(number, cluster)
        start = time.perf_counter()
        answer = verbs.filter(body, cluster, Attempt())
        answer.write_down()
        calls.append(time.perf_counter() - start)
        assert not answer.error, answer.error
        decision = filter_nodes(policies, Question(pod, cluster.nodes, cluster, datetime.now(UTC)))
        start = time.perf_counter()
        journal.write("filter", decision, generation=1)
        parts.append(time.perf_counter() - start)
    return statistics.median(calls[1:]), statistics.median(parts[1:])


@dataclass(frozen=True)
class Disk:
    """What the journal on disk costs."""

    without_seconds: float
    """A filter call."""
    with_seconds: float
    """The same while its decisions are written to disk."""
    line_bytes: float


def disk_beside_filter_calls(nodes: int, turns: int, *, pause_seconds: float) -> Disk:
    """Calls with the journal on disk and without, in turns of ten."""
    cluster, policies = make_world(nodes), make_policies()
    bodies = [_body(number, cluster) for number in range(_TURN_CALLS)]
    took: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        written: list[str] = []
        calling = threading.Event()
        file = JournalFile(
            JournalFileOptions(path),
            version="",
            cluster=True,
            count=written.append,
            quiet=lambda: not calling.is_set(),
        )
        for turn in range(2 * turns + 2):
            on_disk = bool(turn % 2)
            journal = Journal(on_entry=[file.add] if on_disk else [])
            verbs = Verbs(policies=policies, metrics=Metrics(version="bench"), journal=journal)
            spent = 0.0
            for body in bodies:
                calling.set()
                start = time.perf_counter()
                verbs.filter(body, cluster, Attempt()).write_down()
                spent += time.perf_counter() - start
                calling.clear()
                time.sleep(pause_seconds)
            took[on_disk].append(spent / _TURN_CALLS)
            while len(written) < _TURN_CALLS * ((turn + 1) // 2):
                time.sleep(0.001)
        file.close()
        assert set(written) == {"written"}, set(written)
        line_bytes = path.stat().st_size / len(written)
    return Disk(statistics.median(took[False][1:]), statistics.median(took[True][1:]), line_bytes)


def _body(number: int, cluster: Snapshot) -> bytes:
    return msgspec.json.encode(
        {"Pod": make_one(number), "Nodes": None, "NodeNames": list(cluster.nodes.names)}
    )


def bytes_a_decision(nodes: int) -> tuple[int, int]:
    """What one filter and one prioritize take in the journal."""
    cluster, policies = make_world(nodes), make_policies()
    journal = Journal()
    question = Question(make_one(1), cluster.nodes, cluster, datetime.now(UTC))
    filtered = journal.write("filter", filter_nodes(policies, question), generation=1)
    scored = journal.write("prioritize", score_nodes(policies, question), generation=1)
    return filtered.nbytes, scored.nbytes


def over_budget(call: float, part: float, disk: Disk) -> list[str]:
    """What takes more than `MAX_PART` of a call: writing it down in memory, or the disk, with pauses."""
    more = (disk.with_seconds - disk.without_seconds) / disk.without_seconds
    found = {"writing down takes {:.1%} of a call": part / call, "the disk adds {:.1%} to a call": more}
    # A hair over it is rounding.
    return [
        f"{said.format(share)}, over the budget of {MAX_PART:.0%}"
        for said, share in found.items()
        if share > MAX_PART + 1e-9
    ]


def main() -> None:
    """Print the figures; exit 1 where a part is over its budget and ``--strict`` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--strict", action="store_true", help="exit 1 where a part is over 5%%")
    options = parser.parse_args()
    call, part = part_of_a_filter_call(options.nodes, options.rounds)
    filtered, scored = bytes_a_decision(options.nodes)
    turns = max(1, options.rounds // _TURN_CALLS)
    disks = {
        "with pauses": disk_beside_filter_calls(options.nodes, turns, pause_seconds=PAUSE_SECONDS),
        "without a pause": disk_beside_filter_calls(options.nodes, turns, pause_seconds=0.0),
    }
    print(f"{options.nodes} nodes, {options.rounds} pods, policies {', '.join(POLICIES)}")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| | median |\n|---|---|")
    print(f"| a filter call | {call * 1000:.2f} ms |")
    print(f"| writing it down | {part * 1e6:.0f} µs, {part / call:.1%} of the call |")
    print(f"| a filter in the journal | {filtered / 1000:.0f} kB |")
    print(f"| a prioritize in the journal | {scored / 1000:.0f} kB |")
    for name, disk in disks.items():
        more = disk.with_seconds - disk.without_seconds
        print(f"| on disk too, calls {name} | {more * 1e6:+.0f} µs, {more / disk.without_seconds:+.1%} |")
    print(f"| a filter on disk | {disks['with pauses'].line_bytes / 1000:.0f} kB |")
    problems = over_budget(call, part, disks["with pauses"])
    for problem in problems:
        print(f"\n{problem}")
    if problems and options.strict:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
