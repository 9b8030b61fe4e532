"""The sentences of ``bayplan why``: what became of the pod, and why that can be."""

from typing import TYPE_CHECKING

from bayplan.cli import why_placed
from bayplan.cli.render import counted
from bayplan.engine.ranking import PLUGIN_POINTS

if TYPE_CHECKING:
    from bayplan.engine.ranking import Ranked
    from bayplan.engine.why import Why

_POINTS_A_STEP = 10
_PLUGINS = sum(PLUGIN_POINTS.values())


def headline(why: "Why") -> str:
    """What became of the pod, in a few words."""
    if why.decision == 0:
        return "not created"
    if why.gone:
        return f"gone, was on {why.chosen}"
    if why.chosen:
        return f"on {why.chosen}"
    if why.kept_out:
        return "kept out"
    if why.observe or (why.passed and _unseen(why)) or why.never_offered is None:
        return "asked about"
    return "not seen on a node" if why.passed else "waits"


def outcome(why: "Why") -> str:
    """Who chose what, and, where that is not our best, why that can be."""
    if why.decision == 0:
        return why_placed.would_be(why) if why.schedules else _would_be(why)
    if why.kept_out and not why.chosen:
        return f"It is kept out of the queue: {why.kept_out}. It is asked about again when that may change."
    gone = _gone(why) if why.gone else ""
    if why.schedules:
        return why_placed.outcome(why, unseen=_unseen(why)) + gone
    if why.observe and not why.chosen:
        return _observed(why)
    return _chosen(why) + gone if why.chosen else _nowhere(why)


def _gone(why: "Why") -> str:
    if why.evicted_for:
        return f" It had to leave for {why.evicted_for}, and is gone."
    return " It is not there any more: it has ended, or was deleted."


def _observed(why: "Why") -> str:
    """Whatever was found, errors too: nobody was held up by it."""
    found = "there was no answer" if why.error else f"{why.passed} of {why.offered} would have passed"
    return f"Bayplan only observes: kube-scheduler was told that every node passes. By its policies {found}."


def _nowhere(why: "Why") -> str:
    if why.error and not why.passed:
        return "There was no answer: kube-scheduler tries the pod again."
    if not why.passed:
        return "No node passed: the pod waits until something changes."
    if why.bind_error:
        return "The pod was refused at bind; kube-scheduler tries it again."
    if unseen := _unseen(why):
        return unseen
    passed = counted(why.passed, "node", "nodes")
    return (
        f"{passed} passed here, and the pod is on none that this server sees: it is on its way, it has ended,"
        " or a plugin or another extender that is asked after us refused the rest."
    )


def _unseen(why: "Why") -> str:
    """Why nobody knows where a pod went that could go somewhere; ``""`` where it would be known."""
    if why.never_offered is None:
        return "Where the pod is this server does not know: it was started without a cluster."
    if not why.pods_followed:
        return "Where the pod is this server does not know: it follows no pods (cluster.nodesOnly)."
    if not why.pods_seen:
        return "Where the pod went is not in the journal: nobody saw it on a node before the server was gone."
    return ""


def _would_be(why: "Why") -> str:
    if why.error and not why.passed:
        return "There is no answer: kube-scheduler would try the pod again and again."
    if not why.hooks:
        return "No policy is for this pod: every node passes untouched."
    if not why.passed:
        return "No node passes: the pod would wait."
    if not why.ranking:
        if why.passed == 1:
            return f"Only {why.chosen} passes."
        return (
            f"{why.passed} nodes pass, and no policy scores them: kube-scheduler's own plugins would choose."
        )
    return _of_both(why) if why.plugins else _by_our_scores(why)


def _by_our_scores(why: "Why") -> str:
    equal = sum(node.wire == why.ranking[0].wire for node in why.ranking) - 1
    others = f", or one of {equal} that are told to be as good" if equal else ""
    return (
        f"Bayplan's scores alone would choose {why.chosen}{others}. kube-scheduler asks its own plugins too:"
        " they refuse nodes, and add points of their own."
    )


def _of_both(why: "Why") -> str:
    """What kube-scheduler's plugins and ours come to."""
    sums = [node.points + why.plugins[node.node] for node in why.ranking]
    equal = sums.count(sums[0]) - 1
    others = f", or one of {equal} with as many points" if equal else ""
    return (
        f"kube-scheduler would choose {why.chosen}{others}: it has {sums[0]:g} points,"
        f" {why.ranking[0].points:g} of them from Bayplan."
    )


def _chosen(why: "Why") -> str:
    said = f"kube-scheduler chose {why.chosen}"
    if why.observe:
        return f"{said}. Bayplan only observes: it was told that every node passes, and no score."
    if why.kept:
        return _chosen_of_kept(why, said)
    if not why.ranking:
        only = why.passed == 1
        own = ", the only node that passed: it asks for no scores then."
        return f"{said}{own if only else '. No policy scored the nodes: its own plugins decided.'}"
    best = why.ranking[0]
    mine = next((node for node in why.ranking if node.node == why.chosen), None)
    if mine is None:
        return said + why_placed.NOT_SCORED
    if mine.wire == best.wire:
        return f"{said}: {'our best' if mine.place == 1 else f'told to be as good as our best, {best.node}'}."
    return f"{said}, our number {mine.place}. {_outweighed(mine, best, why.weight)}"


def _chosen_of_kept(why: "Why", said: str) -> str:
    mine = next((node for node in why.ranking if node.node == why.chosen), None)
    place = "" if mine is None else ", our best" if mine.place == 1 else f", our number {mine.place}"
    if why.kept == 1:
        if why.chosen not in why.kept_nodes:
            return f"{said}{place}, at another attempt: the last answer had another node alone."
        return f"{said}{place}: the only node that it was told, so it asks for no scores."
    return f"{said}{place}, of the {why.kept} nodes that it was told: its own plugins had a say among those."


def _outweighed(mine: "Ranked", best: "Ranked", weight: float) -> str:
    steps = best.wire - mine.wire
    enough = _PLUGINS // (steps * _POINTS_A_STEP) + 1
    text = (
        f"Our best, {best.node}, has {best.points - mine.points:g} points more from us;"
        f" kube-scheduler's own plugins can add up to {_PLUGINS}, and other extenders theirs."
    )
    if enough > weight:
        text += f" From `weight: {enough}` on its plugins could not outweigh such a difference."
    return text


def points(why: "Why") -> str:
    """What our points are beside those of kube-scheduler's own plugins."""
    if why.schedules:
        return why_placed.POINTS
    if why.kept == 1:
        return "kube-scheduler was told no scores: it asks for none where it is told one node."
    if why.plugins:
        return (
            f"points = told x weight x 10, here with --weight {why.weight:g}; plugins is what"
            " kube-scheduler's own plugins give. The highest sum is taken."
        )
    plugins = ", ".join(f"{name} {most}" for name, most in PLUGIN_POINTS.items())
    return (
        f"points = told x weight x 10, here with --weight {why.weight:g}: ours are at most"
        f" {why.weight * 100:g}. kube-scheduler's own plugins can add up to {_PLUGINS} ({plugins})."
    )


def kept(why: "Why") -> str:
    """Which nodes kube-scheduler was told, of an answer that was cut down."""
    more = why.kept - len(why.kept_nodes)
    names = ", ".join(why.kept_nodes) + (f" and {more} more" if more else "")
    text = f"of {why.passed} nodes that passed (extender.answer.keep: {why.kept}): {names}"
    if why.turn:
        text += f"; the pod had come {counted(why.turn, 'time', 'times')} before, so others had their turn"
    return text


def offered(why: "Why") -> str:
    """Which nodes those are that policies were asked about."""
    if why.schedules:
        return why_placed.looked_at(why)
    return "kube-scheduler asked about them" if why.decision else "all there are"


def never_offered(why: "Why") -> str:
    """What it means that kube-scheduler did not ask about a node."""
    if why.schedules:
        return why_placed.NOT_LOOKED_AT
    if why.never_offered == 1:
        return "not asked about: kube-scheduler's own plugins refused it, or did not look at it"
    return "not asked about: kube-scheduler's own plugins refused them, or did not look at them"
