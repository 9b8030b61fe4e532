"""Finds the gang of a pod: by the first policy that names one, else by the pod's labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bayplan.authoring import lift
from bayplan.authoring.gang import Gang, gang_by_labels
from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.cycle import interested
from bayplan.engine.guard import Attempt, Failure, guarded
from bayplan.kube.pod import Pod


@dataclass(frozen=True)
class Membership:
    """The gang of a pod, or why it is not known."""

    gang: Gang | None = None
    """``None`` for a pod that is placed by itself."""
    problem: str = ""
    """What is wrong with the pod's labels; the pod cannot be placed until they are corrected."""
    error: str = ""
    """How a hook with ``failurePolicy: Fail`` failed; asking again may help."""
    failures: tuple[tuple[Hook, Failure], ...] = field(default=(), compare=False)
    """Every hook that failed, ignored or not."""


ALONE = Membership()


def names_gangs(policies: Sequence[Policy]) -> bool:
    """Whether one of the policies has a ``gang`` hook."""
    return any(policy.of_kind("gang") and not policy.shadow for policy in policies)


def may_be_named(policies: Sequence[Policy], pod: Pod) -> bool:
    """Whether a policy that applies to the pod has a ``gang`` hook."""
    return any(policy.of_kind("gang") for policy in interested(policies, pod))


def membership(policies: Sequence[Policy], pod: Pod, attempt: Attempt) -> Membership:
    """Find the gang of the pod. Calls hooks: run it in a policy thread."""
    failures: list[tuple[Hook, Failure]] = []
    for policy in interested(policies, pod):
        for hook in policy.of_kind("gang"):
            named, failure, _ = guarded(hook, attempt, lambda h=hook: lift.gang(h, {"pod": pod}))  # type: ignore[misc]
            if failure is not None:
                failures.append((hook, failure))
                if policy.failure_policy == "Fail":
                    said = f"policy {policy.name!r} failed: {failure.text}"
                    return Membership(error=said, failures=tuple(failures))
            if named is not None:
                return Membership(named, failures=tuple(failures))
    try:
        return Membership(gang_by_labels(pod), failures=tuple(failures))
    except ValueError as error:
        return Membership(problem=str(error), failures=tuple(failures))
