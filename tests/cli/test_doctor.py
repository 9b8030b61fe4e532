"""``bayplan doctor`` on the command line: forms of output, exit codes, misuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import commands

FOLDER = Path(__file__).parents[1] / "doctor" / "configurations"
CLEAN, TUTORIAL = FOLDER / "clean-sidecar.yaml", FOLDER / "tutorial.yaml"


def doctor(*arguments: str | Path, **options: Any) -> Result:
    return CliRunner().invoke(commands, ["doctor", *map(str, arguments)], **options)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param([CLEAN], 0, id="nothing wrong"),
        pytest.param([TUTORIAL], 1, id="errors"),
        pytest.param([FOLDER / "retries.yaml", "--kubernetes-version", "1.29.4"], 0, id="notes"),
        pytest.param([FOLDER / "no-extenders.yaml"], 0, id="warnings"),
        pytest.param([FOLDER / "no-extenders.yaml", "--strict"], 1, id="warnings that count"),
        pytest.param(
            [FOLDER / "retries.yaml", "--kubernetes-version", "1.29.4", "--strict"], 0, id="strict notes"
        ),
        pytest.param([], 2, id="nothing named"),
        pytest.param([FOLDER / "not-there.yaml"], 2, id="a file that is not there"),
        pytest.param([CLEAN, "--kubernetes-version", "two"], 2, id="no version"),
        pytest.param([CLEAN, "--kubeconfig", CLEAN], 2, id="a kubeconfig without --live"),
        pytest.param([CLEAN, "--config", CLEAN], 2, id="a configuration that is none"),
        pytest.param([CLEAN, TUTORIAL, "--fix"], 2, id="two files to print"),
        pytest.param([CLEAN, "--fix", "--live"], 2, id="a cluster to print"),
        pytest.param([CLEAN, "--fix", "-o", "json"], 2, id="a file to print as JSON"),
        pytest.param(["--live", "--kubeconfig", FOLDER / "not-there"], 2, id="a cluster that is not there"),
        pytest.param([TUTORIAL, "--fix"], 0, id="no errors left"),
        pytest.param([FOLDER / "binders.yaml", "--fix"], 1, id="errors left"),
    ],
)
def test_exit_codes(arguments: list[str | Path], code: int) -> None:
    assert doctor(*arguments).exit_code == code


def test_a_finding_says_where_what_why_when_and_what_to_do() -> None:
    output = doctor(TUTORIAL).output

    assert f"error filter-without-preempt {TUTORIAL}:7: extenders[0].filterVerb\n" in output
    for word in ("why: ", "versions: 1.11 and later\n", "fix: Add `preemptVerb: preempt`."):
        assert f"    {word}" in output
    assert output.endswith("2 errors, 1 warning, 1 note, for Kubernetes 1.36; --fix corrects 2 of them\n")


def test_a_clean_file_gets_one_line() -> None:
    assert doctor(CLEAN).output == "ok: no trap found, for Kubernetes 1.36\n"


def test_a_file_without_a_scheduler_is_not_called_a_clean_one(tmp_path: Path) -> None:
    ours = tmp_path / "bayplan.yaml"
    ours.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: MostAvailableCPU}]\n"
        "cluster: {source: in-cluster}\n"
    )

    assert doctor("--config", ours).output == (
        "ok: no trap found, for Kubernetes 1.36; no configuration of kube-scheduler was given\n"
    )
    assert "was given" not in doctor(CLEAN, ours).output


@pytest.mark.parametrize("more", [pytest.param([], id="to examine"), pytest.param(["--fix"], id="to fix")])
def test_our_configuration_in_place_of_kube_schedulers_is_refused(more: list[str]) -> None:
    ours = FOLDER / "bayplan" / "open.yaml"

    result = doctor(ours, *more)

    assert (
        f"{ours}: this is Bayplan's own configuration, and doctor examines kube-scheduler's" in result.stderr
    )
    assert f"bayplan doctor scheduler.yaml --config {ours}" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)


def test_what_to_do_about_our_configuration_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    ours = tmp_path / "our own.yaml"
    ours.write_bytes((FOLDER / "bayplan" / "open.yaml").read_bytes())

    named, piped = doctor(ours).stderr, doctor("-", input=ours.read_bytes()).stderr

    assert f"bayplan check --config '{ours}'" in named
    assert piped.startswith("Error: <stdin>: this is Bayplan's own configuration")
    assert "bayplan check --config bayplan.yaml" in piped


def test_json_is_for_programs() -> None:
    told = json.loads(doctor(TUTORIAL, "-o", "json").output)

    assert (told["ok"], told["kubernetesVersion"]) == (False, "1.36")
    assert told["findings"][0] | {"why": "", "fix": ""} == {
        "id": "filter-without-preempt",
        "severity": "error",
        "file": str(TUTORIAL),
        "line": 7,
        "path": "extenders[0].filterVerb",
        "what": "extender http://localhost:8888 has a filterVerb and no preemptVerb",
        "why": "",
        "versions": "1.11 and later",
        "fix": "",
        "fixable": True,
    }


def test_what_is_fixed_is_the_file_alone_and_the_rest_goes_to_stderr() -> None:
    result = doctor(TUTORIAL, "--fix")

    assert result.stdout.startswith("# What every tutorial shows.\n")
    assert "nodeCacheCapable: true\n" in result.stdout
    assert "fixed" not in result.stdout
    assert "fixed" in result.stderr
    assert "every-pod-waits" in result.stderr


def test_what_is_fixed_can_be_examined_from_standard_input() -> None:
    result = doctor("-", input=doctor(FOLDER / "tutorial.json", "--fix").stdout)

    assert result.output == "ok: no trap found, for Kubernetes 1.36\n"
    assert result.exit_code == 0


def test_our_configuration_may_stand_among_the_files() -> None:
    with_flag = doctor(FOLDER / "mismatch.yaml", "--config", FOLDER / "bayplan" / "one-per-node.yaml")
    among = doctor(FOLDER / "mismatch.yaml", FOLDER / "bayplan" / "one-per-node.yaml")

    assert "path-mismatch" in with_flag.output
    assert among.output == with_flag.output


def test_our_configuration_may_stand_alone() -> None:
    result = doctor("--config", FOLDER / "bayplan" / "open.yaml")

    assert "open-door" in result.output
    assert result.exit_code == 0


def test_the_version_decides_what_an_error_is() -> None:
    assert "error full-nodes" in doctor(TUTORIAL, "--kubernetes-version", "v1.33.0").output
    assert "warning full-nodes" in doctor(TUTORIAL, "--kubernetes-version", "1.32").output


def test_a_file_of_no_interest_is_passed_over_beside_others_and_refused_alone(tmp_path: Path) -> None:
    service = tmp_path / "service.yaml"
    service.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: web}\n")

    assert doctor(CLEAN, service).output == doctor(CLEAN).output
    assert doctor(service).exit_code == 2
    service.write_text("- op: add\n  path: /spec/volumes/-\n  value: {name: bayplan}\n")
    assert doctor(CLEAN, service).output == doctor(CLEAN).output
    assert doctor(service).exit_code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("", "there is no object in it", id="nothing"),
        pytest.param("# A comment.\n---\n", "there is no object in it", id="a comment"),
        pytest.param("hello\n", "there is no object in it", id="a word"),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfig\n",
            "'KubeSchedulerConfig' is no kind that is known; did you mean 'KubeSchedulerConfiguration'?",
            id="a kind that is misspelt",
        ),
        pytest.param(
            "kind: kubeSchedulerConfiguration\n",
            "did you mean 'KubeSchedulerConfiguration'?",
            id="a kind in another case",
        ),
        pytest.param("apiVersion: kubescheduler.config.k8s.io/v1\n", "kind is missing", id="no kind"),
        pytest.param(
            "apiVersion: bayplan.dev/v1\nkind: BayplanConfig\n",
            "did you mean 'BayplanConfiguration'?",
            id="our own, misspelt",
        ),
    ],
)
def test_a_file_that_nobody_would_read_is_refused_beside_others_too(
    content: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(content)

    for arguments in ([file], [CLEAN, file], [file, CLEAN]):
        result = doctor(*arguments)

        assert result.exit_code == 2
        assert result.output.startswith(f"Error: {file}")
        assert said in result.output


def test_correcting_prints_the_file_and_says_so_where_json_is_asked_for() -> None:
    assert "--fix prints the corrected file itself" in doctor(CLEAN, "--fix", "-o", "json").output
