"""Preemption keeps the candidates that eviction would really help, and spares protected pods."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import bayplan
from bayplan import Pod, Reason
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.registry import FailurePolicy, Hook, Policy
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.engine.cycle import Question
from bayplan.engine.guard import Attempt, Failure
from bayplan.engine.preempt import Candidate, PreemptDecision, choose_candidates
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod

NOW = datetime(2026, 11, 15, tzinfo=UTC)
URGENT = make_pod("urgent", cpu=3, priority=1000)
CLUSTER = make_cluster(
    [make_node("freed", cpu=4), make_node("still-full", cpu=4), make_node("wrong-disk", cpu=4)],
    [
        make_pod("victim", uid="u-freed", cpu=4, node="freed"),
        make_pod("victim", uid="u-small", cpu=1, node="still-full"),
        make_pod("stays", uid="u-stays", cpu=3, node="still-full"),
        make_pod("victim", uid="u-disk", namespace="vault", cpu=4, node="wrong-disk"),
    ],
)
FREED = Candidate("freed", ("u-freed",))
STILL_FULL = Candidate("still-full", ("u-small",))
WRONG_DISK = Candidate("wrong-disk", ("u-disk",))
FULL = Reason("too little CPU")


@bayplan.filter
def fits(pod: Any, nodes: Any) -> Any:
    return FULL.where(nodes["cpu.free"] < pod.cpu_milli)


@bayplan.filter
def right_disk(node: Any) -> Any:
    return node.name != "wrong-disk" or "wrong disk"


@bayplan.protect
def vault(victim: Any) -> Any:
    return victim.namespace == "vault"


def policy(
    *functions: Callable[..., Any],
    name: str = "policy",
    failure: FailurePolicy = "Fail",
    scope: Scope = EVERY_POD,
) -> Policy:
    hooks = tuple(Hook(name, f.__name__, getattr(f, HOOK), f) for f in functions)
    return Policy(name, hooks, 1.0, scope, failure)


def choose(
    *policies: Policy,
    candidates: tuple[Candidate, ...] = (FREED, STILL_FULL, WRONG_DISK),
    cluster: Snapshot = CLUSTER,
    victims: dict[str, Pod] | None = None,
) -> PreemptDecision:
    question = Question(URGENT, cluster.nodes, cluster, NOW)
    known = cluster.pods_by_uid if victims is None else victims
    return choose_candidates(policies, question, candidates, victims=known)


def kept(decision: PreemptDecision) -> list[str]:
    return [candidate.node for candidate in decision.kept]


def dropped(decision: PreemptDecision) -> dict[str, str]:
    return {d.candidate.node: d.text for d in decision.dropped}


def test_nodes_that_a_filter_still_refuses_are_dropped() -> None:
    decision = choose(policy(fits, right_disk))

    assert kept(decision) == ["freed"]
    assert dropped(decision) == {"still-full": "too little CPU", "wrong-disk": "wrong disk"}


def test_who_dropped_a_candidate_is_written_down() -> None:
    decision = choose(policy(fits, name="cpu"), policy(right_disk, name="disk"))

    assert {d.candidate.node: d.policy for d in decision.dropped} == {
        "still-full": "cpu",
        "wrong-disk": "disk",
    }


def test_without_filters_every_candidate_is_kept() -> None:
    assert kept(choose()) == ["freed", "still-full", "wrong-disk"]


def test_candidates_keep_their_victims_in_order() -> None:
    both = Candidate("still-full", ("u-stays", "u-small"))

    assert choose(policy(fits), candidates=(both,)).kept == (both,)


def test_policies_for_other_pods_have_no_say() -> None:
    elsewhere = Scope(namespaces=("elsewhere",))

    assert kept(choose(policy(fits, right_disk, vault, scope=elsewhere))) == [
        "freed",
        "still-full",
        "wrong-disk",
    ]


def test_a_protected_victim_takes_its_node_out() -> None:
    decision = choose(policy(vault, name="guards"))

    assert kept(decision) == ["freed", "still-full"]
    assert dropped(decision) == {"wrong-disk": "pod vault/victim is protected by vault"}


def test_one_protected_victim_of_several_is_enough() -> None:
    both = Candidate("freed", ("u-freed", "u-disk"))

    assert kept(choose(policy(vault), candidates=(both, STILL_FULL))) == ["still-full"]


def test_an_unknown_victim_is_not_evicted_where_pods_are_protected() -> None:
    stranger = Candidate("freed", ("u-nobody",))

    decision = choose(policy(vault), candidates=(stranger, STILL_FULL))

    assert kept(decision) == ["still-full"]
    assert dropped(decision)["freed"].startswith("a victim is not in Bayplan's view")


def test_an_unknown_victim_is_nobodys_business_where_none_is_protected() -> None:
    stranger = Candidate("wrong-disk", ("u-nobody",))

    assert kept(choose(candidates=(stranger,))) == ["wrong-disk"]


def test_a_candidate_without_victims_is_dropped() -> None:
    decision = choose(candidates=(Candidate("freed", ()), STILL_FULL))

    assert kept(decision) == ["still-full"]
    assert dropped(decision) == {"freed": "no victims were named for the node"}


def test_a_candidate_that_is_not_in_view_is_dropped_where_filters_would_ask() -> None:
    stranger = Candidate("nowhere", ("u-freed",))

    decision = choose(policy(fits), candidates=(stranger, FREED))

    assert kept(decision) == ["freed"]
    assert dropped(decision) == {"nowhere": "node is not in Bayplan's view"}


def test_all_candidates_are_judged_in_one_pass_where_rules_read_single_nodes() -> None:
    calls: list[list[str]] = []

    @bayplan.filter
    def counted(nodes: Any) -> Any:
        calls.append(list(nodes.names))

    choose(policy(counted))

    assert calls == [["freed", "still-full", "wrong-disk"]]


def test_a_rule_that_reads_the_cluster_is_asked_candidate_by_candidate() -> None:
    seen: dict[str, set[str]] = {}

    @bayplan.filter
    def curious(nodes: Any, cluster: Any) -> Any:
        (node,) = nodes.names
        seen[node] = set(cluster.pods_by_uid)

    choose(policy(curious))

    everybody = {"u-freed", "u-small", "u-stays", "u-disk"}
    assert seen == {
        "freed": everybody - {"u-freed"},
        "still-full": everybody - {"u-small"},
        "wrong-disk": everybody - {"u-disk"},
    }


def test_a_rule_that_does_not_look_at_other_nodes_is_asked_once_although_it_could() -> None:
    calls: list[list[str]] = []

    @bayplan.filter
    def incurious(nodes: Any, cluster: Any) -> Any:
        calls.append(list(nodes.names))
        return FULL.where(nodes["cpu.free"] < 3000)

    decision = choose(policy(incurious))

    assert calls == [["freed", "still-full", "wrong-disk"]]
    assert kept(decision) == ["freed", "wrong-disk"]


def test_only_the_rule_that_looks_at_other_nodes_is_asked_candidate_by_candidate() -> None:
    groups: dict[str, list[int]] = {"looks": [], "plain": []}

    @bayplan.filter
    def looks(nodes: Any, cluster: Any) -> Any:
        groups["looks"].append(len(nodes))
        return FULL.where([len(cluster.pods) != 3] * len(nodes))

    @bayplan.filter
    def plain(nodes: Any) -> Any:
        groups["plain"].append(len(nodes))

    decision = choose(policy(looks, name="curious"), policy(plain, name="other"))

    assert kept(decision) == ["freed", "still-full", "wrong-disk"], "each sees one victim gone, not three"
    assert groups["looks"].count(1) == 3
    assert groups["plain"].count(1) == 0


def test_each_candidate_that_filters_judged_is_counted_once() -> None:
    @bayplan.filter
    def looks(nodes: Any, cluster: Any) -> Any:
        return FULL.where([len(cluster.pods) > 3 or name == "still-full" for name in nodes.names])

    decision = choose(policy(looks, name="curious"), policy(right_disk, name="disk"))

    assert decision.judged == 3
    assert {(r.node, r.policy, r.reason.text) for r in decision.refused} == {
        ("still-full", "curious", "too little CPU"),
        ("wrong-disk", "disk", "wrong disk"),
    }
    assert (choose(policy(raises)).judged, choose(policy(vault)).judged) == (0, 0), "nobody had an answer"


def test_a_preparation_that_reads_the_cluster_is_run_candidate_by_candidate() -> None:
    @bayplan.prepare
    def how_many(cluster: Any) -> int:
        return len(cluster.pods)

    @bayplan.filter
    def three_left(node: Any, prepared: Any) -> Any:
        return prepared == 3 or f"{prepared} left"

    assert kept(choose(policy(how_many, three_left))) == ["freed", "still-full", "wrong-disk"]


@bayplan.filter
def raises(node: Any) -> Any:
    raise OSError("no table")


def test_a_filter_that_fails_drops_every_candidate() -> None:
    decision = choose(policy(raises))

    assert kept(decision) == []
    assert set(dropped(decision)) == {"freed", "still-full", "wrong-disk"}
    assert all(text.startswith("policy 'policy' failed: ") for text in dropped(decision).values())
    assert [failure.kind for failure in decision.failures] == ["exception"]


def test_a_filter_that_fails_about_one_candidate_drops_every_one() -> None:
    """The filter after an eviction is asked about all nodes: pods would die, and it would fail again."""

    @bayplan.filter
    def touchy(node: Any, cluster: Any) -> Any:
        if node.name == "wrong-disk":
            raise OSError("no table")

    decision = choose(policy(touchy))

    assert kept(decision) == []
    assert {text.split(":")[0] for text in dropped(decision).values()} == {"policy 'policy' failed"}
    assert [failure.kind for failure in decision.failures] == ["exception"]


def test_a_filter_that_overran_is_not_called_once_more_for_each_candidate() -> None:
    late = Failure("overrun", "still running after 1 s", "took too long")
    attempt = Attempt(given_up={"policy": late})
    question = Question(URGENT, CLUSTER.nodes, CLUSTER, NOW)

    decision = choose_candidates(
        [policy(fits)], question, [FREED, STILL_FULL, WRONG_DISK], victims={}, attempt=attempt
    )

    assert (kept(decision), list(decision.failures)) == ([], [late])
    assert [(ran.calls, ran.hook.name) for ran in attempt.ran.values()] == [(0, "fits")]


def test_a_filter_that_fails_and_is_ignored_drops_nothing() -> None:
    decision = choose(policy(raises, failure="Ignore"), policy(right_disk, name="other"))

    assert kept(decision) == ["freed", "still-full"]
    assert len(decision.failures) == 1


@pytest.mark.parametrize(
    ("failure", "left"),
    [
        pytest.param("Fail", [], id="with Fail nobody is evicted"),
        pytest.param("Ignore", ["freed", "still-full", "wrong-disk"], id="with Ignore the guard abstains"),
    ],
)
def test_a_guard_that_fails(failure: FailurePolicy, left: list[str]) -> None:
    @bayplan.protect
    def asleep(victim: Any) -> Any:
        raise OSError("no table")

    decision = choose(policy(asleep, failure=failure))

    assert kept(decision) == left
    assert decision.failures


def test_soft_filters_are_not_asked() -> None:
    @bayplan.prefer
    def picky(node: Any) -> Any:
        pytest.fail("asked")

    decision = choose(policy(fits, picky))

    assert kept(decision) == ["freed", "wrong-disk"]
    assert not decision.failures


def test_scores_are_not_asked() -> None:
    @bayplan.score
    def liked(node: Any) -> Any:
        pytest.fail("asked")

    assert kept(choose(policy(right_disk, liked))) == ["freed", "still-full"]


def test_nobody_is_evicted_for_real() -> None:
    before = [pod.uid for pod in CLUSTER.pods]

    choose(policy(fits))

    assert [pod.uid for pod in CLUSTER.pods] == before
    assert CLUSTER.nodes["cpu.free"].tolist() == [0, 0, 0]


def test_without_pods_in_view_rules_about_nodes_still_count() -> None:
    bare = Snapshot.build(CLUSTER.nodes.objects, None)

    assert kept(choose(policy(right_disk), cluster=bare)) == ["freed", "still-full"]


def test_without_pods_in_view_a_rule_may_still_look_at_the_nodes_of_the_cluster() -> None:
    bare = Snapshot.build(CLUSTER.nodes.objects, None)

    @bayplan.filter
    def of_three(node: Any, cluster: Any) -> Any:
        return len(cluster.nodes["cpu.allocatable"]) == 3 and node.name != "wrong-disk"

    assert kept(choose(policy(of_three), cluster=bare)) == ["freed", "still-full"]


def test_without_pods_in_view_rules_about_pods_drop_everything() -> None:
    bare = Snapshot.build(CLUSTER.nodes.objects, None)

    decision = choose(policy(fits), cluster=bare)

    assert kept(decision) == []
    assert all("needs the placed pods" in text for text in dropped(decision).values())


@bayplan.victims
def by_cpu(victims: Any) -> Any:
    return sum(victim.cpu_milli for victim in victims)


def test_the_candidates_with_the_cheapest_victims_are_kept() -> None:
    decision = choose(policy(by_cpu, name="cheap"))

    assert kept(decision) == ["still-full"]
    assert dropped(decision) == {
        "freed": "its victims cost more than those on still-full",
        "wrong-disk": "its victims cost more than those on still-full",
    }
    assert {d.policy for d in decision.dropped} == {"cheap"}


def test_all_candidates_that_cost_the_same_are_kept() -> None:
    assert kept(choose(policy(by_cpu), candidates=(FREED, WRONG_DISK))) == ["freed", "wrong-disk"]


def test_the_cheapest_is_sought_among_those_that_would_help() -> None:
    assert kept(choose(policy(by_cpu, fits, right_disk))) == ["freed"]


def test_the_cheapest_is_sought_among_those_that_nobody_objects_to() -> None:
    @bayplan.victims
    def small_ones_stay(victims: Any, node: Any) -> Any:
        return "small ones stay" if node.name == "still-full" else None

    decision = choose(policy(by_cpu), policy(small_ones_stay, name="later"))

    assert kept(decision) == ["freed", "wrong-disk"]
    assert dropped(decision) == {"still-full": "small ones stay"}


def test_where_the_first_price_is_equal_the_next_one_decides() -> None:
    @bayplan.victims
    def by_name(victims: Any, node: Any) -> Any:
        return {"freed": 2, "still-full": 0, "wrong-disk": 1}[node.name]

    @bayplan.victims
    def both(victims: Any, node: Any) -> Any:
        return by_cpu(victims), by_name(victims, node)

    among = (FREED, WRONG_DISK)
    assert kept(choose(policy(by_cpu), policy(by_name, name="later"), candidates=among)) == ["wrong-disk"]
    assert kept(choose(policy(both), candidates=among)) == ["wrong-disk"]


def test_who_has_no_price_is_kept() -> None:
    @bayplan.victims
    def some(victims: Any, node: Any) -> Any:
        return {"freed": 5, "wrong-disk": 6}.get(node.name)

    assert kept(choose(policy(some))) == ["freed", "still-full"]


def test_a_violated_disruption_budget_outweighs_any_price() -> None:
    cheap = Candidate("still-full", ("u-small",), violations=1)

    decision = choose(policy(by_cpu), candidates=(FREED, cheap))

    assert kept(decision) == ["freed"]
    assert dropped(decision)["still-full"].startswith("its victims violate more PodDisruptionBudgets")


def test_without_a_price_disruption_budgets_are_left_to_kube_scheduler() -> None:
    @bayplan.victims
    def silent(victims: Any) -> Any:
        return None

    careless = Candidate("still-full", ("u-small",), violations=1)

    assert kept(choose(policy(silent), candidates=(FREED, careless))) == ["freed", "still-full"]


def test_victims_come_in_order_and_in_full() -> None:
    seen: list[tuple[str, ...]] = []

    @bayplan.victims
    def look(pod: Any, victims: Any, cluster: Any, now: Any) -> Any:
        assert (pod, cluster, now) == (URGENT, CLUSTER, NOW)
        seen.append(tuple(victim.uid for victim in victims))

    choose(policy(look), candidates=(Candidate("still-full", ("u-stays", "u-small")), FREED))

    assert seen == [("u-stays", "u-small"), ("u-freed",)]


def test_a_price_for_an_unknown_victim_cannot_be_told() -> None:
    stranger = Candidate("freed", ("u-nobody",))

    decision = choose(policy(by_cpu), candidates=(stranger, STILL_FULL))

    assert kept(decision) == ["still-full"]
    assert dropped(decision)["freed"].startswith("a victim is not in Bayplan's view")


def test_a_price_that_depends_on_the_node_needs_it_in_view() -> None:
    @bayplan.victims
    def there(victims: Any, node: Any) -> Any:
        return 1

    decision = choose(policy(there), candidates=(Candidate("nowhere", ("u-freed",)), FREED))

    assert kept(decision) == ["freed"]
    assert dropped(decision) == {"nowhere": "node is not in Bayplan's view"}


@pytest.mark.parametrize(
    ("failure", "left"),
    [
        pytest.param("Fail", [], id="with Fail nobody is evicted"),
        pytest.param("Ignore", ["freed", "still-full", "wrong-disk"], id="with Ignore it has no opinion"),
    ],
)
@pytest.mark.parametrize("broken", ["prepare", "victims"])
def test_a_price_that_fails(failure: FailurePolicy, left: list[str], broken: str) -> None:
    @bayplan.prepare
    def ready() -> Any:
        return 1 / (broken != "prepare")

    @bayplan.victims
    def price(victims: Any, prepared: Any) -> Any:
        return prepared / (broken != "victims")

    decision = choose(policy(ready, price, failure=failure))

    assert kept(decision) == left
    assert {failure.kind for failure in decision.failures} == {"exception"}


def test_what_is_prepared_is_prepared_once_for_all_candidates() -> None:
    calls: list[str] = []

    @bayplan.prepare
    def ready(cluster: Any) -> int:
        calls.append("ready")
        return len(cluster.pods)

    @bayplan.protect
    def guard(victim: Any, prepared: Any) -> Any:
        return prepared != 4

    @bayplan.victims
    def price(victims: Any, prepared: Any) -> Any:
        return prepared

    assert kept(choose(policy(ready, guard, price))) == ["freed", "still-full", "wrong-disk"]
    assert calls == ["ready"]


def test_the_words_of_a_guard_are_written_down() -> None:
    @bayplan.protect
    def guard(victim: Any) -> Any:
        return "it is precious" if victim.namespace == "vault" else None

    assert dropped(choose(policy(guard))) == {
        "wrong-disk": "pod vault/victim is protected by guard: it is precious"
    }
