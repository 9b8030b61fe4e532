"""Where Bayplan and kube-scheduler do not judge alike, as docs/parity.md says.

A test that fails here is good news: the limit is gone, and the feature belongs into the generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.parity.answer import FAILED, PLACED, UNSCHEDULABLE
from tests.parity.places import PREFERRED
from tests.parity.run import Run, both
from tests.parity.world import NEVER, Json, World

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("one kube-scheduler of limits")]

AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@pytest.fixture(scope="module")
def run(control_plane: ControlPlane) -> Iterator[Run]:
    control_plane.api.clear()
    with both(control_plane, seed=0) as found:
        yield found
    control_plane.api.clear()


def node(name: str, **status: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"gen": "1"}},
        "spec": {},
        "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS, **status},
    }


def pod(name: str = "asks", *, container: Json | None = None, **spec: Any) -> Json:
    only = {"name": "main", "image": "registry.example/none", **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {}},
        "spec": {"containers": [only], "priorityClassName": NEVER, **spec},
    }


def test_a_pod_with_resource_claims_is_refused(run: Run) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "nothing", "namespace": "default"},
        "spec": {"devices": {}},
    }
    claims = [{"name": "nothing", "resourceClaimName": "nothing"}]

    kube, ours = run.kube_says(World((node("only"), claim)), pod(resourceClaims=claims), PLACED)

    assert (kube.outcome, ours.outcome) == (PLACED, UNSCHEDULABLE), kube.told()
    assert ours.message == "0/1 nodes are available: Bayplan does not judge resource claims (DRA)."


def test_a_preference_that_makes_no_sense_is_passed_over(run: Run) -> None:
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["many"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}]}}
    world = World((node("one"), node("other")))
    says = "the value must be an integer"

    kube, ours = run.kube_says(world, pod(affinity=affinity), FAILED, says)

    assert (kube.outcome, ours.outcome) == (FAILED, PLACED), kube.told()
    assert says in kube.message
