"""Who is in which gang: pods of ours that say so, or that a policy may say it of, as the watch brings them.

What a pod says is read once. Hooks are asked in a policy thread, and what they said is written down here, by
the task that owns the queue.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from bayplan.authoring.gang import may_be_in_gang
from bayplan.authoring.registry import Policy
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import ALONE, Membership, may_be_named, membership, names_gangs
from bayplan.kube.pod import Pod

GangKey = tuple[str, str]
"""Namespace and name."""
Answer = tuple[Pod, Membership]


class Roster:
    """The pods that may be in a gang, and their gangs."""

    def __init__(self, policies: Callable[[str], Sequence[Policy]]) -> None:
        """``policies`` are those of a scheduler's name."""
        self._policies = policies
        self._pods: dict[str, Pod] = {}
        self._unasked: dict[str, dict[str, None]] = {}
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

    def to_ask(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that nobody was asked about yet."""
        return [self._pods[uid] for uid in self._unasked.get(namespace, ())]

    def hooked(self, pods: Iterable[Pod]) -> bool:
        """Whether a hook has to be called for one of them."""
        return any(self._hooked(name) for name in {pod.scheduler_name for pod in pods})

    def ask(self, pods: Collection[Pod], attempt: Attempt) -> list[Answer]:
        """What each of them is in; changes nothing, so it may run in a policy thread."""
        return [(pod, membership(self._policies(pod.scheduler_name), pod, attempt)) for pod in pods]

    def write(self, answers: Iterable[Answer]) -> None:
        """Keep what was said, of pods that are still the same; a hook that failed is asked again."""
        for pod, said in answers:
            now = self._pods.get(pod.uid)
            same = now is not None and (now.labels, now.annotations) == (pod.labels, pod.annotations)
            if said.error or not same or pod.uid in self._said:
                continue
            self._was_asked(pod)
            self._said[pod.uid] = said
            if said.gang is not None:
                self._gangs.setdefault((pod.namespace, said.gang.name), {})[pod.uid] = None

    def of(self, uid: str) -> Membership | None:
        """What was said of a pod; ``None`` where nobody was asked."""
        return self._said.get(uid)

    def members(self, key: GangKey) -> list[Pod]:
        """Every pod that is known to be in the gang."""
        return [self._pods[uid] for uid in self._gangs.get(key, ())]

    def _was_asked(self, pod: Pod) -> None:
        """Nobody has to be asked about the pod; namespaces come and go too."""
        unasked = self._unasked.get(pod.namespace, {})
        unasked.pop(pod.uid, None)
        if not unasked:
            self._unasked.pop(pod.namespace, None)

    def _hooked(self, name: str) -> bool:
        known = self._names_gangs.get(name)
        if known is None:
            known = self._names_gangs[name] = names_gangs(self._policies(name))
        return known
