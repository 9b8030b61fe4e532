"""The admission rule of the documents: what a pod got is written with its binding, and by nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bayplan.kube.yaml import read_documents
from tests.controlplane.client import ApiError
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.slices import MEMORY, SLICE, bayplan_with_slices, create_owners, create_slices, wait_owners

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "policies" / "shared-resource.md"
FORGED = {"bayplan.dev/allocation": f'{{"{MEMORY}":{{"7":{SLICE}}}}}'}
ALONE = "bayplan.dev/allocation is written with the binding alone"
KINDS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


@contextmanager
def the_rule(cluster: ControlPlane) -> Iterator[None]:
    """The rule as the page has it, in force."""
    fences = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (rule,) = [text for text in fences if "ValidatingAdmissionPolicy" in text]
    documents = [document.data for document in read_documents(rule, source="docs")]
    made = []
    try:
        for document in documents:
            path = f"/apis/admissionregistration.k8s.io/v1/{KINDS[document['kind']]}"
            cluster.api.request("POST", path, body=document)
            made.append(f"{path}/{document['metadata']['name']}")
        wait_until(lambda: ALONE in forging(cluster), 30, what="the rule is in force")
        yield
    finally:
        for path in made:
            cluster.api.request("DELETE", path)


def forging(cluster: ControlPlane) -> str:
    """What a pod is told that says itself what it got."""
    try:
        cluster.api.create("pods", pod_manifest("forged", annotations=FORGED))
    except ApiError as error:
        return str(error)
    cluster.api.delete("pods", "forged")
    return ""


def test_nobody_but_a_binding_says_what_a_pod_got(cluster: ControlPlane, tmp_path: Path) -> None:
    create_slices(cluster, nodes=1, each=2)
    bayplan = bayplan_with_slices(cluster, tmp_path)
    with the_rule(cluster), bayplan, cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        create_owners(cluster, range(2))
        wait_owners(cluster, 2)

        with pytest.raises(ApiError, match=ALONE):
            cluster.api.patch("pods", "p0", {"metadata": {"annotations": FORGED}})
        cluster.api.patch("pods", "p0", {"metadata": {"annotations": {"example.com/other": "x"}}})

        wait_owners(cluster, 2)
