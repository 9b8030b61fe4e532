"""``bayplan render`` and ``bayplan certs``: what they print, write and refuse."""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.cli.main import commands
from bayplan.install.certificates import Pair, issue
from tests.install.releases import ONE_EACH, configuration, policy

SHARES = """
    policies:
    - use: SharedResource
      args: {resource: example.com/gpu-milli, capacity: example.com/gpus}
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def test_the_same_input_is_the_same_text(tmp_path: Path) -> None:
    first, second = (run("render", "sidecar", policy(tmp_path)) for _ in range(2))

    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    assert len(list(yaml.safe_load_all(first.stdout))) == 14


def test_as_json_it_is_a_list(tmp_path: Path) -> None:
    text = run("render", "sidecar", policy(tmp_path)).stdout
    listed = json.loads(run("render", "sidecar", policy(tmp_path), "-o", "json").stdout)

    assert listed["kind"] == "List"
    assert listed["items"] == list(yaml.safe_load_all(text))


def test_in_a_folder_it_is_a_file_each_and_hosts_have_their_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("render", "control-plane", policy(tmp_path), "--ignorable", "--out", out)

    assert result.exit_code == 0, result.output
    assert {path.name for path in (out / "control-plane").iterdir()} == {
        "kube-scheduler.yaml",
        "kube-scheduler+json.yaml",
        "kubeadm-configuration.yaml",
        "STEPS.txt",
    }
    steps = (out / "control-plane" / "STEPS.txt").read_text()
    assert f"kubectl apply --server-side -f {out}\n" in steps
    names = sorted(path.name for path in out.glob("*.yaml"))
    assert names[0] == "01-serviceaccount-bayplan.yaml"
    assert all(yaml.safe_load((out / name).read_text())["kind"] for name in names)


def test_files_of_another_time_are_not_left_among_the_new_ones(tmp_path: Path) -> None:
    """Their numbers differ, so that `kubectl apply -f` would bring the old Deployment back."""
    out, values = tmp_path / "out", tmp_path / "values.yaml"
    values.write_text("createNamespace: false\n")
    first = [run("render", "sidecar", policy(tmp_path), "-n", "team", "--out", out) for _ in range(2)]
    before = {path.name: path.read_text() for path in out.iterdir()}

    changed = run("render", "sidecar", policy(tmp_path), "-n", "team", "--values", values, "--out", out)

    assert [result.exit_code for result in first] == [0, 0]
    assert changed.exit_code == 1
    assert "of an earlier time would be applied, too: remove what is there" in changed.output
    assert {path.name: path.read_text() for path in out.iterdir()} == before


def test_a_resource_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    twice = ("--managed-resource", "example.com/gpu") * 2

    result = run("render", "sidecar", policy(tmp_path), *twice)

    assert result.exit_code == 1
    assert "'example.com/gpu' is there twice: kube-scheduler does not start so" in result.output


def test_a_scheduler_that_would_not_start_is_not_rendered(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\nscheduler: {podInitialBackoff: 20s, podMaxBackoff: 1s}\n"

    result = run("render", "standalone", "--config", configuration(tmp_path, text))

    assert result.exit_code == 1
    assert "scheduler.podMaxBackoff: 1s is less than podInitialBackoff" in result.output


@pytest.mark.parametrize(
    ("shape", "text", "said"),
    [
        pytest.param("sidecar", "page: {listen: ':8890'}", "give page.tokenFile", id="a page for all"),
        pytest.param(
            "standalone", "page: {listen: ':8890'}", "give page.tokenFile", id="that of a scheduler"
        ),
        pytest.param(
            "sidecar", "tracing: {otlpEndpoint: collector}", "tracing.otlpEndpoint", id="no address"
        ),
        pytest.param(
            "standalone", "tracing: {otlpEndpoint: collector}", "tracing.otlpEndpoint", id="nor here"
        ),
        pytest.param(
            "service", "extender: {lease: {duration: 5s}}", "extender.lease.duration: 5s", id="a short Lease"
        ),
    ],
)
def test_a_server_that_would_not_start_is_not_rendered(
    shape: str, text: str, said: str, tmp_path: Path
) -> None:
    policy(tmp_path, ONE_EACH)
    file = configuration(tmp_path, f"policies: [{{use: policy.py}}]\n{text}\n")

    result = run("render", shape, "--config", file, "--managed-resource=example.com/slot")

    assert result.exit_code == 1
    assert said in " ".join(result.output.split())


def test_beside_its_kube_scheduler_a_server_needs_no_lease(tmp_path: Path) -> None:
    policy(tmp_path, ONE_EACH)
    text = "policies: [{use: policy.py}]\nextender: {lease: {duration: 5s}}\n"

    assert run("render", "sidecar", "--config", configuration(tmp_path, text)).exit_code == 0


def test_policies_that_an_extender_cannot_ask_are_not_rendered(tmp_path: Path) -> None:
    volumes = configuration(tmp_path, "policies: [{use: VolumeBinding}]\n")
    assert "an extender does not watch" in " ".join(run("render", "sidecar", "-c", volumes).output.split())

    policy(tmp_path, ONE_EACH.replace("(recheck=True)", ""))
    text = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nodesOnly: true}\n"
    assert "nodesOnly" in run("render", "sidecar", "-c", configuration(tmp_path, text)).output


def test_the_second_scheduler_has_two_names(tmp_path: Path) -> None:
    assert run("render", "scheduler").stdout == run("render", "standalone").stdout


def test_options_end_up_in_objects(tmp_path: Path) -> None:
    options = ["--image", "images.example.com:5000/bayplan:2", "--replicas", "3", "--name", "mine"]
    text = run("render", "sidecar", policy(tmp_path), *options, "--scheduler-name", "s").stdout
    (deployment,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]

    assert deployment["metadata"]["name"] == "mine"
    assert deployment["spec"]["replicas"] == 3
    images = deployment["spec"]["template"]["spec"]["initContainers"][0]["image"]
    assert images == "images.example.com:5000/bayplan:2"
    assert "schedulerName: s\n" in text


def test_values_of_the_chart_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("nodeSelector: {disk: ssd}\n")
    text = run("render", "sidecar", policy(tmp_path), "--values", tmp_path / "values.yaml").stdout

    assert "nodeSelector:\n        disk: ssd\n" in text


@pytest.mark.parametrize(
    ("minor", "version", "arguments"),
    [
        pytest.param(
            "1.30", "v1beta3", {"config": "/etc/kubernetes/bayplan/kube-scheduler.yaml"}, id="a map"
        ),
        pytest.param(
            "1.31",
            "v1beta4",
            [{"name": "config", "value": "/etc/kubernetes/bayplan/kube-scheduler.yaml"}],
            id="a list",
        ),
    ],
)
def test_kubeadm_is_told_in_its_own_words(
    minor: str, version: str, arguments: object, tmp_path: Path
) -> None:
    options = ["--ignorable", "--kubernetes-version", minor, "--part"]
    config = yaml.safe_load(
        run("render", "control-plane", policy(tmp_path), *options, "kubeadm-config").stdout
    )
    patch = yaml.safe_load(run("render", "control-plane", policy(tmp_path), *options, "kubeadm-patch").stdout)

    assert config["apiVersion"] == f"kubeadm.k8s.io/{version}"
    assert config["scheduler"]["extraArgs"] == arguments
    assert [step["op"] for step in patch] == ["add", "add", "add"]


@pytest.mark.parametrize("shape", ["sidecar", "service", "control-plane"])
def test_steps_tell_what_is_left_to_do(shape: str, tmp_path: Path) -> None:
    options = [] if shape == "sidecar" else ["--ignorable"]
    text = run("render", shape, policy(tmp_path), *options, "--part", "steps").stdout

    assert text.startswith("1. ")
    assert "kubectl -n kube-system rollout status d" in text
    assert ("/etc/kubernetes/bayplan" in text) == (shape != "sidecar")


@pytest.mark.parametrize(
    ("shape", "options", "made", "shown"),
    [
        pytest.param(
            "service",
            [],
            "bayplan certs create --out certs --dns bayplan.kube-system.svc",
            "bayplan certs show certs --namespace kube-system -o yaml",
            id="a Service by its name",
        ),
        pytest.param(
            "service",
            ["--cluster-ip", "10.96.0.50", "--name", "mine", "--namespace", "team"],
            "bayplan certs create --out certs --ip 10.96.0.50",
            "bayplan certs show certs --name mine --namespace team -o yaml",
            id="by its address, under another name",
        ),
        pytest.param(
            "control-plane",
            [],
            "bayplan certs create --out certs --ip 127.0.0.1",
            "bayplan certs show certs --namespace kube-system -o yaml",
            id="on the host",
        ),
    ],
)
def test_steps_make_the_certificates_that_pods_mount(
    shape: str, options: list[str], made: str, shown: str, tmp_path: Path
) -> None:
    arguments: list[str | Path] = [shape, policy(tmp_path), "--ignorable", *options]
    steps = [
        line.partition(":  ")[2] for line in run("render", *arguments, "--part", "steps").stdout.splitlines()
    ]
    assert made in steps
    assert f"{shown} | kubectl apply --server-side -f -" in steps

    folder = str(tmp_path / "certs")
    assert run(*made.replace("--out certs", f"--out {folder}").split()[1:]).exit_code == 0
    secrets = run(*shown.replace("show certs", f"show {folder}").split()[1:]).stdout
    names = {one["metadata"]["name"] for one in yaml.safe_load_all(secrets)}
    objects = list(yaml.safe_load_all(run("render", *arguments).stdout))
    (workload,) = [one for one in objects if one["kind"] in ("Deployment", "DaemonSet")]
    volumes = workload["spec"]["template"]["spec"]["volumes"]
    assert {volume["secret"]["secretName"] for volume in volumes if "secret" in volume} <= names


def test_the_address_is_asked_for_before_certificates_are_made_for_it(tmp_path: Path) -> None:
    options: list[str | Path] = ["service", policy(tmp_path), "--ignorable", "--part", "steps"]
    named = run("render", *options).stdout
    addressed = run("render", *options, "--cluster-ip", "10.96.0.50").stdout

    assert named.index("--cluster-ip") < named.index("certs create")
    assert "--cluster-ip" not in addressed


def test_secrets_of_other_names_are_made_by_hand(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("tls: {secretName: ours, clientSecretName: theirs}\n")
    options: list[str | Path] = ["--ignorable", "--values", tmp_path / "values.yaml", "--part", "steps"]
    text = run("render", "service", policy(tmp_path), *options).stdout

    assert "Make the Secrets ours and theirs of them, each with tls.crt, tls.key and ca.crt" in text
    assert "certs show" not in text


@pytest.mark.parametrize("shape", ["sidecar", "standalone", "service", "control-plane"])
def test_the_first_step_is_the_image(shape: str, tmp_path: Path) -> None:
    wanted = ["--ignorable"] if shape in ("service", "control-plane") else []
    options: list[str | Path] = [policy(tmp_path), "--part", "steps", *wanted]
    unnamed = run("render", shape, *options)
    named = run("render", shape, *options, "--image", "registry.example/bayplan:0.1.0")

    assert unnamed.stdout.startswith("1. Have the image bayplan:0.1.0 where nodes get it from: build")
    assert "give --image with yours, such as registry.example/bayplan:0.1.0" in unnamed.stdout
    assert named.stdout.startswith("1. Have the image registry.example/bayplan:0.1.0 where nodes get it from")
    assert "--image" not in named.stdout
    assert "note: " not in unnamed.stderr, "it is said once"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="as YAML"),
        pytest.param(["-o", "json"], id="as JSON"),
        pytest.param(["--part", "values"], id="for Helm"),
    ],
)
def test_an_image_that_nobody_can_pull_is_noted_beside_what_is_printed(
    options: list[str], tmp_path: Path
) -> None:
    result = run("render", "sidecar", policy(tmp_path), *options)

    assert result.exit_code == 0, result.output
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("note: the image is bayplan:0.1.0, of no registry: ")
    assert "--image registry.example/bayplan:0.1.0" in result.stderr
    assert list(yaml.safe_load_all(result.stdout))
    assert "note: " not in result.stdout


def test_of_an_image_that_was_named_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("image: {repository: registry.example/bayplan}\n")
    given: list[list[str | Path]] = [
        ["--image", "registry.example/bayplan:0.1.0"],
        ["--image", "bayplan:0.1.0"],  # Put on the nodes by hand, as `kind load` does.
        ["--values", tmp_path / "values.yaml"],
        ["--part", "scheduler-config"],
    ]

    assert [run("render", "sidecar", policy(tmp_path), *each).stderr for each in given] == [""] * 4


def test_where_one_pod_alone_is_ready_steps_do_not_wait_for_two(tmp_path: Path) -> None:
    options = ["--managed-resource", "example.com/gpu", "--part", "steps"]
    held = run("render", "service", policy(tmp_path, ONE_EACH), *options).stdout
    shared = run("render", "service", policy(tmp_path), *options).stdout

    assert "wait --for=jsonpath='{.status.readyReplicas}'=1 --timeout=5m deployment/bayplan" in held
    assert "rollout status" not in held
    assert "rollout status deployment/bayplan" in shared


def test_a_namespace_that_is_there_already_is_left_out_when_asked(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("createNamespace: false\n")
    options: list[str | Path] = [policy(tmp_path), "--namespace", "team"]

    assert "kind: Namespace\n" in run("render", "sidecar", *options).stdout
    text = run("render", "sidecar", *options, "--values", tmp_path / "values.yaml").stdout
    assert "kind: Namespace\n" not in text
    assert "namespace: team\n" in text


def test_helm_is_not_told_to_make_the_namespace_that_it_installs_into(tmp_path: Path) -> None:
    values = run("render", "sidecar", policy(tmp_path), "--namespace", "team", "--part", "values").stdout

    assert yaml.safe_load(values)["fullnameOverride"] == "bayplan"
    assert "createNamespace" not in values


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["sidecar"], id="on loopback"),
        pytest.param(["service", "--ignorable", "--tls", "none"], id="without TLS"),
    ],
)
def test_a_server_with_tls_is_not_called_without(options: list[str], tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\nextender: {tls: {certFile: a.crt, keyFile: a.key}}\n"
    file = configuration(tmp_path, text)

    assert "extender.tls" in run("render", *options, "-c", file).output
    assert run("render", "service", "--ignorable", "-c", file).exit_code == 0


def test_certificates_of_a_folder_go_along_as_secrets(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    assert run("certs", "create", "--out", certs, "--dns", "bayplan.kube-system.svc").exit_code == 0
    options: list[str | Path] = ["--ignorable", "--tls", "certs", "--certs", certs]
    text = run("render", "service", policy(tmp_path), *options).stdout
    secrets = {o["metadata"]["name"]: o for o in yaml.safe_load_all(text) if o["kind"] == "Secret"}
    printed = list(yaml.safe_load_all(run("certs", "show", certs, "-o", "yaml").stdout))

    assert set(secrets) == {"bayplan-tls", "bayplan-client-tls"}
    key = base64.b64decode(secrets["bayplan-tls"]["data"]["tls.key"])
    assert key == (certs / "server.key").read_bytes()
    assert printed == list(secrets.values())
    assert "ca.key" not in text


@pytest.mark.parametrize("name", ["server.key", "client.key"])
def test_a_key_of_another_certificate_is_no_secret(name: str, tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    run("certs", "create", "--out", certs, "--dns", "bayplan.kube-system.svc")
    (certs / name).write_bytes((certs / "ca.key").read_bytes())
    options: list[str | Path] = ["--ignorable", "--tls", "certs", "--certs", certs]
    commands = [
        ["render", "service", policy(tmp_path), *options],
        *(["certs", "show", certs, "-o", form] for form in ("table", "json", "yaml")),
    ]

    for each in commands:
        result = run(*each)
        assert result.exit_code == 1
        assert f"{certs / name}: it is not that of its certificate" in result.stderr
        assert result.stdout == ""


def test_secrets_come_after_the_namespace_that_they_are_in(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    run("certs", "create", "--out", certs, "--dns", "bayplan.team.svc")
    options: list[str | Path] = ["--ignorable", "--namespace", "team", "--tls", "certs", "--certs", certs]
    text = run("render", "service", policy(tmp_path), *options).stdout
    steps = run("render", "service", policy(tmp_path), *options, "--part", "steps").stdout

    assert [one["kind"] for one in yaml.safe_load_all(text)][:3] == ["Namespace", "Secret", "Secret"]
    assert steps.index("Apply the objects") < steps.index("--namespace team -o yaml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["service"], "--ignorable, so that pods", id="hen and egg"),
        pytest.param(["sidecar", "--kubernetes-version", "1.20"], "1.25 to 1.38", id="an old version"),
        pytest.param(["pod"], "sidecar", id="no such shape"),
        pytest.param(["service", "--tls", "certs"], "--certs DIR", id="no certificates"),
        pytest.param(["service", "--ignorable", "--certs", "d"], "for --tls certs", id="idle certificates"),
        pytest.param(["sidecar", "--name", "My_Plan"], "'My_Plan': small letters", id="a bad name"),
        pytest.param(["sidecar", "--name", "n" * 60], "at most 59", id="no room for the name of a Service"),
        pytest.param(["sidecar", "-n", "My_Team"], "namespace: 'My_Team'", id="a bad namespace"),
        pytest.param(
            ["service", "--ignorable", "--cluster-ip", "10.96"], "no IP address", id="half an address"
        ),
        pytest.param(["sidecar", "--part", "kubeadm-patch"], "control-plane and service", id="no such part"),
        pytest.param(["standalone", "--part", "scheduler-config"], "nothing of that", id="no kube-scheduler"),
        pytest.param(["sidcar"], "'sidcar' is no shape; did you mean 'sidecar'?", id="a mistyped shape"),
        pytest.param(
            ["sidecar", "--scheduler-name", "default-scheduler"], "own scheduler", id="a name taken"
        ),
        pytest.param(["sidecar", "--managed-resource", "gpu"], "'gpu' has no domain", id="no resource"),
        pytest.param(["sidecar", "--image", ":2"], "values: image.repository: want text", id="no image"),
        pytest.param(["sidecar", "--out", "d", "--part", "steps"], "leave --part steps", id="a part of all"),
        pytest.param(["sidecar", "--out", "d", "-o", "json"], "writes YAML", id="files of JSON"),
        pytest.param(["sidecar", "-o", "json", "--part", "steps"], "for the manifests", id="steps in JSON"),
    ],
)
def test_what_cannot_work_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = run("render", *arguments[:1], policy(tmp_path), *arguments[1:])

    assert result.exit_code in (1, 2)
    assert said in result.output


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        pytest.param(["standalone", "--ignorable"], "--ignorable", id="of an extender"),
        pytest.param(["sidecar", "--cluster-ip", "10.0.0.1"], "--cluster-ip", id="of a Service"),
        pytest.param(["standalone", "--tls", "none"], "--tls", id="of certificates"),
        pytest.param(["standalone", "--managed-resource", "a.b/c"], "--managed-resource", id="of an entry"),
    ],
)
def test_an_option_of_another_shape_is_said_to_be(arguments: list[str], flag: str, tmp_path: Path) -> None:
    result = run("render", *arguments[:1], policy(tmp_path), *arguments[1:])

    assert result.exit_code == 0
    assert f"warning: {flag} is passed over: it is for " in result.stderr
    assert "warning" not in result.stdout


def test_without_policies_there_is_nothing_to_serve() -> None:
    assert "no policies" in run("render", "sidecar").output


def test_a_policy_that_binds_must_not_be_ignorable(tmp_path: Path) -> None:
    result = run("render", "service", policy(tmp_path, ONE_EACH), "--ignorable")

    assert "behind their back" in " ".join(result.output.split())


def test_what_is_handed_out_is_suggested_where_policies_are_for_other_pods_too(tmp_path: Path) -> None:
    policy(tmp_path)
    result = run("render", "service", "--config", configuration(tmp_path, f"{SHARES}    - use: policy.py\n"))

    assert "such as --managed-resource example.com/gpu-milli" in " ".join(result.output.split())
    assert "--ignorable" not in result.output


def test_a_file_elsewhere_does_not_fit_into_a_config_map(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    policy(tmp_path / "deep")
    file = configuration(tmp_path, "policies: [{use: deep/policy.py}]\n")

    assert "put it beside the configuration" in " ".join(run("render", "sidecar", "-c", file).output.split())


def test_a_journal_must_be_written_where_one_can_write(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\njournal: {file: {path: /var/log/bayplan.jsonl}}\n"
    file = configuration(tmp_path, text)

    assert "read-only" in run("render", "sidecar", "-c", file).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "scheduler:\n  nmae: mine\n",
            "values.yaml:2: scheduler.nmae: unknown key; did you mean 'name'?",
            id="a mistyped name",
        ),
        pytest.param("replicaCount: many\n", "values.yaml:1: replicaCount: want a whole", id="no number"),
        pytest.param("a: 1\n---\nb: 1\n", "want one YAML document, found 2", id="two documents"),
        pytest.param("verbs: {preempt: false}\n", "evicted for nodes", id="needless evictions"),
        pytest.param("kubernetesVersion: 1.99.0\n", "1.25 to 1.38 are", id="a version to come"),
        pytest.param("kubernetesVersion: latest\n", "values.yaml:1: kubernetesVersion", id="no version"),
    ],
)
def test_bad_values_are_told_with_their_place(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(text)
    result = run("render", "sidecar", policy(tmp_path), "--values", tmp_path / "values.yaml")

    assert result.exit_code == 1
    assert said in " ".join(result.output.split())


def test_values_win_over_what_would_be_worked_out(tmp_path: Path) -> None:
    text = "kubernetesVersion: 1.31.4\nextender: {httpTimeout: 20s}\nterminationGracePeriodSeconds: 99\n"
    (tmp_path / "values.yaml").write_text(f"{text}verbs: {{prioritize: true}}\n")
    options: list[str | Path] = [policy(tmp_path), "--values", tmp_path / "values.yaml"]
    text = run("render", "sidecar", *options).stdout

    assert "image: registry.k8s.io/kube-scheduler:v1.31.4\n" in text
    assert "httpTimeout: 20s\n" in text
    assert "prioritizeVerb: prioritize\n" in text
    assert "terminationGracePeriodSeconds: 99\n" in text
    newer = run("render", "sidecar", *options, "--kubernetes-version", "1.36").stdout
    assert "kube-scheduler:v1.36.0\n" in newer


NAMES = "scheduler: {profiles: [{schedulerName: red}, {schedulerName: blue}]}\n"


def test_steps_name_the_schedulers_of_the_configuration(tmp_path: Path) -> None:
    file = configuration(tmp_path, NAMES)
    steps = run("render", "standalone", "-c", file, "--part", "steps").stdout
    text = run("render", "standalone", "-c", file).stdout

    assert "spec.schedulerName: red or blue are placed" in steps
    assert "bayplan-scheduler" not in text


def test_a_scheduler_is_named_in_one_place(tmp_path: Path) -> None:
    file = configuration(tmp_path, NAMES)
    result = run("render", "standalone", "-c", file, "--scheduler-name", "green")

    assert result.exit_code == 1
    assert "the pods that are ours: red, blue; leave --scheduler-name green" in " ".join(
        result.output.split()
    )
    same = configuration(tmp_path, "scheduler: {profiles: [{schedulerName: red}]}\n", name="same.yaml")
    assert run("render", "standalone", "-c", same, "--scheduler-name", "red").exit_code == 0


def test_profiles_that_are_empty_are_none(tmp_path: Path) -> None:
    file = configuration(tmp_path, "scheduler: {profiles: []}\n")
    text = run("render", "standalone", "-c", file, "--scheduler-name", "green").stdout

    assert "- schedulerName: green\n" in text


def test_values_that_are_no_values_are_told(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("- replicaCount\n")
    result = run("render", "sidecar", policy(tmp_path), "--values", tmp_path / "values.yaml")

    assert "no values in it" in result.output


def test_an_image_by_its_digest_makes_labels_that_the_api_server_takes(tmp_path: Path) -> None:
    image = "images.example.com/bayplan@sha256:" + "a" * 64
    objects = list(yaml.safe_load_all(run("render", "sidecar", policy(tmp_path), "--image", image).stdout))
    labels = [one["metadata"]["labels"]["app.kubernetes.io/version"] for one in objects]

    assert {len(label) for label in labels} == {63}
    assert f"image: {image}\n" in run("render", "sidecar", policy(tmp_path), "--image", image).stdout


def test_a_journal_on_a_volume_of_yours_is_let_be(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\njournal: {file: {path: /var/log/bayplan/journal.jsonl}}\n"
    file, values = configuration(tmp_path, text), tmp_path / "values.yaml"
    values.write_text(
        "extraVolumes: [{name: log, persistentVolumeClaim: {claimName: log}}]\n"
        "extraVolumeMounts: [{name: log, mountPath: /var/log/bayplan}]\n"
    )

    assert run("render", "sidecar", "-c", file).exit_code == 1
    assert run("render", "sidecar", "-c", file, "--values", values).exit_code == 0


TOKEN_VOLUME = """
extraVolumes: [{name: token, secret: {secretName: page-token}}]
extraVolumeMounts: [{name: token, mountPath: /etc/bayplan-token, readOnly: true}]
"""


@pytest.mark.parametrize(
    ("text", "values", "exit_code", "said"),
    [
        pytest.param(
            "page: {listen: ':8890', tokenFile: /etc/bayplan/token}",
            "",
            1,
            "page.tokenFile: /etc/bayplan/token: no secret goes into the ConfigMap",
            id="a token where the ConfigMap is",
        ),
        pytest.param(
            "page: {listen: ':8890', tokenFile: token}", "", 1, "no secret goes into", id="a token beside it"
        ),
        pytest.param(
            "page: {listen: ':8890', tokenFile: /etc/bayplan-token/token}",
            "",
            0,
            "warning: page.tokenFile: nobody brings /etc/bayplan-token/token into the pod",
            id="a token that nobody mounts",
        ),
        pytest.param(
            "page: {listen: ':8890', tokenFile: /etc/bayplan-token/token}",
            TOKEN_VOLUME,
            0,
            "",
            id="a token that is mounted",
        ),
        pytest.param(
            "sources: [{name: load, http: {url: 'https://x.example', bearerTokenFile: token}}]",
            "",
            1,
            "source load, bearerTokenFile: token: no secret goes into",
            id="a token of a source",
        ),
        pytest.param(
            "sources: [{name: load, prometheus: {url: 'https://x.example', query: up, bearerTokenFile:"
            " /var/run/secrets/kubernetes.io/serviceaccount/token}}]",
            "",
            0,
            "",
            id="the token that every pod has",
        ),
        pytest.param(
            "sources: [{name: prices, file: {path: prices.yaml}}]",
            "",
            1,
            "source prices, path: there is no file",
            id="a file that is not there",
        ),
        pytest.param(
            "sources: [{name: prices, file: {path: prices.yaml}}]",
            "files: {prices.yaml: 'node-1: 2'}",
            0,
            "",
            id="a file that the values have",
        ),
        pytest.param(
            "sources: [{name: prices, file: {path: /etc/bayplan/prices.yaml}}]",
            "",
            1,
            "name a file beside the configuration",
            id="a file where the ConfigMap is",
        ),
        pytest.param(
            "sources: [{name: prices, file: {path: /data/prices.yaml}}]",
            "",
            0,
            "warning: source prices, path: nobody brings /data/prices.yaml into the pod: unless the image",
            id="a file that the image may have",
        ),
    ],
)
def test_files_that_are_read_in_the_pod_are_brought_there(
    text: str, values: str, exit_code: int, said: str, tmp_path: Path
) -> None:
    policy(tmp_path)
    (tmp_path / "values.yaml").write_text(values)
    file = configuration(tmp_path, f"policies: [{{use: policy.py}}]\n{text}\n")

    result = run("render", "sidecar", "-c", file, "--image=x", "--values", tmp_path / "values.yaml")

    assert result.exit_code == exit_code, result.output
    assert said in " ".join(result.stderr.split())
    assert said or not result.stderr


@pytest.mark.parametrize(
    ("written", "exit_code"),
    [
        pytest.param("journal: {file: {path: /tmp/j.jsonl}}", 1, id="a journal of the default size"),
        pytest.param("record: {file: /tmp/r.jsonl.gz}", 1, id="a recording of the default size"),
        pytest.param("journal: {file: {path: /tmp/j.jsonl, maxBytes: 10485760}}", 0, id="a small journal"),
        pytest.param("record: {file: /tmp/r.jsonl, maxBytes: 33554432}", 0, id="a small recording"),
    ],
)
def test_no_pod_is_ended_for_what_it_writes(written: str, exit_code: int, tmp_path: Path) -> None:
    policy(tmp_path)
    file = configuration(tmp_path, f"policies: [{{use: policy.py}}]\n{written}\n")

    result = run("render", "sidecar", "-c", file)

    assert result.exit_code == exit_code
    assert ("pods with more than 64 there" in " ".join(result.output.split())) == (exit_code == 1)


def test_a_mistyped_value_is_told(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicaCount: many\n")
    result = run("render", "sidecar", policy(tmp_path), "--values", tmp_path / "values.yaml")

    assert "want a whole number" in result.output
    assert "replicaCount" in result.output


def test_without_tls_one_is_warned(tmp_path: Path) -> None:
    result = run("render", "service", policy(tmp_path), "--ignorable", "--tls", "none")

    assert result.exit_code == 0
    assert "without TLS" in result.stderr
    assert "https://" not in result.stdout


def end_server_certificate(folder: Path, *, ago: timedelta = timedelta(days=1)) -> None:
    """Have the certificate of the server be one that ended so long ago."""
    authority = Pair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
    then = datetime.now(UTC) - ago - timedelta(days=1)
    pair = issue(authority, "a.example", purpose="server", days=1, dns=["a.example"], now=then)
    (folder / "server.crt").write_bytes(pair.certificate)
    (folder / "server.key").write_bytes(pair.key)


def test_certificates_are_shown_with_their_ends(tmp_path: Path) -> None:
    name = "bayplan-with-a-long-name.kube-system.svc.cluster.local"
    run("certs", "create", "--out", tmp_path, "--dns", name, "--days", "10d")
    table = run("certs", "show", tmp_path)
    rows = json.loads(run("certs", "show", tmp_path, "-o", "json").stdout)

    assert table.exit_code == 0
    # Whoever greps for a name finds it on the line of its file.
    assert [line.split()[0] for line in table.stdout.splitlines() if name in line] == ["server.crt"]
    assert [row["file"] for row in rows] == ["ca.crt", "server.crt", "client.crt"]
    assert 9 < rows[1]["daysLeft"] <= 10


def test_certificates_that_would_outlive_their_ca_are_not_made(tmp_path: Path) -> None:
    result = run("certs", "create", "--out", tmp_path, "--dns", "a.example", "--days", "5000")

    assert result.exit_code == 1
    assert "outlive their CA of 3650" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--days", "--ca-days"])
def test_certificates_of_no_days_are_not_made(option: str, tmp_path: Path) -> None:
    result = run("certs", "create", "--out", tmp_path, "--dns", "a.example", option, "0d")

    assert result.exit_code == 2
    assert "'0d': what lasts so long has ended already; give 1 or more" in result.output
    assert list(tmp_path.iterdir()) == []


def test_days_that_no_date_holds_are_refused(tmp_path: Path) -> None:
    result = run("certs", "create", "--out", tmp_path, "--dns", "a.example", "--ca-days", "99999999")

    assert result.exit_code == 2
    assert "'99999999': more than a hundred years; give 36500 or fewer" in result.output


def test_what_has_ended_alone_is_renewed_before_0(tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example", "--days", "1")
    assert run("certs", "renew", tmp_path, "--before", "0").output == "nothing to do\n"

    end_server_certificate(tmp_path)
    result = run("certs", "renew", tmp_path, "--before", "0")

    assert result.output.splitlines() == [f"wrote {tmp_path / name}" for name in ("server.key", "server.crt")]
    assert run("certs", "show", tmp_path).exit_code == 0


def test_one_that_has_ended_is_a_no(tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example")
    end_server_certificate(tmp_path)
    result = run("certs", "show", tmp_path)

    assert result.exit_code == 1
    assert "ended" in result.stdout


def test_secrets_of_one_that_has_ended_are_printed_with_a_no(tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example")
    end_server_certificate(tmp_path)
    result = run("certs", "show", tmp_path, "-o", "yaml")

    assert result.exit_code == 1
    assert f"server.crt in {tmp_path}: ended; `bayplan certs renew {tmp_path}` renews it" in result.stderr
    assert [one["kind"] for one in yaml.safe_load_all(result.stdout)] == ["Secret", "Secret"]


def test_one_that_lasts_for_an_hour_yet_has_not_ended(tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example")
    end_server_certificate(tmp_path, ago=timedelta(hours=-1))

    for form in ("table", "json", "yaml"):
        result = run("certs", "show", tmp_path, "-o", form)
        assert result.exit_code == 0
        assert result.stderr == ""
    assert "ended" not in run("certs", "show", tmp_path).stdout


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        pytest.param("--name", "Bad Name", "name: 'Bad Name': small letters", id="a bad name"),
        pytest.param("--name", "n" * 60, "at most 59", id="no room for the name of a Service"),
        pytest.param("-n", "Bad_NS", "namespace: 'Bad_NS': small letters", id="a bad namespace"),
    ],
)
def test_secrets_have_names_that_the_api_server_takes(
    option: str, value: str, said: str, tmp_path: Path
) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example")
    result = run("certs", "show", tmp_path, "-o", "yaml", option, value)

    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("step", ["--rotate-ca", "--reissue", "--forget-old-ca"])
def test_a_step_of_a_new_ca_waits_for_no_date(step: str, tmp_path: Path) -> None:
    result = run("certs", "renew", tmp_path, step, "--before", "30d")

    assert result.exit_code == 2
    assert "--before is for what ends soon" in result.stderr


def test_renewal_says_what_it_did(tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example", "--days", "10")

    assert run("certs", "renew", tmp_path, "--before", "5d").output == "nothing to do\n"
    assert "wrote" in run("certs", "renew", tmp_path, "--before", "30d").output
    assert "next.key" in run("certs", "renew", tmp_path, "--rotate-ca").output
    assert "server.crt" in run("certs", "renew", tmp_path, "--reissue").output
    assert "ca.crt" in run("certs", "renew", tmp_path, "--forget-old-ca").output


@pytest.mark.parametrize(
    "steps",
    [
        *permutations(["--rotate-ca", "--reissue", "--forget-old-ca"], 2),
        ("--forget-old-ca", "--reissue", "--rotate-ca"),
    ],
)
def test_two_steps_of_a_new_ca_at_once_are_refused(steps: tuple[str, ...], tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    result = run("certs", "renew", tmp_path, *steps)

    assert result.exit_code == 2
    words = " ".join(result.output.split())
    assert all(step in words.partition("one step at a time")[0] for step in steps)
    assert "first --rotate-ca, then --reissue, last --forget-old-ca, and after each the files are" in words
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_is_lost_is_made_with_the_command_that_is_told(tmp_path: Path) -> None:
    run("certs", "create", "--out", tmp_path, "--dns", "a.example", "--client", "us")
    authority = (tmp_path / "ca.crt").read_bytes()
    (tmp_path / "client.crt").unlink()

    said = run("certs", "show", tmp_path)
    told = said.output.split("`")[1].removeprefix("bayplan ").split()
    result = run(*told)

    assert said.exit_code == 1
    assert result.output.splitlines() == [f"wrote {tmp_path / name}" for name in ("client.key", "client.crt")]
    assert run("certs", "show", tmp_path).exit_code == 0
    assert (tmp_path / "ca.crt").read_bytes() == authority


def test_a_ca_that_is_kept_has_the_days_that_it_has(tmp_path: Path) -> None:
    result = run("certs", "create", "--out", tmp_path, "--keep-ca", "--ca-days", "10")

    assert result.exit_code == 2
    assert "--ca-days is for a new CA" in result.output


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("bayplan.install.certificate")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("bayplan.install.certificate_files", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)

    result = run("certs", "show", tmp_path)

    assert result.exit_code == 1
    assert "pip install 'bayplan[certs]'" in result.output


def test_every_command_and_option_is_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    context = click.Context(commands)
    names = commands.list_commands(context)
    options = [
        option
        for name in ("render", "certs")
        if (command := commands.get_command(context, name))
        for each in (command, *getattr(command, "commands", {}).values())
        for parameter in each.params
        for option in parameter.opts
        if option.startswith("--")
    ]

    assert [name for name in names if f"`bayplan {name}" not in page and f"`{name}`" not in page] == []
    assert [option for option in options if option not in page] == []
