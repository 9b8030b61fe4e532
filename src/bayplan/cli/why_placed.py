"""The sentences of ``bayplan why`` where Bayplan places pods itself: nobody else has a say."""

from typing import TYPE_CHECKING

from bayplan.cli.render import counted

if TYPE_CHECKING:
    from bayplan.engine.why import Why

POINTS = "total is 0 to 100: the scores of the policies, by their weights. The highest is taken."
NOT_SCORED = (
    ", which was not among the nodes that were scored: it was chosen at another attempt, or by somebody else."
)
NOT_LOOKED_AT = "not looked at: room was made for the pod on the other"


def looked_at(why: "Why") -> str:
    """Which nodes policies were asked about."""
    return "room was made for the pod there" if why.never_offered else "all there are"


def outcome(why: "Why", *, unseen: str) -> str:
    """Why the pod is on its node, or on none; ``unseen`` says why nobody knows where it went, if so."""
    if why.never_offered is None and not why.chosen:
        return "It was let into the queue, and is not judged yet."
    return _on_a_node(why) if why.chosen else _nowhere(why, unseen)


def would_be(why: "Why") -> str:
    """Where a pod that nobody has created would go."""
    if why.kept_out:
        return f"It would be kept out of the queue: {why.kept_out}"
    if why.error:
        return "There is no answer: the pod would be tried again and again."
    if not why.passed:
        return "No node passes: the pod would wait."
    if why.passed == 1:
        return f"Only {why.chosen} passes: Bayplan would choose it."
    if not why.ranking:
        return f"{why.passed} nodes pass, and no policy scores them: any would do."
    equal = sum(node.total == why.ranking[0].total for node in why.ranking) - 1
    others = f", or one of {equal} that are as good" if equal else ""
    return f"Bayplan would choose {why.chosen}{others}."


def _nowhere(why: "Why", unseen: str) -> str:
    if why.error:
        return "There was no answer: the pod is tried again."
    if not why.passed:
        return "No node passed: the pod waits until something changes."
    if why.bind_error:
        return "The bind was refused; the pod is tried again."
    passed = counted(why.passed, "node", "nodes")
    return unseen or (
        f"{passed} passed, and the pod is on none that this server sees: it is on its way, or it has ended."
    )


def _on_a_node(why: "Why") -> str:
    said = f"Bayplan chose {why.chosen}"
    if not why.passed:
        return f"The pod is on {why.chosen}: it was placed after the last attempt, or by somebody else."
    if not why.ranking:
        only = ", the only node that passed."
        return f"{said}{only if why.passed == 1 else ': no policy scored the nodes, so any would do.'}"
    best = why.ranking[0]
    mine = next((node for node in why.ranking if node.node == why.chosen), None)
    if mine is None:
        return said + NOT_SCORED
    if mine.total == best.total:
        return f"{said}: {'the best' if mine.place == 1 else f'as good as {best.node}'}."
    return (
        f"{said}, number {mine.place} of the last attempt: it was chosen at another one, or by somebody else."
    )
