"""Our entry in kube-scheduler's configuration: the verbs that policies need, and what each shape adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.install.documents import scheduler_configuration
from bayplan.install.shapes import SHAPES
from tests.install.releases import NEAREST, ONE_EACH, ONLY_SSD, VERSIONS, configuration, made, policy

PROTECTS = """
    import bayplan

    @bayplan.protect
    def never(pod, victim):
        return True
"""
PREFERS = """
    import bayplan

    @bayplan.prefer
    def near(pod, node):
        return "far"
"""


def entry(release: Any) -> dict[str, Any]:
    (found,) = scheduler_configuration(release)["extenders"]
    return dict(found)


@pytest.mark.parametrize(
    ("code", "verbs"),
    [
        pytest.param(ONLY_SSD, {"filterVerb", "preemptVerb"}, id="a filter is asked before evictions, too"),
        pytest.param(PREFERS, {"filterVerb", "preemptVerb"}, id="a soft rule is a filter"),
        pytest.param(NEAREST, {"prioritizeVerb"}, id="a score"),
        pytest.param(PROTECTS, {"preemptVerb"}, id="a protection"),
        pytest.param(
            ONE_EACH, {"filterVerb", "preemptVerb", "bindVerb"}, id="a rule between pods is checked at bind"
        ),
    ],
)
def test_only_verbs_that_hooks_answer_are_called(code: str, verbs: set[str], tmp_path: Path) -> None:
    found = entry(made("sidecar", policy(tmp_path, code)))

    assert {key for key in found if key.endswith("Verb")} == verbs
    assert ("weight" in found) == ("prioritizeVerb" in verbs)


def test_a_policy_that_hands_out_binds(tmp_path: Path) -> None:
    file = configuration(
        tmp_path,
        """
        policies:
        - use: SharedResource
          args: {resource: example.com/gpu-milli, capacity: example.com/gpus}
        """,
    )

    assert entry(made("sidecar", file))["bindVerb"] == "bind"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "standalone"])
def test_the_entry_is_one_that_kube_scheduler_reads(shape: str, version: str, tmp_path: Path) -> None:
    release = made(shape, policy(tmp_path), version=version)
    found = scheduler_configuration(release)

    assert found["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert entry(release)["nodeCacheCapable"] is True
    assert entry(release)["httpTimeout"] == "5s"


def test_a_sidecar_is_called_on_loopback_and_has_a_scheduler_name_of_its_own(tmp_path: Path) -> None:
    release = made("sidecar", policy(tmp_path))
    found = scheduler_configuration(release)

    assert found["profiles"] == [{"schedulerName": "bayplan-scheduler"}]
    assert found["leaderElection"]["resourceName"] == "bayplan"
    assert "clientConnection" not in found
    assert entry(release)["urlPrefix"] == "http://127.0.0.1:8888"
    assert "tlsConfig" not in entry(release)


@pytest.mark.parametrize(
    ("shape", "over", "url"),
    [
        pytest.param("control-plane", {}, "https://127.0.0.1:8888", id="on the host"),
        pytest.param("service", {}, "https://bayplan.kube-system.svc:8888", id="by its name"),
        pytest.param(
            "service", {"service": {"clusterIP": "10.0.0.5"}}, "https://10.0.0.5:8888", id="by its address"
        ),
        pytest.param(
            "service", {"service": {"clusterIP": "fd00::5"}}, "https://[fd00::5]:8888", id="by IPv6"
        ),
    ],
)
def test_elsewhere_certificates_tell_who_calls(
    shape: str, over: dict[str, Any], url: str, tmp_path: Path
) -> None:
    release = made(shape, policy(tmp_path), **over)
    found = entry(release)

    assert found["urlPrefix"] == url
    assert found["enableHTTPS"] is True
    assert set(found["tlsConfig"]) == {"caFile", "certFile", "keyFile"}
    assert scheduler_configuration(release)["clientConnection"]["kubeconfig"]


def test_kube_scheduler_waits_longer_than_we_take(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\nextender: {limits: {requestTimeout: 8s}}\n"
    release = made("sidecar", configuration(tmp_path, text))

    assert entry(release)["httpTimeout"] == "9s"
