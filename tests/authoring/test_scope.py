"""Which pods a policy is for."""

from typing import Any

import msgspec
import pytest

from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.testing import make_pod

POD = make_pod("nightly", namespace="batch-eu", labels={"tier": "batch"})


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
    ],
)
def test_matches(parts: dict[str, Any], matches: bool) -> None:
    assert msgspec.convert(parts, Scope).matches(POD) is matches


def test_a_pod_without_a_namespace_is_in_the_default_one() -> None:
    assert Scope(namespaces=("default",)).matches(make_pod(namespace=""))


def test_every_pod_is_in_the_scope_of_every_pod() -> None:
    assert EVERY_POD.matches(POD)


def test_a_misspelled_field_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `namespace`"):
        msgspec.convert({"namespace": ["x"]}, Scope)
