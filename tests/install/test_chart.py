"""The Helm chart is what ``bayplan render`` prints: made from the same trees, and Helm says the same."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bayplan.install.chart import chart_files
from bayplan.install.evaluate import to_yaml
from bayplan.install.names import Release
from bayplan.install.plan import changed_values
from bayplan.install.shapes import SHAPES
from bayplan.install.values import Values
from tests.controlplane.helm_binary import HelmMissing, check, require
from tests.install.releases import (
    NEAREST,
    ONE_EACH,
    ONLY_SSD,
    configuration,
    found,
    made,
    policy,
)

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "bayplan"
Object = dict[str, Any]
MANAGED: Object = {"extender": {"managedResources": [{"name": "example.com/gpu"}]}}
EVERYTHING: Object = {
    "replicaCount": 3,
    "image": {"repository": "images.example.com:5000/bayplan", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"annotations": {"example.com/role": "a <b> & c"}, "name": "somebody"},
    "podAnnotations": {"example.com/a": "1"},
    "podLabels": {"team": "red"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "resources": {"limits": {"cpu": 2}},
    "extraArgs": ["--log-level=debug"],
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraVolumes": [{"name": "v", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "v", "mountPath": "/v"}],
    "files": {"note.txt": "two\nlines\n"},
    "service": {"clusterIP": "10.0.0.50", "port": 9999, "annotations": {"a": "b"}},
    "scheduler": {"name": "mine", "percentageOfNodesToScore": 100, "image": {"tag": "v1.30.1"}},
    "extender": {"weight": 20, "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]},
    "tls": {"mode": "cert-manager", "secretName": "s", "allowedNames": ["a", "b"]},
    "networkPolicy": {"opsFrom": [{"namespaceSelector": {}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "p"}},
}


def helm(*arguments: str | Path, said: str = "") -> str:
    """The output of Helm; its error where one is expected."""
    command = [str(require("helm")), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if said:
        assert ended.returncode != 0
        assert said in ended.stderr
        return ""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def templated(release: Release, folder: Path) -> list[Object]:
    """The same installation by Helm, from the values that ``bayplan render --part values`` prints."""
    values = folder / "values.yaml"
    values.write_text(to_yaml(changed_values(release.values)))
    text = helm(
        "template", release.name, CHART, "--namespace", release.namespace, "--values", values, "--skip-tests"
    )
    return [document for document in yaml.safe_load_all(text) if document]


def comparable(some: list[Object]) -> dict[tuple[str, str, str], Object]:
    """Objects by name, without who keeps them, and with files as data: their layout is each writer's own."""
    by_name = {}
    for one in some:
        labels = one["metadata"].get("labels", {})
        for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
            labels.pop(label, None)
        for name in [key for key in one.get("data", {}) if key.endswith(".yaml")]:
            one["data"][name] = yaml.safe_load(one["data"][name])
        template = one.get("spec", {}).get("template")
        if template:
            digest = template["metadata"]["annotations"].pop("checksum/config")
            assert re.fullmatch("[0-9a-f]{64}", digest)
        key = (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        assert key not in by_name
        by_name[key] = one
    return by_name


def test_the_chart_is_up_to_date() -> None:
    stale = [name for name, text in chart_files(CHART).items() if (CHART / name).read_text() != text]

    assert stale == [], "run `make chart`"


def test_values_of_the_chart_are_those_of_render() -> None:
    assert yaml.safe_load((CHART / "values.yaml").read_text()) == msgspec.to_builtins(Values())


@pytest.mark.parametrize("version", ["1.25", "1.28", "1.29.3", "1.30", "1.31", "1.38"])
@pytest.mark.parametrize("shape", SHAPES)
def test_helm_says_what_render_says(shape: str, version: str, tmp_path: Path) -> None:
    release = made(shape, policy(tmp_path), version=version)

    assert comparable(templated(release, tmp_path)) == comparable(found(release))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("code", "namespace", "over"),
    [
        pytest.param(ONLY_SSD, "bayplan", {}, id="a namespace of its own"),
        pytest.param(NEAREST, "kube-system", {}, id="a policy that scores"),
        pytest.param(ONE_EACH, "kube-system", MANAGED, id="a policy that binds"),
        pytest.param(ONLY_SSD, "kube-system", {"replicaCount": 1}, id="one replica"),
        pytest.param(ONLY_SSD, "team", EVERYTHING, id="every value another one"),
        pytest.param(
            ONLY_SSD,
            "kube-system",
            {"rbac": {"create": False}, "serviceAccount": {"create": False}},
            id="no rights, no account",
        ),
        pytest.param(ONLY_SSD, "kube-system", {"nameOverride": "other"}, id="another name"),
        pytest.param(
            ONLY_SSD, "kube-system", {"service": {"clusterIP": "fd00::50"}}, id="an address of IPv6"
        ),
        pytest.param(ONLY_SSD, "kube-system", {"image": {"tag": "a" * 64}}, id="an image by its digest"),
    ],
)
def test_helm_says_what_render_says_of_other_values(
    shape: str, code: str, namespace: str, over: Object, tmp_path: Path
) -> None:
    release = made(shape, policy(tmp_path, code), namespace=namespace, **over)

    assert comparable(templated(release, tmp_path)) == comparable(found(release))


@pytest.mark.parametrize("mode", ["cert-manager", "none", "existing-secret"])
@pytest.mark.parametrize("shape", ["service", "control-plane"])
def test_helm_says_what_render_says_of_certificates(shape: str, mode: str, tmp_path: Path) -> None:
    release = made(shape, policy(tmp_path), tls={"mode": mode})

    assert comparable(templated(release, tmp_path)) == comparable(found(release))


def test_helm_lays_the_same_over_a_configuration(tmp_path: Path) -> None:
    file = configuration(
        tmp_path,
        """
        policies:
        - use: Spread
          args: {pods: {sameOwner: true}, by: zone, maxSkew: 1}
        cluster:
          source: kubeconfig
          qps: 12.5
          nudge: {enabled: true}
        extender:
          listen: 127.0.0.1:1
          limits: {maxBodyBytes: 268435456, requestTimeout: 6s, drainTimeout: 1m}
        journal: {maxBytes: 1234567890}
        """,
    )
    release = made("service", file, **MANAGED)

    assert comparable(templated(release, tmp_path)) == comparable(found(release))


def test_helm_leaves_the_pods_out_where_nodes_alone_are_followed(tmp_path: Path) -> None:
    file = configuration(
        tmp_path,
        """
        policies: [{name: on-ssd, filter: "node.metadata.labels[?'disk'].orValue('') == 'ssd'"}]
        cluster: {source: in-cluster, nodesOnly: true}
        """,
    )
    release = made("service", file, **MANAGED)

    assert comparable(templated(release, tmp_path)) == comparable(found(release))
    (role,) = [one for one in found(release) if one["kind"] == "ClusterRole"]
    assert {name for rule in role["rules"] for name in rule["resources"]} == {"nodes"}


PAGE = "page: {{listen: '{}', tokenFile: /etc/page/token}}"
MOUNTED = {
    "extraVolumes": [{"name": "page", "secret": {"secretName": "page"}}],
    "extraVolumeMounts": [{"name": "page", "mountPath": "/etc/page"}],
}
SHARES = "policies: [{use: SharedResource, args: {resource: example.com/gpu, capacity: example.com/gpus}}]"


@pytest.mark.parametrize(
    ("shape", "text", "over"),
    [
        pytest.param("service", "extender: {lease: {namespace: locks}}", MANAGED, id="a Lease elsewhere"),
        pytest.param(
            "standalone",
            "scheduler: {leaderElection: {resourceNamespace: locks}}",
            {},
            id="the Lease of a scheduler elsewhere",
        ),
        pytest.param(
            "standalone", "scheduler: {profiles: [{schedulerName: a}, {schedulerName: b}]}", {}, id="names"
        ),
        pytest.param("standalone", "scheduler: {profiles: []}", {}, id="no names"),
        pytest.param("sidecar", PAGE.format(":8890"), MOUNTED, id="a page for others"),
        pytest.param("standalone", PAGE.format("[::]:9000"), MOUNTED, id="a page on another port"),
        pytest.param("service", PAGE.format("127.0.0.1:8890"), {"extender": {}}, id="a page on loopback"),
        pytest.param("service", PAGE.format("[::1]:8890"), {"extender": {}}, id="a page on loopback of IPv6"),
        pytest.param("sidecar", PAGE.format("off"), {}, id="no page"),
        pytest.param("sidecar", "", {}, id="what only we count, beside kube-scheduler"),
        pytest.param("service", "", {"extender": {}}, id="what only we count"),
    ],
)
def test_helm_says_what_render_says_of_configurations(
    shape: str, text: str, over: Object, tmp_path: Path
) -> None:
    release = made(shape, configuration(tmp_path, f"{SHARES}\n{text}\n"), **over)

    assert comparable(templated(release, tmp_path)) == comparable(found(release))


@pytest.mark.parametrize("shape", SHAPES)
def test_helm_has_nothing_to_complain_of(shape: str, tmp_path: Path) -> None:
    release = made(shape, policy(tmp_path))
    values = tmp_path / "values.json"
    values.write_text(json.dumps(changed_values(release.values)))

    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, "--values", values)


def test_other_contents_of_the_configuration_replace_pods(tmp_path: Path) -> None:
    def digest(code: str) -> str:
        release = made("sidecar", policy(tmp_path, code))
        (workload,) = [one for one in templated(release, tmp_path) if one["kind"] == "Deployment"]
        return str(workload["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert digest(ONLY_SSD) == digest(ONLY_SSD)
    assert digest(ONLY_SSD) != digest(NEAREST)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(["shape=service"], "with every pod, our own included", id="hen and egg"),
        pytest.param(["extender.ignorable=true", "verbs.bind=true"], "behind our back", id="two binders"),
        pytest.param(["verbs.preempt=false"], "evicted", id="needless evictions"),
        pytest.param(["shape=pod"], "shape", id="no such shape"),
        pytest.param(["replicas=3"], "replicas", id="a mistyped value"),
        pytest.param(["image.tagg=3"], "tagg", id="a mistyped value inside"),
        pytest.param(["kubernetesVersion=1.99.0"], "is not known here: >=1.25.0-0 <1.39.0-0", id="to come"),
        pytest.param(["scheduler.name=default-scheduler"], "own scheduler", id="the name of another"),
        pytest.param(["extender.managedResources[0].name=gpu"], "no domain", id="no extended resource"),
        pytest.param(["kubernetesVersion=1.24.0"], "is not known here", id="an old version"),
        pytest.param(["kubernetesVersion=latest"], "kubernetesVersion", id="no version"),
        pytest.param(
            ["config.cluster.snapshot=cluster.json"],
            "config.cluster.snapshot: a pod is in its cluster",
            id="another cluster",
        ),
        pytest.param(
            ["shape=standalone", "scheduler.name=c", "config.scheduler.profiles[0].schedulerName=a"],
            "names the pods that are ours: a; leave scheduler.name c away",
            id="two names",
        ),
    ],
)
def test_helm_refuses_what_cannot_work(values: list[str], said: str) -> None:
    settings = [argument for value in values for argument in ("--set", value)]

    helm("template", "bayplan", CHART, *settings, said=said)


def test_the_chart_brings_dashboard_alerts_and_a_test() -> None:
    switches = ["--set=dashboard.enabled=true", "--set=prometheusRule.enabled=true"]
    text = helm("template", "bayplan", CHART, *switches)
    by_kind = {one["kind"]: one for one in yaml.safe_load_all(text) if one and "Config" not in one["kind"]}
    boards = [one for one in yaml.safe_load_all(text) if one and "dashboard" in one["metadata"]["name"]]
    deploy = CHART.parents[1]

    rules = yaml.safe_load((deploy / "prometheus" / "bayplan-rules.yaml").read_text())
    assert by_kind["PrometheusRule"]["spec"] == rules
    assert json.loads(boards[0]["data"]["bayplan.json"]) == json.loads(
        (deploy / "grafana" / "bayplan.json").read_text()
    )
    assert by_kind["Pod"]["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert by_kind["Pod"]["spec"]["securityContext"]["runAsNonRoot"] is True


def test_an_archive_that_is_not_the_pinned_one_is_refused() -> None:
    with pytest.raises(HelmMissing, match="another @aws-cdk"):
        check(b"something else")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(["shape=sidecar"], "schedulerName: bayplan-scheduler\n", id="of a sidecar"),
        pytest.param(["shape=standalone", "scheduler.name=mine"], "schedulerName: mine\n", id="its own"),
        pytest.param(
            [
                "shape=standalone",
                "config.scheduler.profiles[0].schedulerName=red",
                "config.scheduler.profiles[1].schedulerName=blue",
            ],
            "schedulerName: red or blue\n",
            id="of the configuration",
        ),
    ],
)
def test_the_notes_name_the_scheduler_that_pods_ask_for(settings: list[str], said: str) -> None:
    arguments = [argument for value in settings for argument in ("--set", value)]
    text = helm("install", "bayplan", CHART, "--dry-run=client", *arguments)

    assert said in text.partition("NOTES:")[2]
