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


SHARES = """
    policies:
    - use: SharedResource
      args:
        resource: example.com/gpu-milli
        capacity: example.com/gpus
        deviceCount: {resource: example.com/gpu-count}
"""
COUNTED = ["example.com/gpu-count", "example.com/gpu-milli"]
LEFT_TO_US = [{"name": name, "ignoredByScheduler": True} for name in COUNTED]


def test_a_sidecar_does_not_look_for_what_only_we_count_and_asks_about_every_pod(tmp_path: Path) -> None:
    release = made("sidecar", configuration(tmp_path, SHARES))
    (profile,) = scheduler_configuration(release)["profiles"]

    assert profile["pluginConfig"] == [{"name": "NodeResourcesFit", "args": {"ignoredResources": COUNTED}}]
    assert "managedResources" not in entry(release)


@pytest.mark.parametrize("shape", ["service", "control-plane"])
def test_the_default_scheduler_leaves_to_us_what_only_we_count(shape: str, tmp_path: Path) -> None:
    release = made(shape, configuration(tmp_path, SHARES), extender={})

    assert entry(release)["managedResources"] == LEFT_TO_US


@pytest.mark.parametrize("shape", ["sidecar", "service"])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param([{"name": "example.com/gpu-milli"}], LEFT_TO_US[::-1], id="it is completed"),
        pytest.param(
            [{"name": "example.com/gpu-milli", "ignoredByScheduler": False}],
            [{"name": "example.com/gpu-milli", "ignoredByScheduler": False}, LEFT_TO_US[0]],
            id="nodes advertise it",
        ),
        pytest.param(
            [{"name": "example.com/fpga"}], [{"name": "example.com/fpga"}, *LEFT_TO_US], id="another"
        ),
    ],
)
def test_what_was_said_of_managed_resources_stands(
    shape: str, given: list[dict[str, Any]], wanted: list[dict[str, Any]], tmp_path: Path
) -> None:
    release = made(shape, configuration(tmp_path, SHARES), extender={"managedResources": given})

    assert entry(release)["managedResources"] == wanted
    assert "pluginConfig" not in scheduler_configuration(release).get("profiles", [{}])[0]


def test_what_a_shadow_counts_is_left_alone(tmp_path: Path) -> None:
    policy(tmp_path)
    shadow = SHARES.replace("- use: Sh", "- use: policy.py\n    - shadow: true\n      use: Sh")
    release = made("sidecar", configuration(tmp_path, shadow))

    assert scheduler_configuration(release)["profiles"] == [{"schedulerName": "bayplan-scheduler"}]


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
