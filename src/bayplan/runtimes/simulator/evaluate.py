"""Evaluates a pod that was not created: which node it would go to, over every node of the cluster.

Sources are queried once. `Judges` says which policies judge. With the policies of an extender only,
kube-scheduler's own plugins do not run, so nodes that they would refuse are included.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import msgspec
import numpy as np

from bayplan.authoring.registry import Policy
from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError
from bayplan.config.reads import read_by
from bayplan.engine.choose import Choice
from bayplan.engine.cycle import Question, filter_nodes, interested, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.entering import Entrance
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.engine.membership import ALONE, membership
from bayplan.engine.ranking import Ranked, rank
from bayplan.engine.why import Why, explain
from bayplan.kube.kinds import ADMISSION_KINDS, EVERY_KIND
from bayplan.kube.pod import Pod
from bayplan.runtimes.simulator.admitted import admitted
from bayplan.runtimes.simulator.manifest import Manifest
from bayplan.runtimes.simulator.try_gang import GangTried, missing, try_gang
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Readings
from bayplan.state.sources.book import Declared, Sources, Watchers
from bayplan.state.sources.threads import run_apart
from bayplan.wire.scale import to_wire

_GENERATION = 1
_RANKED = 10


@dataclass(frozen=True)
class Judges:
    """The policies that judge a pod."""

    policies: Sequence[Policy]
    plugins: Sequence[Policy] = ()
    """kube-scheduler's own plugins as policies, which run before an extender; empty to leave them out."""
    schedules: bool = False
    """Whether Bayplan places the pod itself, without kube-scheduler."""
    notes: Sequence[str] = ()
    """Remarks about the policies, for people."""

    @property
    def every(self) -> list[Policy]:
        """All policies, in the order in which they run."""
        return [*self.plugins, *self.policies]


FindJudges = Callable[[Pod, Loaded], Judges]


def as_extender(pod: Pod, loaded: Loaded) -> Judges:
    """The policies of the configuration only, as an extender has them."""
    del pod
    return Judges(loaded.policies)


class Evaluated(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation for the pod, and what may make it untrue."""

    why: Why
    problems: dict[str, str]
    """The problems of sources, by name."""
    notes: list[str] = []
    """What could not be looked up, and what was left out."""
    gang: GangTried | None = None
    """The result for the pod's gang, if it is in one and Bayplan places it."""

    @property
    def finds_a_node(self) -> bool:
        """Whether a node was found for the pod, and for its whole gang if it is in one."""
        alone = bool(self.why.passed) and not self.why.kept_out
        return alone and (self.gang is None or self.gang.fits)


def evaluate(
    pod: Pod,
    files: Sequence[str],
    flags: Flags,
    *,
    weight: float = 1.0,
    find_judges: FindJudges = as_extender,
    manifest: Manifest | None = None,
) -> Evaluated:
    """Filter and score the nodes of the cluster that the flags or the configuration name.

    ``manifest`` is where the pod is from. A gang is tried as a whole, with all members that the manifest
    makes; a manifest of one pod stands for as many members as the gang needs.
    """
    loaded = load_all(files, flags)
    judges = find_judges(pod, loaded)
    if not judges.every:
        raise ConfigError("no policies: name a file, such as policy.py, or give --config FILE")
    # kube-scheduler's plugins read claims, Services, images and the like.
    wide = bool(judges.plugins) or judges.schedules
    cluster = take_snapshot(loaded, kinds=EVERY_KIND if wide else ADMISSION_KINDS, images=wide)
    if cluster is None:
        raise ConfigError("no cluster: give --snapshot FILE or --kubeconfig FILE, or `cluster:` in the file")
    found = admitted(pod, cluster.objects)
    notes = [*judges.notes, *found.notes]
    said = membership(judges.policies, found.pod, Attempt()) if judges.schedules else ALONE
    templates = [(found.pod, 1)]
    if said.gang is not None and manifest is not None and not manifest.sample:
        templates = [(admitted(one, cluster.objects).pod, count) for one, count in manifest.every()]
    elif said.gang is not None:
        templates = [(found.pod, missing(judges.policies, said.gang, found.pod, cluster))]
        notes.append(
            f"gang {said.gang.name} has {said.gang.size} pods: the others were tried as copies of it"
        )
    pods = [one for one, _ in templates]
    mine = [policy for one in pods for policy in interested(judges.every, one, shadows=True)]
    readings, problems = run_apart(_ask_once(loaded.sources, mine, pods, cluster))
    kept_out = said.problem or said.error
    if judges.schedules:
        kept_out = _kept_out(judges.policies, pods, cluster) or kept_out
    alone = partial(judge, judges, found.pod, cluster.with_readings(readings[0]), weight=weight)
    if said.gang is None or kept_out:
        return Evaluated(msgspec.structs.replace(alone(), kept_out=kept_out), problems, notes)
    copies = [(one, count, read) for (one, count), read in zip(templates, readings, strict=True)]
    tried = try_gang(judges.policies, said.gang, found.pod, copies, cluster)
    why = alone() if tried.choice is None else told(tried.choice, cluster, chosen=tried.node)
    return Evaluated(msgspec.structs.replace(why, kept_out=tried.kept_out), problems, notes, tried.gang)


def judge(judges: Judges, pod: Pod, cluster: Snapshot, *, weight: float) -> Why:
    """Judge the pod, and explain the decision as a server would, with the best node as the chosen one."""
    journal = Journal()
    question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
    filtered = filter_nodes(judges.every, question)
    journal.write("filter", filtered, generation=_GENERATION)
    passed = [] if filtered.error else filtered.passed_names
    theirs = None
    # With one node left, kube-scheduler does not score.
    if passed and not (judges.plugins and len(passed) == 1):
        survivors = cluster.nodes.take(cluster.find(passed), passed)
        asked = msgspec.structs.replace(question, nodes=survivors)
        journal.write("prioritize", score_nodes(judges.policies, asked), generation=_GENERATION)
        theirs = score_nodes(judges.plugins, asked) if judges.plugins else None
    entries = journal.entries()
    why = explain(
        entries,
        every_node=cluster.nodes.names,
        chosen="",
        to_wire=None if judges.schedules else to_wire,
        weight=weight,
    )
    assert why is not None, "the journal has a filter"
    if theirs is not None:
        ours = rank(entries[0], to_wire=to_wire, weight=weight, limit=len(passed))
        why = _with_plugins(why, ours, theirs)
    best = why.ranking[0].node if why.ranking else passed[0] if len(passed) == 1 else ""
    return msgspec.structs.replace(why, decision=0, chosen=best, history=[])


def told(choice: Choice, cluster: Snapshot, *, chosen: str) -> Why:
    """Explain a scheduler's choice, and the node that it took."""
    journal = Journal()
    journal.write("filter", choice.filtered, generation=_GENERATION)
    if choice.scored is not None:
        journal.write("prioritize", choice.scored, generation=_GENERATION)
    # Scores are not sent to kube-scheduler, so the weight does not matter.
    why = explain(journal.entries(), every_node=cluster.nodes.names, chosen="", to_wire=None, weight=1.0)
    assert why is not None, "the journal has a filter"
    return msgspec.structs.replace(why, decision=0, chosen=chosen, history=[])


def _with_plugins(why: Why, ours: list[Ranked], theirs: Decision) -> Why:
    """The ranking in kube-scheduler: the points of its plugins plus ours."""
    points = np.zeros(len(theirs.nodes))
    for outcome in theirs.outcomes:
        if outcome.normalised is not None:
            points += np.nan_to_num(outcome.normalised) * outcome.weight
    by_node = dict(zip(theirs.nodes.names, points.tolist(), strict=True))
    ours = ours or [Ranked(node, 0.0, 0, 0.0, []) for node in by_node]
    ordered = sorted(ours, key=lambda one: -(one.points + by_node[one.node]))
    ranking = [
        msgspec.structs.replace(one, place=place) for place, one in enumerate(ordered[:_RANKED], start=1)
    ]
    plugins = {one.node: by_node[one.node] for one in ranking}
    return msgspec.structs.replace(why, ranking=ranking, plugins=plugins)


def _kept_out(policies: Sequence[Policy], pods: Sequence[Pod], cluster: Snapshot) -> str:
    """Why a gate would keep one of the pods out of the queue; ``""`` if none would."""
    entrance, attempt = Entrance(policies), Attempt()
    for pod in pods:
        admission = entrance.ask(pod, cluster, attempt)
        if admission.reason is not None:
            who = f"{pod.name}: " if len(pods) > 1 else ""
            return f"{who}policy {admission.by}: {admission.reason.text}"
    return ""


async def _ask_once(
    declared: Sequence[Declared], policies: Sequence[Policy], pods: Sequence[Pod], cluster: Snapshot
) -> tuple[list[Readings], dict[str, str]]:
    """Query the sources that these policies read for each pod: their readings, and their problems."""
    wanted = {column.source for policy in policies for column in read_by(policy)}
    latches = {c for policy in policies for c in policy.columns if isinstance(c, Latch)}
    watchers = Watchers(nodes=lambda: cluster.nodes)
    mine = [each for each in declared if each.name in wanted]
    sources = Sources(mine, latches=latches, watchers=watchers)
    try:
        await asyncio.gather(*(poller.ask() for poller in sources.polled.values()))
        readings = [await sources.about(pod, cluster.nodes.names, wanted=wanted) for pod in pods]
    finally:
        await sources.close()
    return readings, {name: text for name, text in sources.problems().items() if text}
