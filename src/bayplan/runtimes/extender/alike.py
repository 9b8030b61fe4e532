"""Groups pods into kinds: policies say the same about all pods of one kind.

Only hooks that promise to look at single nodes matter, since the results of no others are reused. A hook's
parameters say what it reads. If no such hook of the policies that apply to a pod takes ``pod``, all pods with
the same set of applicable policies are one kind. Else the pods of a kind must be equal in everything but
name, UID and age, as the pods of one controller are.
"""

from collections.abc import Sequence
from hashlib import blake2b

from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.engine.memory import likeness
from bayplan.engine.node_hooks import of_single_nodes
from bayplan.kube.pod import Pod

_EVERY_POD = b"every pod"


class Alike:
    """Finds the kind of a pod, for one set of policies."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = [(policy.scope, not _looks_at_pods(policy)) for policy in policies]
        self._one = all(scope is EVERY_POD and blind for scope, blind in self._policies)

    def kind(self, pod: Pod) -> bytes:
        """A short key of the pod's kind; ``b""`` for a pod that has no kind."""
        if self._one:
            return _EVERY_POD
        applies = [scope is EVERY_POD or scope.matches(pod) for scope, _ in self._policies]
        if all(blind for mine, (_, blind) in zip(applies, self._policies, strict=True) if mine):
            return bytes(applies) if any(applies) else b""
        alike = likeness(pod)
        # Hashed, since annotations may be large.
        return blake2b(alike, digest_size=16).digest() if alike else b""


def _looks_at_pods(policy: Policy) -> bool:
    """Whether a hook of the policy whose results are reused reads the pod."""
    return any(hook.spec.uses_pod for alone in of_single_nodes([policy]) for hook in alone.hooks)
