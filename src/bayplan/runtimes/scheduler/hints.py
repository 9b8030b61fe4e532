"""Queueing hints: which events could change a refusal, and so are worth another attempt."""

from bayplan.engine.choose import Choice
from bayplan.policies.default_profile import DEFAULT_PROFILE
from bayplan.runtimes.scheduler.queue import ANYTHING, News

NODES: News = frozenset({"nodes"})


def helped_by(choice: Choice) -> News:
    """The topics that may help, over all reasons; any topic if one reason does not say."""
    topics: set[str] = set()
    of_pod = False
    for outcome, reason, _ in choice.filtered.groups():
        if not reason.helped_by:
            return ANYTHING
        topics |= reason.helped_by
        of_pod |= reason.of_pod
        if "pods" in reason.helped_by and outcome.hook.policy not in DEFAULT_PROFILE:
            # Policies say "pods" for pods that go and pods that come; the queue has two topics for them.
            topics.add("placed")
    # A new node was not judged yet, so it may always help, unless the reason concerns the pod itself.
    return frozenset(topics) if of_pod else frozenset(topics) | NODES


def refused_by(choice: Choice) -> frozenset[str]:
    """The policies that refused."""
    return frozenset(outcome.hook.policy for outcome, _, _ in choice.filtered.groups())
