"""The pod that kube-scheduler itself runs in: its version, its host, and what `bayplan render` makes."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from bayplan.cli.main import commands
from bayplan.doctor import traps_of_pods
from bayplan.doctor.examine import examine, with_files
from bayplan.doctor.files import read_text
from bayplan.doctor.run import Report, Request, diagnose
from bayplan.doctor.scheduler_pods import GONE_FLAGS
from bayplan.doctor.setting import Setting
from bayplan.install.control_plane import kubeadm_patch
from tests.doctor.cases import FOLDER
from tests.install.releases import policy

OWN = {trap.id for trap in traps_of_pods.ALL}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "doctor.md"
SHAPES = ("sidecar", "standalone", "service", "control-plane")


def pod(*arguments: str, image: str = "registry.k8s.io/kube-scheduler:v1.36.4", **spec: Any) -> str:
    """A pod with one kube-scheduler."""
    container = {"name": "kube-scheduler", "image": image, "command": ["kube-scheduler", *arguments]}
    mounts = spec.pop("volumeMounts", [])
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kube-scheduler"},
            "spec": {"containers": [{**container, "volumeMounts": mounts}], **spec},
        }
    )


def on_host(folder: Path) -> str:
    """A pod whose kube-scheduler reads ``scheduler.yaml`` of a folder of its host."""
    return pod(
        "--config=/etc/own/scheduler.yaml",
        volumeMounts=[{"name": "host", "mountPath": "/etc/own"}],
        volumes=[{"name": "host", "hostPath": {"path": str(folder)}}],
    )


def found(text: str) -> list[tuple[str, str]]:
    given = read_text(text, source="pod.yaml")
    return [(finding.severity, finding.id) for finding in examine(given, with_files(given, Setting()))]


def report(folder: Path, *texts: str, version: str | None = None) -> Report:
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"{number}.yaml")
        files[-1].write_text(text)
    return diagnose(Request(files=tuple(files), kubernetes_version=version))


def test_every_flag_that_is_gone_is_in_the_reference_with_its_version() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `--")]

    for flag, (first, _) in GONE_FLAGS.items():
        (row,) = [row for row in rows if f"`--{flag}`" in row.partition(" | ")[0]]
        assert f"| 1.{first} |" in row


def test_a_file_of_the_host_is_looked_for_where_its_folder_is_here(tmp_path: Path) -> None:
    assert found(on_host(tmp_path)) == [("warning", "config-not-there")]

    (tmp_path / "scheduler.yaml").touch()

    assert found(on_host(tmp_path)) == []
    assert found(on_host(tmp_path / "elsewhere")) == []


def test_a_finding_says_which_container_reads_which_file_and_where_that_is_written() -> None:
    given = read_text((FOLDER / "scheduler-pod.yaml").read_bytes(), source="pod.yaml")

    told = {finding.id: finding for finding in examine(given, Setting())}

    mounted, gone = told["config-not-mounted"], told["flag-gone"]
    assert str(mounted.where) == "pod.yaml:20: spec.containers[0].command[6]"
    assert mounted.what == (
        "container kube-scheduler of Pod kube-scheduler reads /etc/kubernetes/my-scheduler.yaml,"
        " and no volumeMount covers it"
    )
    assert str(gone.where).startswith("pod.yaml:1")
    assert "is gone since 1." in gone.what


@pytest.mark.parametrize(
    ("image", "version"),
    [
        pytest.param("registry.k8s.io/kube-scheduler:v1.31.0", "1.31.0", id="a release"),
        pytest.param(
            "registry.example:5000/k8s/kube-scheduler-amd64:v1.29.4@sha256:01", "1.29.4", id="a mirror"
        ),
        pytest.param("registry.example/kube-scheduler:v1.30.5-gke.100", "1.30.5", id="of a provider"),
        pytest.param(
            "registry.example/rancher/hardened-kubernetes:v1.31.3-rke2r1", "1.31.3", id="in a whole"
        ),
        pytest.param("registry.example/kube-scheduler:1.0", "1.36", id="a number of one's own"),
        pytest.param("registry.example/kube-scheduler:latest", "1.36", id="no number"),
        pytest.param("registry.example/gangs:v1.2.3", "1.36", id="another program"),
        pytest.param("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.31.8", "1.36", id="another count"),
    ],
)
def test_the_version_is_that_of_the_image(image: str, version: str, tmp_path: Path) -> None:
    made = report(tmp_path, pod(image=image))

    assert made.version == version
    said = f"the image of kube-scheduler in {tmp_path / '0.yaml'}"
    assert made.told()["kubernetesVersionFrom"] == ("" if version == "1.36" else said)


def test_of_several_images_the_newest_counts(tmp_path: Path) -> None:
    images = [f"registry.k8s.io/kube-scheduler:v1.{rest}" for rest in ("9.9", "31.10", "31.9")]

    made = report(tmp_path, *(pod(image=image) for image in images))

    assert made.version == "1.31.10"


def test_a_version_that_is_asked_for_counts_more_than_an_image(tmp_path: Path) -> None:
    old = pod("--lock-object-name=second", image="registry.k8s.io/kube-scheduler:v1.27.0")

    assert [finding.severity for finding in report(tmp_path, old).findings] == ["warning"]
    asked = report(tmp_path, old, version="1.28")
    assert [finding.severity for finding in asked.findings] == ["error"]
    assert (asked.version, asked.told()["kubernetesVersionFrom"]) == ("1.28", "")


def test_the_last_line_says_where_the_version_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(pod(image="registry.k8s.io/kube-scheduler:v1.31.0"))

    result = CliRunner().invoke(commands, ["doctor", str(file)])

    said = f"for Kubernetes 1.31.0 (the image of kube-scheduler in {file})"
    assert result.output == f"ok: no trap found, {said}\n"


def test_the_configuration_decides_for_the_version_of_the_image(tmp_path: Path) -> None:
    beta = (FOLDER / "v1beta3-on-1.28.yaml").read_text()

    old, new = (
        report(tmp_path, beta, pod("--config=$(IT)", image=f"registry.k8s.io/kube-scheduler:v{version}"))
        for version in ("1.28.0", "1.29.0")
    )

    assert "api-version" not in [finding.id for finding in old.findings]
    assert "api-version" in [finding.id for finding in new.findings]


@pytest.mark.parametrize("words", ["--config=/etc/own.yaml", "$(FLAGS)"])
def test_a_kube_scheduler_that_may_read_the_configuration_is_enough(words: str, tmp_path: Path) -> None:
    configuration = (FOLDER / "clean-sidecar.yaml").read_text()

    made = report(
        tmp_path, configuration, pod(), pod(words, volumeMounts=[{"name": "own", "mountPath": "/etc"}])
    )

    assert made.findings == ()


@pytest.mark.parametrize(
    ("flags", "kind", "severities"),
    [
        pytest.param(["--kubeconfig=/a.conf"], "Pod", ["error"], id="a static pod"),
        pytest.param(["--kubeconfig=/a.conf"], "Deployment", ["warning"], id="a service account"),
        pytest.param(["--kubeconfig=/a.conf", "--master=http://a"], "Pod", [], id="an address"),
        pytest.param(["--authentication-kubeconfig=/a.conf"], "Pod", [], id="another flag"),
    ],
)
def test_a_kubeconfig_beside_a_configuration_belongs_into_it(
    flags: list[str], kind: str, severities: list[str], tmp_path: Path
) -> None:
    bare = (FOLDER / "clean-sidecar.yaml").read_text()
    named = bare.replace("clientConnection:\n", "clientConnection:\n  kubeconfig: /a.conf\n")
    mounts = [{"name": "own", "mountPath": "/etc"}]
    manifest = pod("--config=/etc/own.yaml", *flags, volumeMounts=mounts)
    if kind != "Pod":
        spec = yaml.safe_load(manifest)["spec"]
        manifest = yaml.safe_dump({"kind": kind, "spec": {"template": {"spec": spec}}})

    without, with_it = (report(tmp_path, text, manifest) for text in (bare, named))

    assert [finding.severity for finding in without.findings] == severities
    assert {finding.id for finding in without.findings} <= {"kubeconfig-ignored"}
    assert with_it.findings == ()


@pytest.mark.parametrize("shape", SHAPES)
def test_what_render_prints_has_none_of_these_traps(shape: str, tmp_path: Path) -> None:
    render = ["render", shape, str(policy(tmp_path)), "--kubernetes-version", "1.34.2"]
    attached = shape in ("service", "control-plane")
    parts = [[], ["--part", "scheduler-config"]] if attached else [[]]
    ignorable = ["--ignorable"] if attached else []

    printed = [CliRunner().invoke(commands, [*render, *ignorable, *part]) for part in parts]

    assert [result.exit_code for result in printed] == [0] * len(parts)
    made = report(tmp_path, *(result.stdout for result in printed))
    assert {finding.id for finding in made.findings} & OWN == set()
    assert made.version == ("1.34.2" if shape == "sidecar" else "1.36")


def test_the_patch_for_kubeadm_brings_the_configuration_to_kube_scheduler(tmp_path: Path) -> None:
    render = ["render", "control-plane", str(policy(tmp_path)), "--ignorable", "--part", "scheduler-config"]
    configuration = CliRunner().invoke(commands, render).stdout
    static = pod("--kubeconfig=/etc/kubernetes/scheduler.conf", volumes=[])
    patched = yaml.safe_load(static)
    for step in kubeadm_patch():
        *way, _ = step["path"].strip("/").split("/")
        place = patched
        for name in way:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place.append(step["value"])

    before, after = (report(tmp_path, configuration, text) for text in (static, yaml.safe_dump(patched)))

    assert {finding.id for finding in before.findings} & OWN == {"config-not-read"}
    assert {finding.id for finding in after.findings} & OWN == set()
