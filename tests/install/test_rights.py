"""Rights are those that a configuration uses: no more, and each with a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.install.errors import InstallError
from bayplan.install.rights import RIGHTS
from bayplan.install.shapes import SHAPES
from bayplan.kube.kinds import OBJECT_KINDS
from tests.install.releases import ONE_EACH, ONLY_SSD, configuration, found, made, of_kind, policy

Object = dict[str, Any]
MANAGED: dict[str, Any] = {"extender": {"managedResources": [{"name": "example.com/gpu"}]}}


def granted(role: Object) -> set[tuple[str, str]]:
    """Resources with verbs."""
    return {
        (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }


READS = {("nodes", "get"), ("nodes", "list"), ("nodes", "watch"), ("pods", "list"), ("pods", "watch")}
BINDS = {("pods", "get"), ("pods/binding", "create")}


@pytest.mark.parametrize("shape", ["sidecar", "service", "control-plane"])
@pytest.mark.parametrize(
    ("code", "rights"),
    [
        pytest.param(ONLY_SSD, READS, id="a filter reads"),
        pytest.param(ONE_EACH, READS | BINDS, id="a rule between pods binds"),
    ],
)
def test_an_extender_may_what_its_policies_need(
    shape: str, code: str, rights: set[tuple[str, str]], tmp_path: Path
) -> None:
    some = found(made(shape, policy(tmp_path, code), **MANAGED))

    assert granted(of_kind("ClusterRole", some)) == rights


def test_pods_are_touched_only_where_that_is_configured(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nudge: {enabled: true}}\n"
    some = found(made("sidecar", configuration(tmp_path, text)))

    assert granted(of_kind("ClusterRole", some)) == READS | {("pods", "patch")}


def test_pods_are_not_read_where_nodes_alone_are_followed(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nodesOnly: true}\n"
    some = found(made("sidecar", configuration(tmp_path, text)))

    assert granted(of_kind("ClusterRole", some)) == {right for right in READS if right[0] == "nodes"}


def test_who_binds_pods_has_to_follow_them(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nodesOnly: true}\n"

    with pytest.raises(InstallError, match=r"verbs\.bind with cluster\.nodesOnly: who binds pods"):
        made("sidecar", configuration(tmp_path, text), verbs={"bind": True})


def test_a_scheduler_follows_every_kind_that_it_knows(tmp_path: Path) -> None:
    rights = granted(of_kind("ClusterRole", found(made("standalone", policy(tmp_path)))))
    resources = {kind.path.rpartition("/")[2] for kind in OBJECT_KINDS.values()}

    assert {(resource, verb) for resource in resources for verb in ("list", "watch")} <= rights
    assert {("pods", "delete"), ("pods/status", "patch"), ("pods/binding", "create")} <= rights


@pytest.mark.parametrize(
    ("shape", "code", "rights"),
    [
        pytest.param("sidecar", ONE_EACH, {("leases", "get"), ("leases", "update")}, id="kube-scheduler's"),
        pytest.param("service", ONLY_SSD, None, id="nobody binds"),
        pytest.param("control-plane", ONE_EACH, None, id="one caller each"),
        pytest.param(
            "service",
            ONE_EACH,
            {("leases", "get"), ("leases", "update"), ("leases", "create")},
            id="one of several binds",
        ),
        pytest.param(
            "standalone",
            ONLY_SSD,
            {("leases", "get"), ("leases", "update"), ("leases", "create")},
            id="one of several schedules",
        ),
    ],
)
def test_a_lease_is_for_those_who_hold_one(
    shape: str, code: str, rights: set[tuple[str, str]] | None, tmp_path: Path
) -> None:
    some = found(made(shape, policy(tmp_path, code), **MANAGED))
    roles = [one for one in some if one["kind"] == "Role"]

    assert [granted(role) for role in roles] == ([rights] if rights else [])
    for role in roles:
        named = [rule.get("resourceNames") for rule in role["rules"] if "create" not in rule["verbs"]]
        assert named == [["bayplan"]]


@pytest.mark.parametrize(
    ("shape", "text", "namespace"),
    [
        pytest.param("service", "extender: {lease: {namespace: locks}}", "locks", id="of an extender"),
        pytest.param(
            "standalone",
            "scheduler: {leaderElection: {resourceNamespace: locks}}",
            "locks",
            id="of a scheduler",
        ),
        pytest.param("sidecar", "extender: {lease: {namespace: locks}}", "team", id="not of kube-scheduler"),
        pytest.param("service", "extender: {lease: {duration: 20s}}", "team", id="nothing said"),
    ],
)
def test_the_rights_to_a_lease_are_where_the_lease_is(
    shape: str, text: str, namespace: str, tmp_path: Path
) -> None:
    policy(tmp_path, ONE_EACH)
    file = configuration(tmp_path, f"policies: [{{use: policy.py}}]\n{text}\n")
    some = found(made(shape, file, namespace="team", **MANAGED))
    role, account = of_kind("Role", some), of_kind("ServiceAccount", some)
    (binding,) = [one for one in some if one["kind"] == "RoleBinding" and one["roleRef"]["name"] == "bayplan"]

    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == namespace
    assert binding["subjects"][0]["namespace"] == account["metadata"]["namespace"] == "team"


def test_a_lease_in_a_namespace_that_is_none_is_refused(tmp_path: Path) -> None:
    file = configuration(tmp_path, "scheduler: {leaderElection: {resourceNamespace: My_Locks}}\n")

    with pytest.raises(InstallError, match=r"scheduler\.leaderElection\.resourceNamespace: 'My_Locks'"):
        made("standalone", file)


@pytest.mark.parametrize("shape", SHAPES)
def test_kube_schedulers_rights_are_for_the_shape_that_runs_one(shape: str, tmp_path: Path) -> None:
    some = found(made(shape, policy(tmp_path)))
    roles = {one["roleRef"]["name"] for one in some if one["kind"].endswith("Binding")}

    assert ("system:kube-scheduler" in roles) == (shape == "sidecar")
    assert ("system:volume-scheduler" in roles) == (shape == "sidecar")


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_allowed_by_a_star(shape: str, tmp_path: Path) -> None:
    some = found(made(shape, policy(tmp_path, ONE_EACH), **MANAGED))

    for role in [one for one in some if one["kind"] in ("Role", "ClusterRole")]:
        assert "*" not in str(role)
        assert not any("secrets" in rule["resources"] for rule in role["rules"])


@pytest.mark.parametrize(
    ("shape", "page"),
    [
        pytest.param("standalone", "schedule.md", id="of the scheduler"),
        pytest.param("service", "connect.md", id="of the extender"),
    ],
)
def test_the_documents_name_every_right(shape: str, page: str, tmp_path: Path) -> None:
    policy(tmp_path, ONE_EACH)
    text = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nudge: {enabled: true}}\n"
    some = found(made(shape, configuration(tmp_path, text), **MANAGED))
    documents = (Path(__file__).parents[2] / "docs" / "how-to" / page).read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", documents, re.MULTILINE | re.DOTALL)
    (role,) = [block for text in blocks if (block := yaml.safe_load(text)).get("kind") == "ClusterRole"]

    printed = granted(of_kind("ClusterRole", some)) | granted(of_kind("Role", some))
    assert printed <= granted(role)


def test_every_right_has_a_reason() -> None:
    assert all(right.why for right in RIGHTS)


def test_a_scheduler_may_give_volumes_to_claims_that_wait_for_their_first_pod(tmp_path: Path) -> None:
    rights = granted(of_kind("ClusterRole", found(made("standalone", policy(tmp_path)))))
    volumes = ("persistentvolumes", "persistentvolumeclaims")

    assert {(resource, verb) for resource in volumes for verb in ("get", "patch")} <= rights


def test_the_rights_of_a_scheduler_are_those_of_its_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/schedule.md").read_text()
    shown = next(
        one
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        for one in yaml.safe_load_all(block)
        if one and one.get("kind") == "ClusterRole"
    )
    some = found(made("standalone", policy(tmp_path)))
    ours = granted(of_kind("ClusterRole", some)) | granted(of_kind("Role", some))

    assert ours <= granted(shown)
    reads = {(resource, verb) for resource, verb in granted(shown) - ours if verb == "get"}
    assert granted(shown) - ours == reads, "more than we need is a read at the most"
