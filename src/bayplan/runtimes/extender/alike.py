"""Which pods policies say the same about: their kind.

What a hook gets stands in its parameters. Where no hook that is for a pod asks for ``pod``, all pods that the
same policies are for are of one kind, whatever they look like. Else they must be alike in everything but
name, UID and age, as those of one controller are.
"""

from collections.abc import Sequence
from hashlib import blake2b

from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.engine.memory import likeness
from bayplan.kube.pod import Pod

_EVERY_POD = b"every pod"


class Alike:
    """Tells kinds apart, for one set of policies."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = [(policy.scope, not _looks_at_pods(policy)) for policy in policies]
        self._one = all(scope is EVERY_POD and blind for scope, blind in self._policies)

    def kind(self, pod: Pod) -> bytes:
        """The same for pods of one kind, and short; ``b""`` for a pod that is like no other."""
        if self._one:
            return _EVERY_POD
        there = [scope is EVERY_POD or scope.matches(pod) for scope, _ in self._policies]
        if all(blind for mine, (_, blind) in zip(there, self._policies, strict=True) if mine):
            return bytes(there) if any(there) else b""
        alike = likeness(pod)
        # Anything may be in an annotation.
        return blake2b(alike, digest_size=16).digest() if alike else b""


def _looks_at_pods(policy: Policy) -> bool:
    """Whether a hook of the policy does anything with the pod."""
    hooks = (*policy.of_kind("filter"), *policy.of_kind("score"))
    return any(hook.spec.uses_pod for hook in hooks)
