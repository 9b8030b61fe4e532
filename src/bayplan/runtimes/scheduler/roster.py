"""Who is in which gang: pods of ours that say so, or that a policy may say it of, as the watch brings them.

What a pod says is read once. Hooks are asked in a policy thread, and what they said is written down here, by
the task that owns the queue. A pod that a hook failed for is asked about again in its own turn. For the sake
of others it is only after a rest: they must not meet the same failure in each of their turns.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from bayplan.authoring.gang import Gang, may_be_in_gang
from bayplan.authoring.registry import Policy
from bayplan.engine.company import GangKey
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import ALONE, Membership, may_be_named, membership, names_gangs
from bayplan.kube.pod import Pod

Answer = tuple[Pod, Membership]

# Longer than any pause of the queue: a pod that waits there is asked about in its own turn.
_REST_SECONDS = (30.0, 300.0)


class Roster:
    """The pods that may be in a gang, and their gangs."""

    def __init__(
        self, policies: Callable[[str], Sequence[Policy]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``policies`` are those of a scheduler's name."""
        self._policies = policies
        self._clock = clock
        self._pods: dict[str, Pod] = {}
        self._unasked: dict[str, dict[str, None]] = {}
        # Until when, and how long that is, by UID.
        self._rests: dict[str, tuple[float, float]] = {}
        self._said: dict[str, Membership] = {}
        self._gangs: dict[GangKey, dict[str, None]] = {}
        # By the name of a scheduler: every event of every pod asks.
        self._names_gangs: dict[str, bool] = {}

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod may be in a gang; who is asked about one pod at a time need not know more."""
        name = pod.scheduler_name
        return may_be_in_gang(pod) or (self._hooked(name) and may_be_named(self._policies(name), pod))

    def seen(self, pod: Pod) -> None:
        """A pod of ours is there, or is different; one that has ended is in no gang."""
        if pod.finished:
            self.gone(pod.uid)
            return
        before = self._pods.get(pod.uid)
        if before is not None and (before.labels, before.annotations) == (pod.labels, pod.annotations):
            self._pods[pod.uid] = pod
            return
        self.gone(pod.uid)
        if self.concerns(pod):
            self._pods[pod.uid] = pod
            self._unasked.setdefault(pod.namespace, {})[pod.uid] = None

    def gone(self, uid: str) -> GangKey | None:
        """The pod is not there any more; the gang that it was in, if it was."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._was_asked(pod)
        said = self._said.pop(uid, ALONE)
        if said.gang is None:
            return None
        key = (pod.namespace, said.gang.name)
        members = self._gangs[key]
        del members[uid]
        if not members:
            del self._gangs[key]
        return key

    def ask_again(self) -> None:
        """The policies are others now."""
        self._names_gangs.clear()
        for pod in [*self._pods.values()]:
            self.gone(pod.uid)
            self.seen(pod)

    def to_ask(self, namespace: str, *, first: str = "") -> list[Pod]:
        """The pods of a namespace that nobody was asked about yet; the one with UID ``first`` never rests."""
        now, unasked = self._clock(), self._unasked.get(namespace, {})
        others = [uid for uid in unasked if uid != first and self._rest(uid)[0] <= now]
        return [self._pods[uid] for uid in ([first, *others] if first in unasked else others)]

    def hooked(self, pods: Iterable[Pod]) -> bool:
        """Whether a hook has to be called for one of them."""
        return any(self._hooked(name) for name in {pod.scheduler_name for pod in pods})

    def ask(self, pods: Collection[Pod], attempt: Attempt) -> list[Answer]:
        """What each of them is in; changes nothing, so it may run in a policy thread."""
        return [(pod, membership(self._policies(pod.scheduler_name), pod, attempt)) for pod in pods]

    def write(self, answers: Iterable[Answer]) -> None:
        """Keep what was said, of pods that are still the same; a hook that failed is asked again, later."""
        for pod, said in answers:
            now = self._pods.get(pod.uid)
            same = now is not None and (now.labels, now.annotations) == (pod.labels, pod.annotations)
            if not same or pod.uid in self._said:
                continue
            if said.error:
                seconds = min(max(2 * self._rest(pod.uid)[1], _REST_SECONDS[0]), _REST_SECONDS[1])
                self._rests[pod.uid] = self._clock() + seconds, seconds
                continue
            self._was_asked(pod)
            self._said[pod.uid] = said
            if said.gang is not None:
                self._gangs.setdefault((pod.namespace, said.gang.name), {})[pod.uid] = None

    def of(self, uid: str) -> Membership | None:
        """What was said of a pod; ``None`` where nobody was asked."""
        return self._said.get(uid)

    def count(self, key: GangKey) -> int:
        """How many pods are known to be in the gang."""
        return len(self._gangs.get(key, ()))

    def gang(self, key: GangKey) -> Gang | None:
        """What the first of its members says of the gang; ``None`` where nobody is in it."""
        first = next(iter(self._gangs.get(key, ())), None)
        return None if first is None else self._said[first].gang

    def members(self, key: GangKey) -> list[Pod]:
        """Every pod that is known to be in the gang."""
        return [self._pods[uid] for uid in self._gangs.get(key, ())]

    def _was_asked(self, pod: Pod) -> None:
        """Nobody has to be asked about the pod; namespaces come and go too."""
        unasked = self._unasked.get(pod.namespace, {})
        unasked.pop(pod.uid, None)
        self._rests.pop(pod.uid, None)
        if not unasked:
            self._unasked.pop(pod.namespace, None)

    def _rest(self, uid: str) -> tuple[float, float]:
        return self._rests.get(uid, (0.0, 0.0))

    def _hooked(self, name: str) -> bool:
        known = self._names_gangs.get(name)
        if known is None:
            known = self._names_gangs[name] = names_gangs(self._policies(name))
        return known
