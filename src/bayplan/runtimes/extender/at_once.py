"""Answers filter and prioritize requests on the event loop from known verdicts, without asking policies.

The verdicts on pods of one kind are known for every node of the cluster (`engine/standing.py`) as long as
nodes, objects and sources do not change. A filter then looks up one verdict for each name and joins names. It
runs no code of a policy, so nothing can hang and no thread is needed. Anything unusual, such as a node that
is not in view or a pod that every node is refused for, goes to the policies (`verbs.py`).

Where some hooks look further than at one node, policies are asked, but the hooks that do not are not called:
`AtOnce.hooks` has their results.

Known answers are checked: one in `_CHECKED` requests goes to the policies instead, and every
`_CHECKED_SECONDS` one answered request is judged again while callers pause. If the verdicts differ, a hook
broke its promise (``reads="node"``): the log says so, and known answers stop until the next reload.
"""

import logging
import math
import time
from functools import partial
from itertools import compress

import numpy as np
from msgspec import Struct

from bayplan.engine.cycle import score_nodes
from bayplan.engine.decision import Decision, Rows
from bayplan.engine.guard import Attempt
from bayplan.engine.keep import best, first_of_equals
from bayplan.engine.node_hooks import NodeHooks, looks_at_node, of_single_nodes
from bayplan.engine.promise import broken
from bayplan.engine.standing import PASSES, may_stand
from bayplan.kube.pod import Pod
from bayplan.runtimes.extender import assemble
from bayplan.runtimes.extender.alike import Alike
from bayplan.runtimes.extender.followup import is_followup
from bayplan.runtimes.extender.kinds import Kinds
from bayplan.runtimes.extender.known import PASSED, Known, KnownHooks
from bayplan.runtimes.extender.known_record import Cut, KnownRecord, Mention
from bayplan.runtimes.extender.lengths import too_long
from bayplan.runtimes.extender.question import question_of
from bayplan.runtimes.extender.verbs import Answer, Judged, Verbs
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.lookup import MANY
from bayplan.snapshot.sources import Readings
from bayplan.wire import v1
from bayplan.wire.codec import WireError, decode

log = logging.getLogger(__name__)

# A check also takes a snapshot of the cluster, so that unpublished changes do not pile up.
_CHECKED, _CHECKED_SECONDS = 512, 10.0
# After `_IN_VAIN` pods in a row of no known kind, only one request in `_SELDOM` is looked up.
_IN_VAIN, _SELDOM = 32, 16
# A known answer waits for the journal with about 1/32 of the memory that a full decision takes.
_LIGHTER = 32


class _Lookup(Struct, frozen=True, eq=False):
    """A request whose pod is of a known kind and whose nodes are all in view."""

    body: bytes
    known: Known
    pod: Pod
    cluster: Snapshot
    names: list[str]
    rows: list[int] | Rows
    """The row of each name in the cluster's node table."""
    row_set: set[int]
    """The rows as a set, for a request of fewer than `MANY` nodes; else empty."""
    started: float

    @property
    def index(self) -> Rows:
        """The rows as an array, to index columns with."""
        return np.asarray(self.rows, dtype=np.intp)

    def mention(self, verb: str, number: int) -> Mention:
        """What the journal needs of this request; holds no body and no snapshot."""
        seconds = time.perf_counter() - self.started
        return Mention(verb, number, seconds, self.pod, self.cluster.nodes.names, self.known, self.rows)


class _Expected(Struct, frozen=True, eq=False):
    """The prioritize request that is expected after a filter."""

    filtered: _Lookup
    passed: list[str]
    listed: str
    """The same names as they stand in the answer to the filter, and in the expected request."""
    verdicts: bytes

    def is_asked_by(self, body: bytes) -> bool:
        """Whether this is the expected request, byte for byte."""
        return is_followup(body, self.filtered.body, self.listed)

    def lookup(self, body: bytes, cluster: Snapshot, readings: Readings) -> _Lookup | None:
        """The lookup for the expected request, without decoding it; ``None`` if the cluster has changed."""
        filtered, started = self.filtered, time.perf_counter()
        known, pod = filtered.known, filtered.pod
        if not known.holds(cluster, readings) or pod.uid in cluster.unsettled:
            return None
        rows, passes = filtered.rows, self.verdicts.translate(PASSED)
        if isinstance(rows, list):
            chosen: list[int] | Rows = list(compress(rows, passes))
        else:
            chosen = rows[np.frombuffer(passes, dtype=np.bool_)]
        return _Lookup(body, known, pod, cluster, self.passed, chosen, set(), started)


class AtOnce:
    """Answers requests from the known verdicts of one generation of policies.

    Used on the event loop only, but for `hooks`, which policy threads call.
    """

    def __init__(self, verbs: Verbs, *, asks_sources: bool) -> None:
        """``asks_sources``: whether a source is queried for each pod, which rules known answers out."""
        self._verbs = verbs
        may = not verbs.observe and not asks_sources
        self._able = may and may_stand(verbs.policies)
        self._reuses = self._able or (may and bool(of_single_nodes(verbs.policies)))
        self._record = KnownRecord(verbs.journal, verbs.metrics, verbs.generation)
        self._alike = Alike(verbs.policies)
        self._kinds = Kinds()
        self._expected: _Expected | None = None
        self._scores_wanted = False
        self._given = 0
        self._checked_at = 0.0
        self._in_vain = 0

    def hooks(self, pod: Pod, cluster: Snapshot, readings: Readings) -> NodeHooks | None:
        """The results of the hooks that need not be called for this pod, if any. For any thread."""
        if not self._reuses:
            return None
        known = self._kinds.look(self._alike.kind(pod), cluster, readings)
        return known.hooks if isinstance(known, KnownHooks) and not self._is_checked() else None

    def _is_checked(self) -> bool:
        """Whether this request, which could be answered from what is known, is judged anew as a check."""
        self._given += 1
        if self._given % _CHECKED:
            return False
        # Filter and prioritize come in turns, and both are to be checked.
        self._given += _CHECKED % 2 == 0
        return True

    def answer(self, verb: str, body: bytes, cluster: Snapshot, readings: Readings) -> Answer | None:
        """The answer to a ``filter`` or ``prioritize`` request; ``None`` if policies must be asked."""
        if not self._able or not self._worth_a_look():
            return None
        expected = self._expected if verb == "prioritize" else None
        if expected is not None and expected.is_asked_by(body):
            lookup = expected.lookup(body, cluster, readings)
        else:
            lookup = self._look_up(body, cluster, readings)
        if lookup is None:
            return None
        if verb == "prioritize":
            self._scores_wanted = True
            return self._prioritize(lookup)
        keep = self._verbs.keep
        return self._filter(lookup) if keep is None else self._keep(lookup, keep)

    def _look_up(self, body: bytes, cluster: Snapshot, readings: Readings) -> _Lookup | None:
        """Decode a request and find its pod's kind and its nodes' rows; ``None`` if either is unknown."""
        started = time.perf_counter()
        try:
            args = decode(body, v1.ExtenderArgs)
        except WireError:
            # `handle` answers it with the error.
            return None
        pod, names = args.pod, args.node_names
        if pod is None or args.nodes is not None or not names or _is_odd(pod, cluster):
            return None
        known = self._kinds.find(self._alike.kind(pod), cluster, readings)
        if not isinstance(known, Known):
            self._in_vain += 1
            return None
        self._in_vain = 0
        if self._is_checked():
            self._checked_at = started
            return None
        if len(names) < MANY:
            few = cluster.rows.find_few(names)
            return None if few is None else _Lookup(body, known, pod, cluster, names, *few, started)
        rows = cluster.rows.find_each(names)
        return None if rows is None else _Lookup(body, known, pod, cluster, names, rows, set(), started)

    def _worth_a_look(self) -> bool:
        # At DEBUG each decision is logged, and the text needs a full decision.
        if log.isEnabledFor(logging.DEBUG):
            return False
        if self._in_vain < _IN_VAIN:
            return True
        self._in_vain += 1
        return self._in_vain % _SELDOM == 0

    def _filter(self, lookup: _Lookup) -> Answer | None:
        """Answer with all passing nodes; ``None`` if there is none, since `handle` waits for changes then."""
        verdicts = lookup.known.verdicts_on(lookup.rows)
        passed = list(compress(lookup.names, verdicts.translate(PASSED)))
        if not passed:
            return None
        listed = assemble.quoted(passed)
        # With one node left kube-scheduler sends no prioritize.
        if self._scores_wanted and len(passed) > 1 and lookup.known.standing.scores:
            self._expected = _Expected(lookup, passed, listed, verdicts)
        return self._filter_answer(lookup, listed, verdicts)

    def _keep(self, lookup: _Lookup, keep: int) -> Answer | None:
        """Answer with the best ``keep`` of the passing nodes, or with all if they are no more than that."""
        known, uid, nodes = lookup.known, lookup.pod.uid, lookup.cluster.nodes
        turn = self._verbs.turns.of(uid)
        if keep == 1 and not turn and known.order and lookup.row_set:
            # The usual case, without NumPy, whose first call after a pause is slow.
            equals = known.best_of(lookup.row_set)
            if equals is None:
                return self._filter(lookup)
            first = equals[first_of_equals(nodes, equals, uid) if len(equals) > 1 else 0]
            return self._filter_answer(lookup, assemble.quoted([nodes.name(first)]), cut=Cut([first], 0))
        rows = lookup.index
        passed = rows[known.standing.verdicts[rows] == PASSES]
        if passed.size <= keep:
            return self._filter(lookup)
        part = nodes.take(passed)
        kept = best(known.standing.total(passed), part, uid, keep=keep, turn=turn).tolist()
        listed = assemble.quoted(part.name(place) for place in sorted(kept))
        cut = Cut([int(passed[place]) for place in kept], turn)
        return self._filter_answer(lookup, listed, cut=cut)

    def _filter_answer(
        self, lookup: _Lookup, listed: str, verdicts: bytes = b"", *, cut: Cut | None = None
    ) -> Answer:
        """Assemble a filter's answer; ``listed`` are the names to answer with, as JSON."""
        known = lookup.known
        failed = unresolvable = ""
        verbs = self._verbs
        every = verbs.tells_refusals(verbs.turn(lookup.pod))
        if every:
            verdicts_told = verdicts or known.verdicts_on(lookup.rows)
            failed, unresolvable = known.told_refusals(lookup.names, verdicts_told)
        less = not every and verbs.refusals == "again" and verdicts.count(PASSES) < len(verdicts)
        body = assemble.filter_answer(listed, failed, unresolvable)
        mention = lookup.mention("filter", verbs.journal.next_number())
        return Answer(
            body,
            cut_for=lookup.pod.uid if less or cut is not None else "",
            weight=len(lookup.names) // _LIGHTER,
            write_down=partial(self._record.filtered, mention, cut, verdicts),
        )

    def _prioritize(self, lookup: _Lookup) -> Answer | None:
        body = lookup.known.priorities(lookup.names, lookup.rows)
        if body is None:
            return None
        mention = lookup.mention("prioritize", self._verbs.journal.next_number())
        return Answer(
            body, weight=len(lookup.names) // _LIGHTER, write_down=partial(self._record.scored, mention)
        )

    def wanted(
        self, judged: Judged, cluster: Snapshot, readings: Readings, *, within_seconds: float = math.inf
    ) -> bytes:
        """The kind of a judged pod, if it is time to learn about it on all nodes; else ``b""``.

        It is not if a hook that took so long for the nodes asked about would take longer for all of them.
        """
        if not self._reuses or not judged.by_name:
            return b""
        count = len(cluster.nodes)
        if any(_slowest(each) * count > within_seconds * len(each.nodes) for each in _decisions(judged)):
            return b""
        pod = judged.question.pod
        kind = self._alike.kind(pod)
        return kind if kind and self._kinds.wanted(kind, pod.uid, cluster, readings) else b""

    def learned(self, kind: bytes, known: Known | KnownHooks | None, cluster: Snapshot) -> None:
        """Use what was learned about a kind from now on; ``None`` if nothing could be learned."""
        # Fresh verdicts need no check.
        self._checked_at = time.perf_counter()
        self._kinds.learned(kind, known, cluster)

    def due(self, now: float) -> bool:
        """Whether it is time to check a known answer; a yes restarts the clock."""
        if now - self._checked_at <= _CHECKED_SECONDS:
            return False
        self._checked_at = now
        return True

    def judge(
        self, verb: str, body: bytes, cluster: Snapshot, readings: Readings, attempt: Attempt
    ) -> Judged:
        """Ask the policies about a request that was answered already, for `check`; nothing is recorded."""
        question, policies = question_of(body, cluster, readings, attempt.now), self._verbs.policies
        if verb == "prioritize":
            return Judged(question, score_nodes(policies, question, attempt), 0)
        decision, cut = self._verbs.filtered(policies, question, attempt)
        return Judged(question, decision, 0, cut=cut)

    def check(self, judged: Judged, cluster: Snapshot, readings: Readings, *, scored: bool) -> None:
        """Compare a decision of the policies with what is known; reuse nothing any more if they differ."""
        question = judged.question
        if not self._reuses or not judged.by_name or question.not_in_view or question.known is not None:
            return
        known = self._kinds.look(self._alike.kind(question.pod), cluster, readings)
        if known is None:
            return
        said = known.standing if isinstance(known, Known) else known.hooks
        problems = (broken(said, each, scored=scored or each is judged.cut) for each in _decisions(judged))
        if problem := next(filter(None, problems), ""):
            self._able = self._reuses = False
            self._kinds.clear()
            self._expected = None
            log.error("%s; until the configuration is loaded again every pod is judged anew", problem)

    def __len__(self) -> int:
        return len(self._kinds)


def _decisions(judged: Judged) -> list[Decision]:
    """The decision, and with `keep` the scores behind it: nobody else asks for them."""
    return [judged.decision] if judged.cut is None else [judged.decision, judged.cut]


def _slowest(decision: Decision) -> float:
    """The seconds of the slowest hook that looks at single nodes."""
    return max((o.seconds for o in decision.outcomes if looks_at_node(o.hook)), default=0.0)


def _is_odd(pod: Pod, cluster: Snapshot) -> bool:
    """Whether this pod is left to `verbs.py`, which refuses it or knows of its bind."""
    return bool(too_long(pod)) or pod.uid in cluster.unsettled
