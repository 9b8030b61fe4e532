"""What the journal costs: writing a decision over 5,000 nodes down, against making and answering it.

    make bench-journal

The filter call is the whole verb: JSON in, four policies over all nodes, JSON out. The journal's part is
measured apart, with whoever the page has it tell.
"""

import argparse
import os
import platform
import statistics
import time
from datetime import UTC, datetime

import msgspec

from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.web.series import Series
from bench.policies import SETTINGS, make_one

POLICIES = ("MostAvailableCPU", "Spread", "ResourceLimits", "Cost")
MAX_PART = 0.05


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
    journal = Journal(on_entry=[Series().add])
    verbs = Verbs(policies=policies, metrics=Metrics(version="bench"), journal=journal)
    calls, parts = [], []
    for number in range(rounds + 1):
        pod = make_one(number)
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": list(cluster.nodes.names)})
        start = time.perf_counter()
        answer = verbs.filter(body, cluster, Attempt())
        calls.append(time.perf_counter() - start)
        assert not answer.error, answer.error
        decision = filter_nodes(policies, Question(pod, cluster.nodes, cluster, datetime.now(UTC)))
        start = time.perf_counter()
        journal.write("filter", decision, generation=1)
        parts.append(time.perf_counter() - start)
    return statistics.median(calls[1:]), statistics.median(parts[1:])


def bytes_a_decision(nodes: int) -> tuple[int, int]:
    """What one filter and one prioritize take in the journal."""
    cluster, policies = make_world(nodes), make_policies()
    journal = Journal()
    question = Question(make_one(1), cluster.nodes, cluster, datetime.now(UTC))
    filtered = journal.write("filter", filter_nodes(policies, question), generation=1)
    scored = journal.write("prioritize", score_nodes(policies, question), generation=1)
    return filtered.nbytes, scored.nbytes


def main() -> None:
    """Print the figures; exit 1 where the journal's part is too large and ``--strict`` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--strict", action="store_true", help="exit 1 where the part is over 5%%")
    options = parser.parse_args()
    call, part = part_of_a_filter_call(options.nodes, options.rounds)
    filtered, scored = bytes_a_decision(options.nodes)
    print(f"{options.nodes} nodes, {options.rounds} pods, policies {', '.join(POLICIES)}")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| | median |\n|---|---|")
    print(f"| a filter call | {call * 1000:.2f} ms |")
    print(f"| writing it down | {part * 1e6:.0f} µs, {part / call:.1%} of the call |")
    print(f"| a filter in the journal | {filtered / 1000:.0f} kB |")
    print(f"| a prioritize in the journal | {scored / 1000:.0f} kB |")
    if part > MAX_PART * call:
        print(f"\nover the budget of {MAX_PART:.0%}")
        if options.strict:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
