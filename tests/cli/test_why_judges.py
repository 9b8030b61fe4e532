"""``bayplan why -f``: who judges the pod, Bayplan's own scheduler or kube-scheduler with an extender."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import commands

POLICY = """
import bayplan

@bayplan.score(range=(0, 100))
def by_number(pod, node):
    return 100 if node.name == "small" else 0
"""
HEAD = """
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
policies: [{use: policy.py}]
cluster: {source: snapshot, snapshot: cluster.json}
"""
SCHEDULES = HEAD + "scheduler: {profiles: [{schedulerName: ours}]}\n"
BOTH = SCHEDULES + "extender: {listen: '127.0.0.1:8000'}\n"
KUBE_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: Mystery}]
      disabled: [{name: NodeAffinity}]
"""


def node(name: str, cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("policy.py").write_text(POLICY)
    for name, text in {"sch": SCHEDULES, "both": BOTH, "ext": HEAD, "kube": KUBE_SCHEDULER}.items():
        Path(f"{name}.yaml").write_text(text)
    nodes = [node("small", "2"), node("large", "64")]
    Path("cluster.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    return tmp_path


def why(*arguments: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Result:
    resources = {"requests": {"cpu": cpu}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "web", "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "resources": resources}], **spec},
    }
    return CliRunner().invoke(commands, ["why", "-f", "-", *arguments], input=json.dumps(pod))


def flat(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.mark.usefixtures("folder")
def test_a_pod_of_our_scheduler_is_judged_by_its_profile() -> None:
    result = why("-c", "sch.yaml", cpu="200", schedulerName="ours", nodeSelector={"nope": "x"})

    assert result.exit_code == 1
    assert "didn't match Pod's node affinity/selector by NodeAffinity" in flat(result)
    assert "No node passes: the pod would wait." in result.output
    assert "kube-scheduler" not in result.output


@pytest.mark.usefixtures("folder")
def test_our_scheduler_chooses_by_the_scores_of_all() -> None:
    result = why("-c", "sch.yaml", schedulerName="ours")

    assert result.exit_code == 0
    assert "NodeResourcesFit" in result.output
    assert "Bayplan would choose small." in result.output
    assert "kube-scheduler" not in result.output


@pytest.mark.usefixtures("folder")
def test_where_one_node_passes_it_would_be_that_one() -> None:
    result = why("-c", "sch.yaml", schedulerName="ours", cpu="8")

    assert "Only large passes: Bayplan would choose it." in result.output


@pytest.mark.usefixtures("folder")
def test_a_mistyped_label_of_a_gang_keeps_the_pod_out() -> None:
    result = why("-c", "sch.yaml", schedulerName="ours", labels={"bayplan.dev/gangs": "a"})

    assert result.exit_code == 1
    assert "kept out of the queue: bayplan.dev/gangs: Bayplan knows no such label; did you mean" in flat(
        result
    )


def test_a_gate_keeps_the_pod_out(folder: Path) -> None:
    gate = '\n@bayplan.gate\ndef later(pod):\n    return "not before noon"\n'
    (folder / "policy.py").write_text(POLICY + gate)

    result = why("-c", "sch.yaml", schedulerName="ours")

    assert result.exit_code == 1
    assert "It would be kept out of the queue: policy policy: not before noon" in flat(result)


@pytest.mark.usefixtures("folder")
def test_a_pod_of_somebody_else_is_none_of_our_scheduler() -> None:
    result = why("-c", "sch.yaml")

    assert result.exit_code == 1
    assert "schedulerName default-scheduler, and `bayplan schedule` with this configuration places" in flat(
        result
    )
    assert why("-c", "both.yaml").exit_code == 0, "the configuration is an extender's, too"
    assert why("-c", "sch.yaml", "--profile", "default").exit_code == 0


@pytest.mark.usefixtures("folder")
def test_a_profile_of_kube_scheduler_is_none_of_our_scheduler() -> None:
    result = why("-c", "sch.yaml", "--profile", "default", schedulerName="ours")

    assert result.exit_code == 1
    assert "their profile is in `scheduler.profiles`" in flat(result)


@pytest.mark.usefixtures("folder")
def test_an_extender_alone_does_not_look_at_what_is_kube_schedulers() -> None:
    assert why("-c", "ext.yaml", cpu="200").exit_code == 0


@pytest.mark.usefixtures("folder")
def test_kube_schedulers_plugins_refuse_nodes_first() -> None:
    result = why("-c", "ext.yaml", "--profile", "default", cpu="200")

    assert result.exit_code == 1
    assert "0/2 nodes are available: 2 Insufficient cpu." in result.output


@pytest.mark.usefixtures("folder")
def test_kube_schedulers_plugins_give_points_beside_ours() -> None:
    said = json.loads(why("-c", "ext.yaml", "--profile", "default", "-o", "json").output)

    small, large = said["ranking"]
    assert (small["node"], small["points"], large["points"]) == ("small", 100, 0)
    # Of its own it would take the other, which keeps more free.
    assert said["plugins"]["large"] > said["plugins"]["small"] > 300
    assert said["chosen"] == "small"


@pytest.mark.usefixtures("folder")
def test_the_only_node_that_both_let_pass_is_chosen_without_scores() -> None:
    result = why("-c", "ext.yaml", "--profile", "default", cpu="4")

    assert "Outcome Only large passes." in flat(result)
    assert "Ranking" not in result.output
    assert "kube-scheduler asks its own plugins too" not in flat(result)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        pytest.param("defualt", "did you mean 'default'?", id="the word"),
        pytest.param("kub.yaml", "did you mean 'kube.yaml'?", id="a file"),
        pytest.param("xyz", "--profile xyz: no such file", id="neither"),
    ],
)
def test_a_mistyped_profile_is_told_with_the_right_one(typed: str, said: str) -> None:
    result = why("-c", "ext.yaml", "--profile", typed)

    assert result.exit_code == 1
    assert flat(result).startswith(f"Error: --profile {typed}: no such file")
    assert flat(result).endswith(said)


@pytest.mark.usefixtures("folder")
def test_the_sum_of_both_chooses() -> None:
    result = why("-c", "ext.yaml", "--profile", "default")

    total = (
        json.loads(why("-c", "ext.yaml", "--profile", "default", "-o", "json").output)["plugins"]["small"]
        + 100
    )
    said = f"kube-scheduler would choose small: it has {total:g} points, 100 of them from Bayplan."
    assert said in flat(result)
    assert "node total told points plugins sum total is made of" in flat(result)


@pytest.mark.usefixtures("folder")
def test_a_profile_may_be_that_of_a_file() -> None:
    result = why("-c", "ext.yaml", "--profile", "kube.yaml", nodeSelector={"nope": "x"})

    assert result.exit_code == 0, "NodeAffinity is switched off there"
    assert "plugin Mystery of the profile is not known here, and was not asked" in flat(result)
    other = why("-c", "ext.yaml", "--profile", "kube.yaml", schedulerName="other")
    assert "no profile for scheduler 'other'" in other.output


def test_a_profile_goes_with_a_manifest() -> None:
    result = CliRunner().invoke(commands, ["why", "pod/web", "--profile", "default"])

    assert result.exit_code == 2
    assert "--profile goes with -f" in result.output
