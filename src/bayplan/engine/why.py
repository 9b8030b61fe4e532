"""Explains from the journal why a pod is on its node, or on none.

kube-scheduler asks ``filter`` about the nodes that its own plugins let pass, and ``prioritize`` about those
that pass all filters. It never asks about nodes that another plugin refused, or that it did not look at (it
samples large clusters).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
from msgspec import Struct

from bayplan.authoring.verdict import Reason
from bayplan.engine.decision import NOBODY, NOT_IN_VIEW
from bayplan.engine.entry import Entry, Voice
from bayplan.engine.ranking import Ranked, ToWire, rank

_EXAMPLES = 5
_TOLD = 20
_HELP = {
    "pods": "pods that are on the node, or in its domain, would have to go",
    "nodes": "the node itself would have to change: its labels, its size",
    "time": "time would have to pass",
}


class RefusedGroup(Struct, frozen=True, rename="camel"):
    """Nodes that were refused by one policy for one reason."""

    policy: str
    hook: str
    reason: str
    count: int
    nodes: list[str]
    """The first few of these nodes."""
    details: list[str]
    """The reason's detail for each of ``nodes``."""
    change: str
    """What would have to change for the nodes to pass; ``""`` if the policy does not say."""
    shadow: bool = False
    """Whether a shadow policy would have refused them, without effect."""


class LeftOut(Struct, frozen=True, rename="camel"):
    """Candidates for preemption that one policy dropped for one reason."""

    policy: str
    reason: str
    count: int
    nodes: list[str]
    """The first few of these candidates."""
    shadow: bool = False
    """Whether a shadow policy would have dropped them, without effect."""


class HookRun(Struct, frozen=True, rename="camel"):
    """One hook that ran in the attempt."""

    policy: str
    hook: str
    kind: str
    milliseconds: float
    failure: str = ""
    ignored: bool = False
    """Whether the hook failed and abstains, by ``failurePolicy: Ignore``."""
    void: bool = False
    """Whether this is a soft filter that would have left no node, and so did not count."""
    shadow: bool = False


class Told(Struct, frozen=True, rename="camel"):
    """One journal entry about the pod, in a line."""

    decision: int
    at: str
    verb: str
    text: str


class Why(Struct, frozen=True, rename="camel"):
    """Everything known about a pod's last attempt."""

    pod: str
    uid: str
    decision: int
    """Number of the journal's entry; 0 if it was not taken from a journal."""
    at: str
    generation: int
    offered: int
    """How many nodes kube-scheduler asked about, or our scheduler looked at."""
    passed: int
    refused: list[RefusedGroup]
    """The groups of shadow policies come last, and have no effect."""
    not_in_view: list[str]
    never_offered: int | None
    """How many nodes of the cluster were not asked about; ``None`` if the cluster is not known."""
    never_offered_nodes: list[str]
    ranking: list[Ranked]
    chosen: str
    """The node that the pod is on; ``""`` if it waits."""
    error: str
    observe: bool
    weight: float
    """The weight of the extender in kube-scheduler, which the points are multiplied by."""
    history: list[Told]
    event: str = ""
    """Of a pod that every node was refused for: our part of kube-scheduler's event, in its words."""
    bind_error: str = ""
    """Why the last bind of this attempt was refused."""
    left_out: list[LeftOut] = []
    """The candidates that were dropped in the attempt's preemption."""
    hooks: list[HookRun] = []
    kept_out: str = ""
    """Which policy keeps the pod out of the queue, and why; ``""`` if none does."""
    pods_seen: bool = True
    """Whether the answerer sees the pods of the cluster now; a journal on disk does not."""
    pods_followed: bool = True
    """Whether the server watches pods at all."""
    kept: int = 0
    """With ``keep``: how many of the passing nodes the answer listed; 0 for all of them."""
    kept_nodes: list[str] = []
    """The first few of the listed nodes."""
    turn: int = 0
    """With ``keep``: how many earlier answers listed other nodes to this pod."""
    gone: bool = False
    """Whether the pod has ended or was deleted; ``chosen`` is the node that it was on."""
    evicted_for: str = ""
    """The pod that this one had to leave for, in the last eviction that Bayplan asked for."""
    schedules: bool = False
    """Whether Bayplan places pods itself (``bayplan schedule``), without kube-scheduler."""
    plugins: dict[str, float] = {}
    """Points that kube-scheduler's own plugins give to the ranked nodes, if they were worked out too."""


def explain(
    entries: Sequence[Entry],
    *,
    every_node: Iterable[str] | None,
    chosen: str,
    to_wire: ToWire | None,
    weight: float = 1.0,
) -> Why | None:
    """Explain the last attempt of a pod from its entries, newest first; ``None`` if there was none.

    ``to_wire`` is ``None`` if Bayplan places pods itself: scores are not sent to kube-scheduler then.
    """
    # An earlier pod of the same name has another UID.
    entries = [entry for entry in entries if entry.pod.uid == entries[0].pod.uid]
    verbs = [entry.verb for entry in entries]
    # An extender without a filterVerb has prioritize entries only.
    place = next((verbs.index(verb) for verb in ("filter", "gate", "prioritize") if verb in verbs), None)
    if place is None:
        return None
    # A pod that a gate keeps out was judged on no node.
    judged = verbs[place] != "gate"
    # By position: numbers start again with each process, and a journal on disk may span several.
    filtered, since = entries[place], entries[:place]
    cut = next((entry for entry in since if entry.verb == "keep"), None)
    # With one node in the answer no prioritize follows; then the scores of ``keep`` are shown.
    scored = next((entry for entry in entries[: place + 1] if entry.verb == "prioritize"), cut)
    bound = next((entry for entry in since if entry.verb == "bind"), None)
    preempted = next((entry for entry in since if entry.verb == "preempt"), None)
    offered = [*filtered.nodes, *filtered.not_in_view]
    if to_wire is None:
        # Our scheduler looks at every node that there was at that time.
        every_node = filtered.names
    missing = None if every_node is None or not judged else sorted(set(every_node) - set(offered))
    return Why(
        pod=filtered.pod.key,
        uid=filtered.pod.uid,
        decision=filtered.number,
        at=stamp(filtered.at),
        generation=filtered.generation,
        offered=filtered.offered,
        passed=0 if filtered.error else filtered.passed,
        refused=refused_groups(filtered),
        not_in_view=list(filtered.not_in_view),
        never_offered=None if missing is None else len(missing),
        never_offered_nodes=(missing or [])[:_EXAMPLES],
        ranking=[] if scored is None else rank(scored, to_wire=to_wire, weight=weight, chosen=chosen),
        chosen=chosen,
        error=(filtered.error if judged else "") or (scored.error if scored else ""),
        observe=filtered.observe,
        weight=weight,
        history=[_told(entry) for entry in entries[:_TOLD]],
        event=_event(filtered, never_offered=len(missing or ())),
        bind_error=bound.error if bound else "",
        left_out=[] if preempted is None else left_out(preempted),
        hooks=[_run(voice) for entry in {filtered: 0, scored: 0} if entry for voice in entry.voices],
        kept_out=entries[0].error if verbs[0] == "gate" else "",
        kept=0 if cut is None or cut.kept is None else len(cut.kept),
        kept_nodes=[] if cut is None else cut.kept_names(_EXAMPLES),
        turn=0 if cut is None else cut.turn,
        evicted_for=next((", ".join(entry.others) for entry in since if entry.verb == "evicted"), ""),
        schedules=to_wire is None,
    )


def stamp(at: float) -> str:
    """A time in RFC 3339, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def what_would_help(reason: Reason) -> str:
    """What would have to change for a node to pass, if the reason says so."""
    if reason.advice:
        return reason.advice
    helps = [_HELP[topic] for topic in sorted(reason.helped_by) if topic in _HELP]
    helps += [
        f"the source {topic.partition(':')[2]} would have to say otherwise"
        for topic in sorted(reason.helped_by)
        if topic.startswith("source:")
    ]
    if reason.preemptible and "pods" not in reason.helped_by:
        helps.append("pods on the node would have to go")
    return "; or ".join(helps)


def refused_groups(entry: Entry) -> list[RefusedGroup]:
    """The refused nodes by policy and reason, largest group first; shadow policies last."""
    groups = [_group(entry, voice, reason, places) for voice, reason, places in entry.groups()]
    return [*sorted(groups, key=lambda group: -group.count), *_shadowed(entry)]


def left_out(entry: Entry, *, limit: int | None = _EXAMPLES) -> list[LeftOut]:
    """The dropped candidates of a preemption by policy and reason, with ``limit`` names each, or all.

    Shadow policies come last.
    """
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for shadow, dropped in ((False, entry.dropped), (True, entry.would_drop)):
        for node, policy, text in dropped:
            groups.setdefault((policy, text, shadow), []).append(node)
    return [
        LeftOut(who, text, len(nodes), nodes[:limit], shadow) for (who, text, shadow), nodes in groups.items()
    ]


def bound_node(entries: Sequence[Entry]) -> str:
    """The node that we bound the pod of the newest entry to; ``""`` if we did not.

    A StatefulSet reuses names: a pod with another UID is another pod.
    """
    uid = entries[0].pod.uid if entries else ""
    return next((e.node for e in entries if e.verb == "bind" and not e.error and e.pod.uid == uid), "")


def _shadowed(entry: Entry) -> Iterator[RefusedGroup]:
    """The passing nodes that shadow policies would have refused."""
    for voice in entry.voices:
        if not voice.shadow or voice.void or voice.rows is None or voice.codes is None:
            continue
        alone = entry.refused_by[voice.rows] == NOBODY
        for code, reason in enumerate(voice.reasons, start=1):
            places = np.flatnonzero(alone & (voice.codes == code)).tolist()
            if places:
                yield _group(entry, voice, reason, places)


def _group(entry: Entry, voice: Voice, reason: Reason, places: list[int]) -> RefusedGroup:
    assert voice.rows is not None
    first = places[:_EXAMPLES]
    return RefusedGroup(
        policy=voice.policy,
        hook=voice.hook,
        reason=reason.text,
        count=len(places),
        nodes=[entry.name(voice.rows[place]) for place in first],
        details=[voice.detail(place) for place in first],
        change=what_would_help(reason),
        shadow=voice.shadow,
    )


def _event(entry: Entry, *, never_offered: int) -> str:
    """Our part of kube-scheduler's event: it merges equal reasons and sorts the lines as texts."""
    if entry.error or entry.observe or entry.passed or not entry.offered:
        return ""
    counts: Counter[str] = Counter()
    for _, reason, places in entry.groups():
        counts[reason.text] += len(places)
    if entry.not_in_view:
        counts[NOT_IN_VIEW.text] += len(entry.not_in_view)
    lines = sorted(f"{count} {text}" for text, count in counts.items())
    if never_offered:
        lines.append(f"and {never_offered} more in kube-scheduler's own words")
    return f"0/{entry.offered + never_offered} nodes are available: {', '.join(lines)}."


def _run(voice: Voice) -> HookRun:
    milliseconds, failure = voice.seconds * 1000, voice.failure
    return HookRun(
        voice.policy, voice.hook, voice.kind, milliseconds, failure, voice.ignored, voice.void, voice.shadow
    )


def _told(entry: Entry) -> Told:
    if entry.error:
        text = entry.error
    elif entry.verb == "gate":
        text = "let in"
    elif entry.verb == "bind":
        text = f"bound to {entry.node}"
    elif entry.verb == "evict":
        text = f"{', '.join(entry.others)} must leave {entry.node} for it"
    elif entry.verb == "evicted":
        text = f"must leave {entry.node} for {', '.join(entry.others)}"
    elif entry.verb == "preempt":
        text = f"{len(entry.dropped)} candidates left out"
    elif entry.kept is not None:
        text = f"{len(entry.kept)} of {entry.offered} nodes kept"
    elif entry.verb == "prioritize":
        text = "nobody scored the nodes" if entry.total is None else f"{entry.offered} nodes scored"
    else:
        text = f"{entry.passed} of {entry.offered} nodes passed"
    return Told(entry.number, stamp(entry.at), entry.verb, text)
