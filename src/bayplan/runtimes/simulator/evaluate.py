"""Where a pod that nobody has created would go: every node is offered, sources are asked once.

kube-scheduler's own plugins are not run; what they would refuse is among the nodes here.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.config.reads import read_by
from bayplan.engine.cycle import Question, filter_nodes, interested, score_nodes
from bayplan.engine.journal import Journal
from bayplan.engine.why import Why, explain
from bayplan.kube.kinds import ADMISSION_KINDS
from bayplan.kube.pod import Pod
from bayplan.runtimes.simulator.admitted import admitted
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Readings
from bayplan.state.sources.book import Declared, Sources, Watchers
from bayplan.wire.scale import to_wire

_GENERATION = 1


class Evaluated(msgspec.Struct, frozen=True, rename="camel"):
    """What the policies say of the pod, and what may make it untrue."""

    why: Why
    problems: dict[str, str]
    """What is wrong with sources, by name."""
    notes: list[str] = []
    """What could not be looked up."""


def evaluate(pod: Pod, files: Sequence[str], flags: Flags, *, weight: float = 1.0) -> Evaluated:
    """Filter and score the nodes of the cluster that the flags or the configuration name."""
    loaded = load_all(files, flags)
    if not loaded.policies:
        raise ConfigError("no policies: name a file, such as policy.py, or give --config FILE")
    cluster = take_snapshot(loaded.config.cluster, loaded.base, kinds=ADMISSION_KINDS)
    if cluster is None:
        raise ConfigError("no cluster: give --snapshot FILE or --kubeconfig FILE, or `cluster:` in the file")
    found = admitted(pod, cluster.objects)
    pod = found.pod
    mine = interested(loaded.policies, pod, shadows=True)
    readings, problems = asyncio.run(_ask_once(loaded.sources, mine, pod, cluster))
    why = judge(loaded.policies, pod, cluster.with_readings(readings), weight=weight)
    return Evaluated(why, problems, list(found.notes))


def judge(policies: Sequence[Policy], pod: Pod, cluster: Snapshot, *, weight: float) -> Why:
    """The same explanation as a server gives, with the best node by our scores as the chosen one."""
    journal = Journal()
    question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
    filtered = filter_nodes(policies, question)
    journal.write("filter", filtered, generation=_GENERATION)
    passed = [] if filtered.error else filtered.passed_names
    if passed:
        survivors = cluster.nodes.take(cluster.find(passed), passed)
        scored = score_nodes(policies, msgspec.structs.replace(question, nodes=survivors))
        journal.write("prioritize", scored, generation=_GENERATION)
    why = explain(
        journal.entries(), every_node=cluster.nodes.names, chosen="", to_wire=to_wire, weight=weight
    )
    assert why is not None, "the journal has a filter"
    best = why.ranking[0].node if why.ranking else passed[0] if len(passed) == 1 else ""
    return msgspec.structs.replace(why, decision=0, chosen=best, history=[])


async def _ask_once(
    declared: Sequence[Declared], policies: Sequence[Policy], pod: Pod, cluster: Snapshot
) -> tuple[Readings, dict[str, str]]:
    """What the sources say that these policies read, and why some say nothing."""
    wanted = {column.source for policy in policies for column in read_by(policy)}
    latches = {c for policy in policies for c in policy.columns if isinstance(c, Latch)}
    watchers = Watchers(nodes=lambda: cluster.nodes)
    mine = [each for each in declared if each.name in wanted]
    sources = Sources(mine, latches=latches, watchers=watchers)
    try:
        await asyncio.gather(*(poller.ask() for poller in sources.polled.values()))
        readings = await sources.about(pod, cluster.nodes.names, wanted=wanted)
    finally:
        await sources.close()
    return readings, {name: text for name, text in sources.problems().items() if text}
