"""Which pods a policy is for."""

from fnmatch import fnmatchcase

from msgspec import Struct

from bayplan.kube.pod import Pod
from bayplan.kube.selector import LabelSelector


class Scope(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """``for:`` in the configuration. Everything that is given must match; nothing given is all pods."""

    namespaces: tuple[str, ...] = ()
    """Names of namespaces, with ``*`` and ``?``."""
    pod_selector: LabelSelector = LabelSelector()
    """Labels of the pod."""

    def matches(self, pod: Pod) -> bool:
        """Whether the policy has a say about this pod."""
        if self.namespaces and not any(fnmatchcase(pod.namespace, n) for n in self.namespaces):
            return False
        return self.pod_selector.matches(pod.labels)


EVERY_POD = Scope()
