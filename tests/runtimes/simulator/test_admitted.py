"""What the API server does to a pod before a scheduler sees it."""

from datetime import UTC, datetime
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from bayplan.config.load import ConfigError
from bayplan.config.profile import Profile
from bayplan.engine.choose import choose
from bayplan.kube.kinds import EVERY_KIND
from bayplan.kube.pod import Pod
from bayplan.kube.taint import Taint
from bayplan.runtimes.simulator.admitted import admitted
from bayplan.runtimes.simulator.manifest import pod_of
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import NO_OBJECTS, Objects
from bayplan.testing import make_cluster, make_node, make_pod

PROFILE = Profile.default().policies
HOSTNAME = "kubernetes.io/hostname"


def pod_with(spec: str, labels: str = "{}") -> Pod:
    lines = ["kind: Pod", f"metadata: {{name: new, namespace: shop, labels: {labels}}}", "spec:"]
    text = "\n".join([*lines, *(f"  {line}" for line in dedent(spec).strip().splitlines())])
    return pod_of(text.encode(), source="pod.yaml")


def plain(more: str = "") -> Pod:
    return pod_with(f"containers: [{{name: main}}]\n{more}")


def objects(*manifests: dict[str, Any]) -> Objects:
    return Objects.of((one["kind"], msgspec.convert(one, EVERY_KIND[one["kind"]].part)) for one in manifests)


def feasible(pod: Pod, cluster: Snapshot) -> list[str]:
    return choose(PROFILE, pod, cluster, now=datetime.now(UTC)).feasible


def with_terms(kind: str, term: str) -> Pod:
    spec = f"""
        containers: [{{name: main}}]
        affinity:
          {kind}:
            requiredDuringSchedulingIgnoredDuringExecution:
            - {{topologyKey: {HOSTNAME}, {term}}}
    """
    return pod_with(spec, "{app: train, tenant: a}")


@pytest.mark.parametrize(
    ("kind", "keys", "passes"),
    [
        pytest.param("podAntiAffinity", "mismatchLabelKeys: [tenant]", ["ours"], id="away from others"),
        pytest.param("podAntiAffinity", "matchLabelKeys: [tenant]", ["theirs"], id="away from its own"),
        pytest.param("podAffinity", "matchLabelKeys: [tenant]", ["ours"], id="to its own"),
        pytest.param("podAffinity", "mismatchLabelKeys: [tenant]", ["theirs"], id="to others"),
        pytest.param("podAffinity", "matchLabelKeys: [size]", ["theirs", "ours"], id="a label it has not"),
    ],
)
def test_label_keys_are_part_of_the_terms(kind: str, keys: str, passes: list[str]) -> None:
    tenants = {"theirs": "b", "ours": "a"}
    nodes = [make_node(name, labels={HOSTNAME: name}) for name in tenants]
    there = [
        make_pod(name, namespace="shop", labels={"app": "train", "tenant": tenant}, node=name)
        for name, tenant in tenants.items()
    ]
    pod = with_terms(kind, f"labelSelector: {{matchLabels: {{app: train}}}}, {keys}")

    assert feasible(pod, make_cluster(nodes, there)) == passes


def test_label_keys_of_wishes_are_part_of_them_too() -> None:
    term = f"{{topologyKey: {HOSTNAME}, labelSelector: {{}}, matchLabelKeys: [tenant]}}"
    wish = f"[{{weight: 1, podAffinityTerm: {term}}}]"
    spec = (
        "containers: [{name: main}]\n"
        f"affinity: {{podAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: {wish}}}}}"
    )

    affinity = pod_with(spec, "{tenant: a}").affinity.pod_affinity

    assert affinity is not None
    selectors = [one.pod_affinity_term.label_selector for one in affinity.preferred or ()]
    assert [one.matches({"tenant": "a"}) for one in selectors if one] == [True]
    assert [one.matches({"tenant": "b"}) for one in selectors if one] == [False]


def test_a_term_without_a_selector_still_means_no_pod() -> None:
    cluster = make_cluster([make_node("n", labels={HOSTNAME: "n"})], [make_pod("old", node="n")])

    assert feasible(with_terms("podAntiAffinity", "matchLabelKeys: [tenant]"), cluster) == ["n"]


@pytest.mark.parametrize(
    ("network", "port", "passes"),
    [
        pytest.param("true", "{containerPort: 9100}", ["free"], id="the node's network"),
        pytest.param("true", "{containerPort: 9100, hostPort: 9100}", ["free"], id="said twice"),
        pytest.param("false", "{containerPort: 9100}", ["taken", "free"], id="a network of its own"),
    ],
)
def test_a_port_in_the_network_of_the_node_is_one_of_the_node(
    network: str, port: str, passes: list[str]
) -> None:
    pod = pod_with(f"hostNetwork: {network}\ncontainers: [{{name: main, ports: [{port}]}}]")
    ports = [{"containerPort": 9100, "hostPort": 9100}]
    there = make_pod("old", node="taken", spec={"containers": [{"name": "c", "ports": ports}]})

    assert feasible(pod, make_cluster([make_node("taken"), make_node("free")], [there])) == passes


def test_a_node_that_is_gone_for_a_moment_is_tolerated() -> None:
    not_ready = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")
    unreachable = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")

    assert plain().tolerates(not_ready)
    assert plain().tolerates(unreachable)
    # It says itself how long it would stay: that is not touched.
    said = "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}"
    seconds = [one.toleration_seconds for one in plain(f"tolerations: [{said}]").tolerations]
    assert seconds == [5, 300]
    assert len(plain("tolerations: [{operator: Exists}]").tolerations) == 1


CLASSES = objects(
    {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
    {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 10, "globalDefault": True},
)


@pytest.mark.parametrize(
    ("said", "priority", "preempts"),
    [
        pytest.param("priorityClassName: high", 1000, "Never", id="its class"),
        pytest.param("", 10, "PreemptLowerPriority", id="the default of the cluster"),
        pytest.param(
            "priorityClassName: system-node-critical", 2_000_001_000, "PreemptLowerPriority", id="system"
        ),
        pytest.param("priority: 7", 7, "PreemptLowerPriority", id="a number, from a pod that was there once"),
    ],
)
def test_the_priority_is_that_of_the_class(said: str, priority: int, preempts: str) -> None:
    found = admitted(plain(said), CLASSES)

    assert (found.pod.priority, found.pod.preemption_policy, found.notes) == (priority, preempts, ())


def test_classes_that_nobody_knows_are_told() -> None:
    found = admitted(plain("priorityClassName: high\nruntimeClassName: gvisor"), NO_OBJECTS)

    assert found.pod.priority == 0
    high, gvisor = found.notes
    assert "PriorityClass high is not known here, so the pod has priority 0" in high
    assert "RuntimeClass gvisor is not known here" in gvisor
    assert "kubectl get nodes,pods,runtimeclasses -A -o json" in gvisor


RUNTIMES = objects(
    {
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"sandbox": "gvisor"},
            "tolerations": [{"key": "sandbox", "operator": "Exists"}],
        },
    }
)


def test_a_runtime_takes_something_and_says_where_it_is() -> None:
    pod = plain("runtimeClassName: gvisor\nnodeSelector: {disk: ssd}")

    found = admitted(pod, RUNTIMES).pod

    assert found.cpu_milli == 250
    assert found.node_selector == {"disk": "ssd", "sandbox": "gvisor"}
    assert found.tolerates(Taint(key="sandbox", effect="NoSchedule"))


def test_a_pod_that_contradicts_its_runtime_would_be_refused() -> None:
    pod = plain("runtimeClassName: gvisor\nnodeSelector: {sandbox: kata}")

    with pytest.raises(ConfigError, match="nodeSelector sandbox: kata, and its RuntimeClass gvisor has"):
        admitted(pod, RUNTIMES)


def test_containers_that_do_not_say_ask_for_what_their_namespace_says() -> None:
    limits = [
        {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "1Gi"}, "default": {"cpu": "2"}},
        {"type": "Pod", "defaultRequest": {"cpu": "8"}},
    ]
    ranges = objects(
        {"kind": "LimitRange", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"limits": limits}},
        {
            "kind": "LimitRange",
            "metadata": {"name": "b", "namespace": "elsewhere"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "64"}}]},
        },
    )
    silent, limited = "{name: a}", "{name: b, resources: {limits: {cpu: 1}, requests: {memory: 2Gi}}}"

    found = admitted(pod_with(f"containers: [{silent}, {limited}]"), ranges).pod

    assert (found.cpu_milli, found.memory_bytes) == (1100, 3 * 1024**3)
