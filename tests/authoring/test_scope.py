"""Which pods a policy is for."""

from typing import Any

import msgspec
import pytest

from bayplan.authoring.scope import EVERY_POD, PolicyScope, Scope
from bayplan.testing import make_pod

POD = make_pod(
    "nightly", namespace="batch-eu", labels={"tier": "batch"}, priority=500, owner=("Job", "nightly")
)


@pytest.mark.parametrize(
    ("parts", "matches"),
    [
        pytest.param({}, True, id="nothing given is all pods"),
        pytest.param({"namespaces": ["batch-eu"]}, True, id="its namespace"),
        pytest.param({"namespaces": ["batch-*"]}, True, id="a pattern"),
        pytest.param({"namespaces": ["batch-??"]}, True, id="question marks"),
        pytest.param({"namespaces": ["web", "batch-eu"]}, True, id="one of several namespaces"),
        pytest.param({"namespaces": ["batch"]}, False, id="another namespace"),
        pytest.param({"namespaces": ["BATCH-*"]}, False, id="capital letters are other letters"),
        pytest.param({"podSelector": {"matchLabels": {"tier": "batch"}}}, True, id="its label"),
        pytest.param({"podSelector": {"matchLabels": {"tier": "web"}}}, False, id="another label"),
        pytest.param(
            {"namespaces": ["web"], "podSelector": {"matchLabels": {"tier": "batch"}}},
            False,
            id="all that is given must match",
        ),
        pytest.param({"priority": {"min": 500}}, True, id="at least its priority"),
        pytest.param({"priority": {"min": 501}}, False, id="a higher priority"),
        pytest.param({"priority": {"max": 500}}, True, id="at most its priority"),
        pytest.param({"priority": {"max": 499}}, False, id="a lower priority"),
        pytest.param({"priority": {"min": -5, "max": 1000}}, True, id="a range of priorities"),
        pytest.param({"ownerKinds": ["Job"]}, True, id="its owner's kind"),
        pytest.param({"ownerKinds": ["DaemonSet", "Job"]}, True, id="one of several kinds"),
        pytest.param({"ownerKinds": ["DaemonSet"]}, False, id="another kind"),
        pytest.param({"ownerKinds": ["RayCluster"]}, False, id="a kind of somebody's own"),
        pytest.param(
            {"ownerKinds": ["Job"], "priority": {"min": 501}}, False, id="the owner, but not the priority"
        ),
        pytest.param(
            {"ownerKinds": ["Job"], "namespaces": ["web"]}, False, id="the owner, but not the namespace"
        ),
    ],
)
def test_matches(parts: dict[str, Any], matches: bool) -> None:
    assert msgspec.convert(parts, PolicyScope).matches(POD) is matches


def test_a_pod_made_by_hand_has_no_owner_of_any_kind() -> None:
    assert not PolicyScope(owner_kinds=("Job",)).matches(make_pod())


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        pytest.param({"priority": {}}, "give `min`, `max` or both", id="a range without ends"),
        pytest.param(
            {"priority": {"min": 5, "max": 4}},
            "no priority is at least 5 and at most 4",
            id="a range of none",
        ),
        pytest.param({"priority": {"mn": 5}}, "unknown field `mn`", id="a mistyped end"),
        pytest.param({"priority": {"min": 2**31}}, "<= 2147483647", id="more than Kubernetes has"),
        pytest.param({"priority": 5}, "Expected `object", id="a number alone"),
        pytest.param(
            {"ownerKinds": ["Deployment"]},
            "the pods of a Deployment belong to its ReplicaSet",
            id="a Deployment",
        ),
        pytest.param({"ownerKinds": ["CronJob"]}, "the pods of a CronJob belong to its Job", id="a CronJob"),
        pytest.param(
            {"ownerKinds": ["Daemonset"]},
            r"no kind 'Daemonset'; did you mean 'DaemonSet'\?",
            id="a small letter",
        ),
        pytest.param(
            {"ownerKinds": ["jobs"]}, r"no kind 'jobs'; did you mean 'Job'\?", id="as kubectl writes it"
        ),
        pytest.param({"ownerKinds": ["batch/Job"]}, "one word with a capital letter", id="with its group"),
    ],
)
def test_a_scope_that_could_match_nothing_is_an_error(parts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert(parts, PolicyScope)


def test_a_pod_without_a_namespace_is_in_the_default_one() -> None:
    assert Scope(namespaces=("default",)).matches(make_pod(namespace=""))


def test_every_pod_is_in_the_scope_of_every_pod() -> None:
    assert EVERY_POD.matches(POD)


def test_a_misspelled_field_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `namespace`"):
        msgspec.convert({"namespace": ["x"]}, Scope)
