"""The pod of a manifest: of its own or of a template, and mistakes with file and line."""

from pathlib import Path
from textwrap import dedent

import pytest

from bayplan.config.load import ConfigError
from bayplan.kube.pod import Pod
from bayplan.runtimes.simulator.manifest import pod_of, read_pod

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: main
    resources:
      requests: {cpu: 250m}
"""
SPEC = "{containers: [{name: main, resources: {limits: {cpu: 2}}}]}"
TEMPLATE = f"{{metadata: {{labels: {{app: web}}}}, spec: {SPEC}}}"


def read(text: str, namespace: str | None = None) -> Pod:
    return pod_of(dedent(text).encode(), source="pod.yaml", namespace=namespace)


def test_a_pod_is_read_as_it_is() -> None:
    pod = read(POD)

    assert (pod.key, pod.labels, pod.cpu_milli) == ("shop/web", {"app": "web"}, 250)


@pytest.mark.parametrize(
    "kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController"]
)
def test_the_template_of_a_workload_is_its_pod(kind: str) -> None:
    pod = read(f"kind: {kind}\nmetadata: {{name: web, namespace: shop}}\nspec: {{template: {TEMPLATE}}}")

    assert (pod.key, pod.labels) == ("shop/web", {"app": "web"})
    # What has a limit and no request asks for the limit, as the API server would have it.
    assert pod.cpu_milli == 2000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "kind: CronJob\nmetadata: {name: web}\n"
            f"spec: {{jobTemplate: {{spec: {{template: {TEMPLATE}}}}}}}",
            id="a CronJob",
        ),
        pytest.param(f"kind: PodTemplate\nmetadata: {{name: web}}\ntemplate: {TEMPLATE}", id="a PodTemplate"),
        pytest.param(
            f"kind: Rollout\nmetadata: {{name: web}}\nspec: {{template: {TEMPLATE}}}",
            id="a kind of somebody else with such a template",
        ),
        pytest.param(
            f"kind: Service\nmetadata: {{name: x}}\n---\nkind: Pod\nmetadata: {{name: web}}\nspec: {SPEC}",
            id="the second document",
        ),
        pytest.param(
            "kind: List\nitems:\n- {kind: Service, metadata: {name: x}}\n"
            f"- {{kind: Pod, metadata: {{name: web}}, spec: {SPEC}}}\n"
            f"- {{kind: Pod, metadata: {{name: later}}, spec: {SPEC}}}",
            id="the first pod of a list",
        ),
        pytest.param(f"kind: Pod\nmetadata: {{generateName: web}}\nspec: {SPEC}", id="a generated name"),
        pytest.param(
            '{"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}}',
            id="JSON",
        ),
    ],
)
def test_a_pod_is_found_wherever_it_is(text: str) -> None:
    assert read(text).key == "default/web"


def test_the_namespace_of_the_command_line_is_for_a_manifest_without_one() -> None:
    bare = f"kind: Pod\nmetadata: {{name: web}}\nspec: {SPEC}"

    assert read(bare, "shop").namespace == "shop"
    assert read(POD, "shop").namespace == "shop"
    with pytest.raises(ConfigError, match=r"pod.yaml:3: metadata.namespace: it is 'shop', and -n says 'x'"):
        read(POD, "x")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "containers:",
            "contaners:",
            "pod.yaml:5: spec.contaners: unknown key; did you mean 'containers'?",
            id="a typo in the spec",
        ),
        pytest.param(
            "resources:",
            "resource:",
            "pod.yaml:7: spec.containers[0].resource: unknown key; did you mean 'resources'?",
            id="a typo in a container",
        ),
        pytest.param(
            "requests:",
            "request:",
            "pod.yaml:8: spec.containers[0].resources.request: unknown key; did you mean 'requests'?",
            id="a typo in the resources",
        ),
        pytest.param(
            "labels:",
            "label:",
            "pod.yaml:3: metadata.label: unknown key; did you mean 'labels'?",
            id="a typo in the metadata",
        ),
        pytest.param(
            "250m",
            "250mm",
            "pod.yaml:8: spec.containers[0].resources.requests.cpu: '250mm' is not a quantity",
            id="no quantity",
        ),
        pytest.param("{app: web}", "{app: 1}", "pod.yaml:3: metadata.labels", id="a label that is no text"),
        pytest.param("name: web, ", "", "pod.yaml:3: metadata: `name` is missing", id="no name"),
        pytest.param("  - name: main", "  - name: [", "pod.yaml:", id="no YAML"),
        pytest.param("kind: Pod", "kind: Pod\nkind: Pod", "key 'kind' is given twice", id="a key twice"),
    ],
)
def test_a_mistake_has_its_line(old: str, new: str, said: str) -> None:
    assert old in POD

    with pytest.raises(ConfigError) as error:
        read(POD.replace(old, new))

    assert said in str(error.value)


@pytest.mark.parametrize(
    ("own", "of_template", "said"),
    [
        pytest.param(
            "{name: web}", "{label: {app: web}}", "pod.yaml:3: spec.template.metadata.label:", id="pod"
        ),
        pytest.param("{nmae: web}", "{labels: {app: web}}", "pod.yaml:2: metadata.nmae:", id="the workload"),
    ],
)
def test_the_metadata_of_a_workload_and_of_its_pod_are_both_looked_at(
    own: str, of_template: str, said: str
) -> None:
    text = f"kind: Job\nmetadata: {own}\nspec: {{template: {{metadata: {of_template}, spec: {SPEC}}}}}"

    with pytest.raises(ConfigError) as error:
        read(text)

    assert f"{said} unknown key; did you mean" in str(error.value)


def test_a_mistake_in_a_template_has_its_line() -> None:
    text = """\
        kind: Deployment
        metadata: {name: web}
        spec:
          template:
            spec:
              containers:
              - name: main
                resources: {requests: {memory: lots}}
    """

    with pytest.raises(
        ConfigError, match=r"pod.yaml:8: spec.template.spec.containers\[0\].resources.*'lots'"
    ):
        read(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("kind: Service", "there is Service; want a Pod, or a Deployment", id="another kind"),
        pytest.param("kind: List\nitems: []", "there is nothing", id="an empty list"),
        pytest.param("", "there is nothing", id="nothing"),
        pytest.param("a: 1", "there is no kind", id="no kind"),
        pytest.param("- a", "pod.yaml:1: want an object with `kind`", id="no object"),
        pytest.param("kind: Pod\nmetadata: {name: x}", "`spec` is missing", id="no spec"),
        pytest.param("kind: Pod\nspec: {nodeName: x}", "spec: `containers` is missing", id="no containers"),
        pytest.param("kind: Job\nspec: {}", "the template of the pod is missing", id="no template"),
    ],
)
def test_where_there_is_no_pod_the_error_says_what_there_is(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(text)

    assert said in str(error.value)


def test_a_key_that_is_like_no_other_may_be_newer_than_we_are() -> None:
    assert read(POD.replace("spec:\n", "spec:\n  quantumEntanglement: true\n")).name == "web"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        read_pod(str(tmp_path / "none.yaml"))
