"""Answers that need no policy any more: the event loop gives them itself, the moment a request is whole.

What policies say about pods of a kind is known for every node of the cluster (`engine/standing.py`), as long
as nodes, objects and sources stay as they are. A `filter` is then one look for each name, and joining. There
is no thread to hand over to, since there is nothing that could hang. Whatever is not quite usual, a node that
is not in view, a pod without any node, is judged as ever.

Now and then a pod that could be answered so is judged as ever nevertheless, or after it was answered, when
callers pause. What comes out is compared: a promise that is not kept is told in the log, and nobody relies on
it any more.
"""

import logging
import time
from functools import partial
from itertools import compress

import numpy as np
from msgspec import Struct

from bayplan.engine.cycle import filter_nodes, score_nodes
from bayplan.engine.decision import Rows
from bayplan.engine.guard import Attempt
from bayplan.engine.keep import best, first_of_equals
from bayplan.engine.promise import broken
from bayplan.engine.standing import PASSES, may_stand
from bayplan.kube.pod import Pod
from bayplan.runtimes.extender import assemble
from bayplan.runtimes.extender.alike import Alike
from bayplan.runtimes.extender.followup import followup
from bayplan.runtimes.extender.kinds import Kinds
from bayplan.runtimes.extender.known import PASSED, Known
from bayplan.runtimes.extender.known_record import Cut, KnownRecord, Mention
from bayplan.runtimes.extender.verbs import Answer, Judged, Verbs, question_of
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.lookup import MANY
from bayplan.snapshot.sources import Readings
from bayplan.wire import v1
from bayplan.wire.codec import WireError, decode

log = logging.getLogger(__name__)

# Of answers that are known, one in so many is worked out instead, and one after so long a time besides: that
# is also when somebody takes a picture of the cluster, so that news of it do not pile up.
_CHECKED, _CHECKED_SECONDS = 512, 10.0
# Where so many pods in a row were of no known kind, most of those that follow are not looked at.
_IN_VAIN, _SELDOM = 32, 16
# Beside a decision that was worked out, what is kept of one that was known is next to nothing.
_LIGHTER = 32


class _About(Struct, frozen=True, eq=False):
    """What one request is about."""

    body: bytes
    known: Known
    pod: Pod
    cluster: Snapshot
    names: list[str]
    rows: list[int] | Rows
    different: set[int]
    """The same, where they are few."""
    started: float

    @property
    def places(self) -> Rows:
        """Their rows, as columns are indexed."""
        return np.asarray(self.rows, dtype=np.intp)

    def mention(self, verb: str, number: int) -> Mention:
        """Who was asked about, for the journal; nothing that takes memory until it is written down."""
        seconds = time.perf_counter() - self.started
        return Mention(verb, number, seconds, self.pod, self.cluster.nodes.names, self.known, self.rows)


class _Expected(Struct, frozen=True, eq=False):
    """The prioritize that is to follow a filter."""

    body: bytes
    """As it will be asked, byte for byte."""
    filtered: _About
    passed: list[str]
    verdicts: bytes

    def about(self, cluster: Snapshot, readings: Readings) -> _About | None:
        """What it is about, without reading it: the nodes that passed; ``None`` where things have changed."""
        filtered, started = self.filtered, time.perf_counter()
        known, pod = filtered.known, filtered.pod
        if not known.holds(cluster, readings) or pod.uid in cluster.unsettled:
            return None
        rows, passes = filtered.rows, self.verdicts.translate(PASSED)
        if isinstance(rows, list):
            chosen: list[int] | Rows = list(compress(rows, passes))
        else:
            chosen = rows[np.frombuffer(passes, dtype=np.bool_)]
        return _About(self.body, known, pod, cluster, self.passed, chosen, set(), started)


class AtOnce:
    """What one set of policies is known to say. It belongs to the event loop."""

    def __init__(self, verbs: Verbs, *, asks_sources: bool) -> None:
        """``asks_sources``: whether a source is asked about each pod."""
        self._verbs = verbs
        self._able = may_stand(verbs.policies) and not verbs.observe and not asks_sources
        self._record = KnownRecord(verbs.journal, verbs.metrics, verbs.generation)
        self._alike = Alike(verbs.policies)
        self._kinds = Kinds()
        self._expected: _Expected | None = None
        self._scores_wanted = False
        self._given = 0
        self._checked_at = 0.0
        self._in_vain = 0

    def answer(self, verb: str, body: bytes, cluster: Snapshot, readings: Readings) -> Answer | None:
        """The answer to a ``filter`` or ``prioritize``; ``None`` where policies have to be asked."""
        if not self._able or not self._worth_a_look():
            return None
        expected = self._expected if verb == "prioritize" else None
        if expected is not None and expected.body == body:
            about = expected.about(cluster, readings)
        else:
            about = self._about(body, cluster, readings)
        if about is None:
            return None
        if verb == "prioritize":
            self._scores_wanted = True
            return self._prioritize(about)
        keep = self._verbs.keep
        return self._filter(about) if keep is None else self._keep(about, keep)

    def _about(self, body: bytes, cluster: Snapshot, readings: Readings) -> _About | None:
        """What a request is about, where that is known and in view."""
        started = time.perf_counter()
        try:
            args = decode(body, v1.ExtenderArgs)
        except WireError:
            # Who answers it will say so.
            return None
        pod, names = args.pod, args.node_names
        if pod is None or args.nodes is not None or not names or pod.uid in cluster.unsettled:
            return None
        known = self._kinds.find(self._alike.kind(pod), cluster, readings)
        if known is None:
            self._in_vain += 1
            return None
        self._in_vain = 0
        self._given += 1
        if self._given % _CHECKED == 0:
            self._checked_at = started
            return None
        if len(names) < MANY:
            few = cluster.rows.find_few(names)
            return None if few is None else _About(body, known, pod, cluster, names, *few, started)
        rows = cluster.rows.find_each(names)
        return None if rows is None else _About(body, known, pod, cluster, names, rows, set(), started)

    def _worth_a_look(self) -> bool:
        # There the log tells of each decision, in words that are made of the whole of it.
        if log.isEnabledFor(logging.DEBUG):
            return False
        if self._in_vain < _IN_VAIN:
            return True
        self._in_vain += 1
        return self._in_vain % _SELDOM == 0

    def _filter(self, about: _About) -> Answer | None:
        """All nodes that pass; where there is none, news are waited for, and not here."""
        verdicts = about.known.verdicts_on(about.rows)
        passed = list(compress(about.names, verdicts.translate(PASSED)))
        if not passed:
            return None
        told = assemble.quoted(passed)
        # With one node left kube-scheduler asks nobody.
        if self._scores_wanted and len(passed) > 1 and about.known.standing.scores:
            following = followup(about.body, told)
            self._expected = _Expected(following, about, passed, verdicts) if following else None
        return self._told(about, told, verdicts)

    def _keep(self, about: _About, keep: int) -> Answer | None:
        """The best of the nodes that pass; all of them where they are no more than that."""
        known, uid, nodes = about.known, about.pod.uid, about.cluster.nodes
        turn = self._verbs.turns.of(uid)
        if keep == 1 and not turn and known.order and about.different:
            # The usual case without NumPy, which is slow when it was not called for a while.
            equals = known.best_of(about.different)
            if equals is None:
                return self._filter(about)
            first = equals[first_of_equals(nodes, equals, uid) if len(equals) > 1 else 0]
            return self._told(about, assemble.quoted([nodes.name(first)]), cut=Cut([first], 0))
        passed = about.places[known.standing.verdicts[about.places] == PASSES]
        if passed.size <= keep:
            return self._filter(about)
        part = nodes.take(passed)
        kept = best(known.standing.total(passed), part, uid, keep=keep, turn=turn).tolist()
        told = assemble.quoted(part.name(place) for place in sorted(kept))
        return self._told(about, told, cut=Cut([int(passed[place]) for place in kept], turn))

    def _told(self, about: _About, told: str, verdicts: bytes = b"", *, cut: Cut | None = None) -> Answer:
        known = about.known
        failed = unresolvable = ""
        verbs = self._verbs
        every = verbs.tells_refusals(verbs.turn(about.pod))
        if every:
            failed, unresolvable = known.told_refusals(about.names, verdicts or known.verdicts_on(about.rows))
        less = not every and verbs.refusals == "again" and verdicts.count(PASSES) < len(verdicts)
        body = assemble.filter_answer(told, failed, unresolvable)
        mention = about.mention("filter", verbs.journal.next_number())
        return Answer(
            body,
            cut_for=about.pod.uid if less or cut is not None else "",
            weight=len(about.names) // _LIGHTER,
            write_down=partial(self._record.filtered, mention, cut, verdicts),
        )

    def _prioritize(self, about: _About) -> Answer | None:
        body = about.known.priorities(about.names, about.rows)
        if body is None:
            return None
        mention = about.mention("prioritize", self._verbs.journal.next_number())
        return Answer(
            body, weight=len(about.names) // _LIGHTER, write_down=partial(self._record.scored, mention)
        )

    def wanted(self, judged: Judged, cluster: Snapshot, readings: Readings) -> bytes:
        """The kind of a pod that was judged, where it is time to learn what is said about all nodes."""
        pod = judged.question.pod
        kind = self._alike.kind(pod) if self._able and judged.by_name else b""
        return kind if kind and self._kinds.wanted(kind, pod.uid, cluster, readings) else b""

    def learned(self, kind: bytes, known: Known | None, cluster: Snapshot) -> None:
        """Use it from now on; ``None`` where nothing could be learned."""
        # What is fresh need not be checked.
        self._checked_at = time.perf_counter()
        self._kinds.learned(kind, known, cluster)

    def due(self, now: float) -> bool:
        """Whether it is time to work an answer out besides; it is so once."""
        if now - self._checked_at <= _CHECKED_SECONDS:
            return False
        self._checked_at = now
        return True

    def judge(
        self, verb: str, body: bytes, cluster: Snapshot, readings: Readings, attempt: Attempt
    ) -> Judged:
        """What policies say to a request that was answered, for `check`; nobody else is told of it."""
        question = question_of(body, cluster, readings, attempt.now)
        judge = score_nodes if verb == "prioritize" else filter_nodes
        return Judged(question, judge(self._verbs.policies, question, attempt), 0)

    def check(self, judged: Judged, cluster: Snapshot, readings: Readings, *, scored: bool) -> None:
        """Compare what was said with what would have been: a promise may not be kept."""
        question = judged.question
        if not self._able or not judged.by_name or question.not_in_view:
            return
        known = self._kinds.find(self._alike.kind(question.pod), cluster, readings)
        if known is None:
            return
        problem = broken(known.standing, judged.decision, scored=scored)
        if problem:
            self._able = False
            self._kinds.clear()
            self._expected = None
            log.error("%s; until the configuration is loaded again every pod is judged anew", problem)

    def __len__(self) -> int:
        return len(self._kinds)
