"""Who is in which gang: asked once, forgotten with the pod, asked again when the pod says something else."""

import msgspec

import bayplan
from bayplan import Gang, Pod
from bayplan.authoring.load import Definition
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import PodStatus
from bayplan.runtimes.scheduler.roster import Roster
from bayplan.testing import make_pod

LABELS = {"bayplan.dev/gang": "g", "bayplan.dev/gang-size": "2"}
asked: list[str] = []


@bayplan.gang
def by_job(pod):  # type: ignore[no-untyped-def]
    asked.append(pod.name)
    return Gang(pod.labels["job"], size=2) if "job" in pod.labels else None


HOOKED = Definition("own", (("by_job", by_job),), None, ()).make()


def find_out(roster: Roster, namespace: str = "default") -> None:
    roster.write(roster.ask(roster.to_ask(namespace), Attempt()))


def pod(name: str, labels: dict[str, str], **more: str) -> Pod:
    return make_pod(name, uid=name, labels=labels, **more)  # type: ignore[arg-type]


def test_members_of_one_name_in_one_namespace_are_a_gang() -> None:
    roster = Roster(lambda _: ())
    for each in (pod("a", LABELS), pod("b", LABELS), pod("c", LABELS, namespace="other"), pod("d", {})):
        roster.seen(each)
        find_out(roster, each.namespace)

    assert [member.name for member in roster.members(("default", "g"))] == ["a", "b"]
    assert [member.name for member in roster.members(("other", "g"))] == ["c"]
    assert roster.of("d") is None


def test_a_pod_is_asked_about_once_and_again_when_it_says_something_else() -> None:
    asked.clear()
    roster = Roster(lambda _: (HOOKED,))
    roster.seen(pod("a", {"job": "j"}))
    find_out(roster)
    roster.seen(pod("a", {"job": "j"}, node="n"))
    find_out(roster)
    assert asked == ["a"]

    roster.seen(pod("a", {"job": "k"}))
    find_out(roster)

    assert asked == ["a", "a"]
    assert roster.members(("default", "j")) == []
    assert [member.name for member in roster.members(("default", "k"))] == ["a"]


def test_a_pod_that_is_gone_is_in_no_gang() -> None:
    roster = Roster(lambda _: ())
    roster.seen(pod("a", LABELS))
    find_out(roster)

    assert roster.gone("a") == ("default", "g")
    assert roster.gone("a") is None
    assert roster.members(("default", "g")) == []


def test_an_answer_about_a_pod_that_is_another_by_now_is_not_kept() -> None:
    roster = Roster(lambda _: ())
    roster.seen(pod("a", LABELS))
    answers = roster.ask(roster.to_ask("default"), Attempt())
    roster.seen(pod("a", {**LABELS, "bayplan.dev/gang": "h"}))

    roster.write(answers)

    assert roster.of("a") is None
    assert [each.name for each in roster.to_ask("default")] == ["a"]


def test_without_a_hook_only_labels_matter() -> None:
    plain, hooked = Roster(lambda _: ()), Roster(lambda _: (HOOKED,))

    assert not plain.concerns(pod("a", {"job": "j"}))
    assert plain.concerns(pod("a", LABELS))
    assert not plain.hooked([pod("a", LABELS)])
    assert hooked.concerns(pod("a", {}))
    assert hooked.hooked([pod("a", {})])


def test_other_policies_are_asked_anew() -> None:
    policies = [HOOKED]
    roster = Roster(lambda _: tuple(policies))
    roster.seen(pod("a", {"job": "j"}))
    find_out(roster)
    policies.clear()

    roster.ask_again()

    assert roster.members(("default", "j")) == []
    assert not roster.concerns(pod("a", {"job": "j"}))


def test_a_pod_that_has_ended_is_not_kept_nor_a_namespace_without_questions() -> None:
    roster = Roster(lambda _: ())
    there = pod("a", LABELS, node="n1")
    roster.seen(there)
    find_out(roster)
    assert roster._unasked == {}

    roster.seen(msgspec.structs.replace(there, status=PodStatus(phase="Succeeded")))

    assert roster.members(("default", "g")) == []
    assert roster._pods == {}
