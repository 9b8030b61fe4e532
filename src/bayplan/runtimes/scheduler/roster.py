"""The members of each gang: pods with gang labels, and pods that a ``gang`` hook assigns to one.

A pod's membership is worked out once. Hooks run in a policy thread, and the task that owns the queue writes
their answers here. If a hook fails for a pod, it runs again in the pod's own turn; in turns of other pods
only after a rest, so that they do not meet the same failure each time.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from bayplan.authoring.gang import Gang, may_be_in_gang
from bayplan.authoring.registry import Policy
from bayplan.engine.company import GangKey
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import ALONE, Membership, may_be_named, membership, names_gangs
from bayplan.kube.pod import Pod

Answer = tuple[Pod, Membership]

# Longer than any backoff, so that a pod in backoff is asked about in its own turn first.
_REST_SECONDS = (30.0, 300.0)


class Roster:
    """The pods that may be in a gang, and their gangs."""

    def __init__(
        self, policies: Callable[[str], Sequence[Policy]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``policies`` returns the policies of a scheduler name."""
        self._policies = policies
        self._clock = clock
        self._pods: dict[str, Pod] = {}
        self._unasked: dict[str, dict[str, None]] = {}
        # When the rest of each pod ends, and how long it is, by UID.
        self._rests: dict[str, tuple[float, float]] = {}
        self._said: dict[str, Membership] = {}
        # The members of each gang: the key of each pod, by UID.
        self._gangs: dict[GangKey, dict[str, str]] = {}
        # Whether a ``gang`` hook exists, by scheduler name; cached, since every watch event asks.
        self._names_gangs: dict[str, bool] = {}

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod may be in a gang, by its labels or by a hook; runs no hook."""
        name = pod.scheduler_name
        return may_be_in_gang(pod) or (self._hooked(name) and may_be_named(self._policies(name), pod))

    def seen(self, pod: Pod) -> None:
        """A pod of ours was added or changed; a finished pod is in no gang."""
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
        """Remove a pod; returns the gang that it was in."""
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
        """Forget all memberships, since a reload replaced the policies."""
        self._names_gangs.clear()
        for pod in [*self._pods.values()]:
            self.gone(pod.uid)
            self.seen(pod)

    def to_ask(self, namespace: str, *, first: str = "") -> list[Pod]:
        """The pods of a namespace without a known membership; the pod with UID ``first`` never rests."""
        now, unasked = self._clock(), self._unasked.get(namespace, {})
        others = [uid for uid in unasked if uid != first and self._rest(uid)[0] <= now]
        return [self._pods[uid] for uid in ([first, *others] if first in unasked else others)]

    def hooked(self, pods: Iterable[Pod]) -> bool:
        """Whether a hook must run for one of these pods."""
        return any(self._hooked(name) for name in {pod.scheduler_name for pod in pods})

    def ask(self, pods: Collection[Pod], attempt: Attempt) -> list[Answer]:
        """The membership of each pod; changes nothing, so it may run in a policy thread."""
        return [(pod, membership(self._policies(pod.scheduler_name), pod, attempt)) for pod in pods]

    def write(self, answers: Iterable[Answer]) -> None:
        """Keep the answers for pods that did not change meanwhile; a failed hook runs again later."""
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
                self._gangs.setdefault((pod.namespace, said.gang.name), {})[pod.uid] = pod.key

    def of(self, uid: str) -> Membership | None:
        """The pod's membership; ``None`` if it is not known yet."""
        return self._said.get(uid)

    def count(self, key: GangKey) -> int:
        """How many pods are known to be in the gang."""
        return len(self._gangs.get(key, ()))

    def gang(self, key: GangKey) -> Gang | None:
        """The gang's settings, by its first member; ``None`` if it has no members."""
        first = next(iter(self._gangs.get(key, ())), None)
        return None if first is None else self._said[first].gang

    def members(self, key: GangKey) -> list[Pod]:
        """Every pod that is known to be in the gang."""
        return [self._pods[uid] for uid in self._gangs.get(key, ())]

    def keys(self, key: GangKey) -> Mapping[str, str]:
        """The key ``namespace/name`` of every pod that is known to be in the gang, by UID."""
        return self._gangs.get(key, {})

    def _was_asked(self, pod: Pod) -> None:
        """Remove the pod from those to ask about, and its namespace if that was the last one."""
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
