"""Which gang a pod belongs to: a hook's word first, then the pod's own labels."""

import bayplan
from bayplan import Gang
from bayplan.authoring.load import Definition
from bayplan.authoring.registry import FailurePolicy, Policy
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import ALONE, Membership, may_be_named, membership, names_gangs
from bayplan.testing import make_pod

LABELS = {"bayplan.dev/gang": "by-labels", "bayplan.dev/gang-size": "2"}


@bayplan.gang
def by_job(pod):  # type: ignore[no-untyped-def]
    return Gang(pod.labels["job"], size=3) if "job" in pod.labels else None


@bayplan.gang
def careless(pod):  # type: ignore[no-untyped-def]
    return Gang("g", size=0)


@bayplan.gang
def hasty(pod):  # type: ignore[no-untyped-def]
    return Gang("g", size=2, timeout_seconds=0.001)


@bayplan.gang
def wordy(pod):  # type: ignore[no-untyped-def]
    return "job"


def own(hook: object, failure_policy: FailurePolicy = "Fail") -> Policy:
    definition = Definition("own", ((hook.__name__, hook),), None, ())  # type: ignore[attr-defined, arg-type]
    return definition.make(failure_policy=failure_policy)


def test_a_hook_counts_before_labels_and_labels_where_it_says_nothing() -> None:
    policies = [own(by_job)]

    assert membership(policies, make_pod(labels={**LABELS, "job": "j"}), Attempt()).gang == Gang("j", size=3)
    assert membership(policies, make_pod(labels=LABELS), Attempt()).gang == Gang("by-labels", size=2)
    assert membership(policies, make_pod(), Attempt()) == ALONE


def test_what_is_wrong_with_labels_is_a_problem_and_a_hook_that_fails_is_an_error() -> None:
    bad = {**LABELS, "bayplan.dev/gang-size": "two"}

    assert "got 'two'" in membership([], make_pod(labels=bad), Attempt()).problem
    said = membership([own(careless)], make_pod(), Attempt())
    assert (said.gang, said.problem) == (None, "")
    assert "size is how many pods it has, 1 or more; got 0" in said.error
    hurried = membership([own(hasty)], make_pod(), Attempt()).error
    assert "test_membership.py:" in hurried
    assert "timeout_seconds must be a number, 1 or more; got 0.001" in hurried
    assert "want a Gang or None" in membership([own(wordy)], make_pod(), Attempt()).error


def test_a_hook_that_fails_and_may_be_ignored_has_no_say() -> None:
    said = membership([own(careless, "Ignore"), own(by_job)], make_pod(labels={"job": "j"}), Attempt())

    assert said == Membership(Gang("j", size=3))


def test_whoever_names_gangs_is_known_before_a_pod_is_asked_about() -> None:
    assert names_gangs([own(by_job)])
    assert not names_gangs([])
    assert may_be_named([own(by_job)], make_pod())
    assert not may_be_named([], make_pod(labels=LABELS))
