"""What news could change a refusal, and so is worth another attempt."""

from bayplan.engine.choose import Choice
from bayplan.policies.default_profile import DEFAULT_PROFILE
from bayplan.runtimes.scheduler.queue import ANYTHING, News

NODES: News = frozenset({"nodes"})


def helped_by(choice: Choice) -> News:
    """The union over all who refused; anything, where one of them does not say."""
    topics: set[str] = set()
    of_pod = False
    for outcome, reason, _ in choice.filtered.groups():
        if not reason.helped_by:
            return ANYTHING
        topics |= reason.helped_by
        of_pod |= reason.of_pod
        if "pods" in reason.helped_by and outcome.hook.policy not in DEFAULT_PROFILE:
            # Whoever writes a policy need not know that pods which come are other news than pods which go.
            topics.add("placed")
    # A node that is new was refused by nobody yet.
    return frozenset(topics) if of_pod else frozenset(topics) | NODES


def refused_by(choice: Choice) -> frozenset[str]:
    """The policies that refused."""
    return frozenset(outcome.hook.policy for outcome, _, _ in choice.filtered.groups())
