"""Why a pod is where it is: counts, words, points and errors, as the journal has them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import bayplan
from bayplan import Reason
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.ranking import PLUGIN_POINTS
from bayplan.engine.why import Why, explain, what_would_help
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_pod
from bayplan.wire.scale import to_wire

CLUSTER = make_cluster(["small", "slow", "good", "better"])
POD = make_pod("p", uid="first")
SMALL = Reason("too small", detail="{cores} cores", helped_by=frozenset({"nodes"}))
SLOW = Reason("too slow")


@bayplan.filter
def size(pod: Any, nodes: Any) -> Any:
    return SMALL.where([name == "small" for name in nodes.names], cores=[1, 8, 8, 8])


@bayplan.filter
def speed(pod: Any, nodes: Any) -> Any:
    return SLOW.where([name in ("small", "slow") for name in nodes.names])


@bayplan.filter
def nowhere(pod: Any, nodes: Any) -> Any:
    return SLOW.where([True] * len(nodes))


@bayplan.filter
def not_good(pod: Any, nodes: Any) -> Any:
    return Reason("not good").where([name in ("good", "slow") for name in nodes.names])


@bayplan.prefer
def none_at_all(pod: Any, nodes: Any) -> Any:
    return Reason("not to our taste").where([True] * len(nodes))


@bayplan.filter
def breaks(pod: Any, nodes: Any) -> Any:
    raise ValueError("no such thing")


@bayplan.score(range=(0, 100))
def likes(pod: Any, nodes: Any) -> Any:
    wanted = {"good": 40.0, "better": 80.0}
    return [wanted.get(name, 0.0) for name in nodes.names]


@bayplan.score(range=(0, 100))
def knows_only_better(pod: Any, nodes: Any) -> Any:
    return [100.0 if name == "better" else float("nan") for name in nodes.names]


def policy(*functions: Callable[..., Any], name: str, **settings: Any) -> Policy:
    hooks = tuple(Hook(name, f.__name__, getattr(f, HOOK), f) for f in functions)
    return Policy(name, hooks, **settings)


class Server:
    """Whoever is asked by kube-scheduler, and writes down what was said."""

    def __init__(self, *policies: Policy, cluster: Snapshot = CLUSTER) -> None:
        self.policies = policies
        self.cluster = cluster
        self.journal = Journal(clock=lambda: 1_700_000_000.5)

    def filter(
        self, names: Sequence[str], *, pod: Pod = POD, missing: tuple[str, ...] = (), observe: bool = False
    ) -> None:
        decision = filter_nodes(self.policies, self._ask(names, pod, missing))
        self.journal.write("filter", decision, generation=3, observe=observe)

    def prioritize(self, names: Sequence[str], *, pod: Pod = POD) -> None:
        self.journal.write("prioritize", score_nodes(self.policies, self._ask(names, pod)), generation=3)

    def why(self, *, chosen: str = "", weight: float = 1.0, known: bool = True) -> Why:
        names = self.cluster.nodes.names if known else None
        entries = self.journal.of_pod(POD.key)
        found = explain(entries, every_node=names, chosen=chosen, to_wire=to_wire, weight=weight)
        assert found is not None
        return found

    def _ask(self, names: Sequence[str], pod: Pod, missing: tuple[str, ...] = ()) -> Question:
        rows = self.cluster.find(names)
        table = self.cluster.nodes.take(rows, list(names))
        return Question(pod, table, self.cluster, datetime(2026, 1, 1, tzinfo=UTC), missing)


EVERY = ["small", "slow", "good", "better"]


def test_each_node_is_counted_with_the_one_that_refused_it_first() -> None:
    server = Server(policy(size, name="sizes"), policy(speed, name="speeds"))
    server.filter(EVERY)

    why = server.why()

    assert (why.offered, why.passed, why.never_offered) == (4, 2, 0)
    assert [(g.policy, g.hook, g.reason, g.count, g.nodes, g.details) for g in why.refused] == [
        ("sizes", "size", "too small", 1, ["small"], ["1 cores"]),
        ("speeds", "speed", "too slow", 1, ["slow"], [""]),
    ]
    assert (why.decision, why.at, why.generation) == (1, "2023-11-14T22:13:20.500Z", 3)


def test_the_rows_of_a_group_are_those_of_the_nodes_that_were_asked_about() -> None:
    server = Server(policy(speed, name="speeds"))
    server.filter(["better", "slow", "good", "small"])

    assert server.why().refused[0].nodes == ["slow", "small"]


def test_what_kube_scheduler_did_not_ask_about_is_not_refused() -> None:
    server = Server(policy(speed, name="speeds"))
    server.filter(["slow", "good"])

    why = server.why()

    assert (why.offered, why.passed, sum(group.count for group in why.refused)) == (2, 1, 1)
    assert (why.never_offered, why.never_offered_nodes) == (2, ["better", "small"])
    assert server.why(known=False).never_offered is None


@pytest.mark.parametrize(
    ("names", "missing", "said"),
    [
        pytest.param(
            EVERY[:2],
            (),
            "0/4 nodes are available: 2 too slow, and 2 more in kube-scheduler's own words.",
            id="in part",
        ),
        pytest.param(EVERY, (), "0/4 nodes are available: 4 too slow.", id="every node was offered"),
        pytest.param(
            EVERY,
            ("new",),
            "0/5 nodes are available: 1 node is not in Bayplan's view, 4 too slow.",
            id="a node that is not in view",
        ),
    ],
)
def test_the_event_has_the_words_of_kube_scheduler(
    names: list[str], missing: tuple[str, ...], said: str
) -> None:
    server = Server(policy(nowhere, name="strict"))
    server.filter(names, missing=missing)

    assert server.why().event == said


def test_equal_reasons_of_two_policies_are_one_in_the_event() -> None:
    server = Server(policy(speed, name="one"), policy(nowhere, name="two"))
    server.filter(EVERY)

    why = server.why()

    assert [(group.policy, group.count) for group in why.refused] == [("one", 2), ("two", 2)]
    assert why.event == "0/4 nodes are available: 4 too slow."


def test_reasons_are_sorted_as_texts_in_the_event() -> None:
    many = make_cluster([f"n{number}" for number in range(12)])

    @bayplan.filter
    def by_name(pod: Any, nodes: Any) -> Any:
        first = Reason("a").where([name in ("n0", "n1") for name in nodes.names])
        return first | Reason("b").where([True] * len(nodes))

    server = Server(policy(by_name, name="x"), cluster=many)
    server.filter(many.nodes.names)

    assert server.why().event == "0/12 nodes are available: 10 b, 2 a."


def test_there_is_no_event_where_a_node_passed_or_nothing_was_refused() -> None:
    server = Server(policy(speed, name="speeds"))
    server.filter(EVERY)
    assert server.why().event == ""

    observed = Server(policy(nowhere, name="strict"))
    observed.filter(EVERY, observe=True)
    assert (observed.why().event, observed.why().observe) == ("", True)


def test_points_are_what_kube_scheduler_adds_up() -> None:
    server = Server(policy(likes, name="taste", weight=3), policy(knows_only_better, name="oracle"))
    server.filter(["good", "better"])
    server.prioritize(["good", "better"])

    best, other = server.why(weight=5).ranking

    assert (best.node, best.place, best.total, best.wire, best.points) == ("better", 1, 85.0, 9, 450)
    assert [(c.policy, c.hook, c.score, c.weight, c.points) for c in best.contributions] == [
        ("taste", "likes", 80.0, 3.0, 60.0),
        ("oracle", "knows_only_better", 100.0, 1.0, 25.0),
    ]
    # Who has no opinion takes nothing away.
    assert (other.node, other.total, other.wire, other.points) == ("good", 40.0, 4, 200)
    assert [contribution.policy for contribution in other.contributions] == ["taste"]


def test_the_numbers_behind_a_score_are_told_with_it() -> None:
    @bayplan.score(best="low")
    def price(pod: Any, nodes: Any) -> Any:
        dollars = np.array([{"good": 0.5, "better": 0.25}.get(name, np.nan) for name in nodes.names])
        return bayplan.Score(dollars, detail="{dollars} an hour", dollars=dollars)

    server = Server(policy(price, likes, name="cost"))
    server.filter(EVERY)
    server.prioritize(["small", "good", "better"])

    told = {node.node: [part.detail for part in node.contributions] for node in server.why().ranking}

    assert told == {"better": ["0.25 an hour", ""], "good": ["0.5 an hour", ""], "small": [""]}


def test_the_chosen_node_is_ranked_however_far_down() -> None:
    many = make_cluster([f"n{number:02}" for number in range(30)])

    @bayplan.score
    def by_number(pod: Any, nodes: Any) -> Any:
        return [float(name[1:]) for name in nodes.names]

    server = Server(policy(by_number, name="x"), cluster=many)
    server.filter(many.nodes.names)
    server.prioritize(many.nodes.names)

    ranking = server.why(chosen="n03").ranking

    assert [node.place for node in ranking] == [*range(1, 11), 27]
    assert ranking[-1].node == "n03"


def test_scores_of_an_attempt_before_are_not_those_of_this_one() -> None:
    server = Server(policy(likes, name="taste"))
    server.filter(EVERY)
    server.prioritize(EVERY)
    server.filter(EVERY)

    assert server.why().ranking == []


def test_a_pod_of_the_same_name_that_is_gone_is_another_pod() -> None:
    server = Server(policy(speed, name="speeds"))
    server.filter(EVERY, pod=make_pod("p", uid="gone"))
    server.filter(["good"])

    why = server.why()

    assert (why.uid, why.offered, len(why.history)) == ("first", 1, 1)


def test_what_a_shadow_would_refuse_comes_last_and_counts_for_nothing() -> None:
    server = Server(policy(not_good, name="candidate", shadow=True), policy(speed, name="speeds"))
    server.filter(EVERY)

    why = server.why()

    # "slow" is refused anyway: what would be different is "good".
    assert [(g.policy, g.nodes, g.shadow) for g in why.refused] == [
        ("speeds", ["small", "slow"], False),
        ("candidate", ["good"], True),
    ]
    assert why.passed == 2


def test_a_soft_rule_that_was_void_is_told() -> None:
    server = Server(policy(none_at_all, name="soft"))
    server.filter(EVERY)

    why = server.why()

    assert (why.passed, why.refused) == (4, [])
    assert [(run.hook, run.kind, run.void) for run in why.hooks] == [("none_at_all", "prefer", True)]


@pytest.mark.parametrize(("failure_policy", "ignored"), [("Fail", False), ("Ignore", True)])
def test_a_policy_that_failed_is_named(failure_policy: str, ignored: bool) -> None:
    server = Server(policy(breaks, name="broken", failure_policy=failure_policy))
    server.filter(EVERY)

    why = server.why()

    assert ("policy 'broken' failed" in why.error) is not ignored
    assert why.passed == (4 if ignored else 0)
    assert [(run.policy, "no such thing" in run.failure, run.ignored) for run in why.hooks] == [
        ("broken", True, ignored)
    ]
    assert why.event == ""


def test_the_time_of_each_hook_of_both_verbs_is_there() -> None:
    server = Server(policy(speed, likes, name="both"))
    server.filter(EVERY)
    server.prioritize(["good", "better"])

    assert [(run.hook, run.milliseconds > 0) for run in server.why().hooks] == [
        ("speed", True),
        ("likes", True),
    ]


def test_a_refused_bind_and_a_preemption_are_told_with_their_attempt() -> None:
    server = Server(policy(speed, name="speeds"))
    server.filter(EVERY)
    who = PodRef.of(POD)
    dropped = (("good", "keep", "victim is protected"), ("better", "keep", "victim is protected"))
    server.journal.note("preempt", who, generation=3, dropped=dropped)
    server.journal.note("bind", who, generation=3, error="node good: too slow, just now", node="good")

    why = server.why()

    assert [(each.policy, each.reason, each.count, each.nodes) for each in why.left_out] == [
        ("keep", "victim is protected", 2, ["good", "better"])
    ]
    assert why.bind_error == "node good: too slow, just now"
    assert [(told.verb, told.text) for told in why.history] == [
        ("bind", "node good: too slow, just now"),
        ("preempt", "2 candidates left out"),
        ("filter", "2 of 4 nodes passed"),
    ]

    server.filter(EVERY)
    assert (server.why().bind_error, server.why().left_out) == ("", [])


def test_without_a_filter_there_is_nothing_to_tell() -> None:
    server = Server()
    server.journal.note("bind", PodRef.of(POD), generation=1, node="good")

    assert explain(server.journal.entries(), every_node=None, chosen="good", to_wire=to_wire) is None
    assert explain([], every_node=None, chosen="", to_wire=to_wire) is None


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        pytest.param(Reason("x"), "", id="the policy does not say"),
        pytest.param(
            Reason("x", helped_by=frozenset({"nodes"})),
            "the node itself would have to change: its labels, its size",
            id="the node",
        ),
        pytest.param(
            Reason("x", helped_by=frozenset({"pods", "source:p95"})),
            "pods that are on the node, or in its domain, would have to go;"
            " or the source p95 would have to say otherwise",
            id="pods or a source",
        ),
        pytest.param(Reason("x", preemptible=True), "pods on the node would have to go", id="preemptible"),
        pytest.param(
            Reason("x", preemptible=True, helped_by={"pods"}, advice="ask for a quota"),
            "ask for a quota",
            id="in its own words",
        ),
    ],
)
def test_what_would_help_is_what_the_reason_says(reason: Reason, said: str) -> None:
    assert what_would_help(reason) == said


def test_the_default_plugins_can_add_twelve_hundred_points() -> None:
    assert sum(PLUGIN_POINTS.values()) == 1200
    assert PLUGIN_POINTS["TaintToleration"] == 300


@pytest.mark.parametrize(
    ("told", "kept_out"),
    [
        pytest.param(["gate: no quota"], "no quota", id="never let in"),
        pytest.param(["filter", "gate: no quota"], "no quota", id="kept out after a refusal"),
        pytest.param(["gate: no quota", "gate: "], "", id="let in, and not judged yet"),
        pytest.param(["gate: no quota", "gate: ", "filter"], "", id="let in and judged"),
    ],
)
def test_a_pod_that_is_kept_out_of_the_queue_is_told_so(told: list[str], kept_out: str) -> None:
    journal = Journal()
    for each in told:
        verb, _, text = each.partition(": ")
        if verb == "gate":
            journal.note("gate", PodRef.of(POD), generation=1, error=text)
        else:
            question = Question(POD, CLUSTER.nodes, CLUSTER, datetime.now(UTC))
            journal.write("filter", filter_nodes([policy(nowhere, name="nowhere")], question), generation=1)

    why = explain(journal.entries(), every_node=CLUSTER.nodes.names, chosen="", to_wire=to_wire)

    assert why is not None
    assert (why.kept_out, why.error) == (kept_out, "")
    assert why.offered == (4 if "filter" in told else 0)
    assert [line.text for line in reversed(why.history) if line.verb == "gate"] == [
        text.partition(": ")[2] or "let in" for text in told if text != "filter"
    ]
