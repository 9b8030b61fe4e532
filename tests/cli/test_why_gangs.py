"""``bayplan why -f`` of a gang: whether all its members would find their places together."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.cli.main import commands

CONFIG = """
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
cluster: {source: snapshot, snapshot: cluster.json}
scheduler: {profiles: [{schedulerName: ours}]}
"""
GANG = {"bayplan.dev/gang": "train", "bayplan.dev/gang-size": "4"}
IN_A_RACK = {"bayplan.dev/gang-within": "example.com/rack"}


def node(name: str, *, rack: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"example.com/rack": rack}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}}


def template(cpu: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"schedulerName": "ours", "containers": containers},
    }


def job(
    name: str = "train",
    *,
    parallelism: int | None = 4,
    cpu: str = "2",
    labels: dict[str, str] = GANG,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    body = {"template": template(cpu, labels, annotations or {}), **spec}
    if parallelism is not None:
        body["parallelism"] = parallelism
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def pod(name: str, cpu: str = "2", **more: Any) -> dict[str, Any]:
    body = template(cpu, GANG, {})
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, **body["metadata"]},
        "spec": {**body["spec"], **more},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("sch.yaml").write_text(CONFIG)
    put()
    return tmp_path


def put(*pods: dict[str, Any]) -> None:
    """A cluster of two racks, the first of two nodes, the second of one; with these pods."""
    nodes = [node("a1", rack="a"), node("a2", rack="a"), node("b1", rack="b")]
    Path("cluster.json").write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))


def why(*documents: dict[str, Any], arguments: tuple[str, ...] = ()) -> Result:
    text = yaml.safe_dump_all(documents)
    return CliRunner().invoke(commands, ["why", "-f", "-", "-c", "sch.yaml", *arguments], input=text)


def told(*documents: dict[str, Any]) -> Any:
    return json.loads(why(*documents, arguments=("-o", "json")).stdout)


def flat(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.mark.usefixtures("folder")
def test_all_members_of_a_job_find_their_places() -> None:
    result = why(job())

    assert result.exit_code == 0, result.output
    assert "gang default/train: all 4 members have a place" in flat(result)


@pytest.mark.usefixtures("folder")
def test_in_one_rack() -> None:
    gang = told(job(annotations=IN_A_RACK))["gang"]

    assert (gang["fits"], gang["domain"]) == (True, "a")
    assert sorted(gang["nodes"].values()) == ["a1", "a1", "a2", "a2"]
    assert set(gang["nodes"]) == {"train-0", "train-1", "train-2", "train-3"}


@pytest.mark.usefixtures("folder")
def test_one_member_alone_would_fit_and_the_gang_does_not() -> None:
    """Judged alone it is let pass, and the job waits for ever."""
    result = why(job(cpu="3"))

    assert result.exit_code == 1
    assert "pod default/train-3 not created" in flat(result)
    assert "0/3 nodes are available: 3 Insufficient cpu." in flat(result)
    assert "gang default/train: member train-3 does not fit: 0/3 nodes are available: 3 Insufficient" in flat(
        result
    )


@pytest.mark.usefixtures("folder")
def test_it_says_which_rack_is_nearest_and_what_is_missing_there() -> None:
    said = told(job(cpu="3", annotations=IN_A_RACK))

    assert said["gang"]["fits"] is False
    assert "does not fit in example.com/rack a, the best of 2" in said["gang"]["said"]
    assert {group["reason"] for group in said["refused"]} == {
        "Insufficient cpu",
        "node is not in the domain of the gang",
    }


@pytest.mark.usefixtures("folder")
def test_a_label_that_no_node_has_is_told_and_no_node_is_chosen() -> None:
    result = why(job(annotations={"bayplan.dev/gang-within": "example.com/rak"}))

    assert result.exit_code == 1
    assert "0/3 nodes are available: 3 node lacks the label of the gang's domain." in flat(result)
    assert "member train-0 does not fit: no node has the label example.com/rak." in flat(result)
    assert "would choose" not in result.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("documents", "there"),
    [
        pytest.param([job(parallelism=3)], 3, id="less at once than the gang has"),
        pytest.param([job(parallelism=None)], 1, id="one at a time"),
        pytest.param([job(parallelism=9, completions=2)], 2, id="no more than are to be completed"),
        pytest.param([pod("train-0"), pod("train-1")], 2, id="pods"),
    ],
)
def test_a_manifest_that_makes_too_few_members(documents: list[dict[str, Any]], there: int) -> None:
    result = why(*documents)

    assert result.exit_code == 1
    assert f"gang default/train: {there} of 4 members are there" in flat(result)


@pytest.mark.usefixtures("folder")
def test_members_of_several_documents_are_one_gang_and_others_are_none() -> None:
    alone = job("other", labels={})

    gang = told(pod("launcher", "1"), job("worker", parallelism=3), alone)["gang"]

    assert set(gang["nodes"]) == {"launcher", "worker-0", "worker-1", "worker-2"}


@pytest.mark.usefixtures("folder")
def test_of_a_pod_alone_the_others_are_copies() -> None:
    fits, not_so = why(pod("train-0")), why(pod("train-0", "3"))

    assert (fits.exit_code, not_so.exit_code) == (0, 1)
    assert "gang train has 4 pods: the others were tried as copies of it" in flat(fits)
    assert "all 4 members have a place" in flat(fits)


@pytest.mark.usefixtures("folder")
def test_members_that_have_their_nodes_count() -> None:
    put(*(pod(f"train-{number}", nodeName="a1") for number in (0, 1)), pod("train-2", nodeName="a2"))

    gang = told(pod("train-3"))["gang"]

    assert (gang["fits"], gang["members"]) == (True, 1)


def test_a_gate_keeps_the_gang_out(folder: Path) -> None:
    gate = 'import bayplan\n\n@bayplan.gate\ndef later(pod):\n    return "not before noon"\n'
    (folder / "policy.py").write_text(gate)
    (folder / "sch.yaml").write_text(CONFIG + "policies: [{use: policy.py}]\n")

    result = why(job())

    assert result.exit_code == 1
    assert "It would be kept out of the queue: policy policy: not before noon" in flat(result)


def test_a_gang_that_a_policy_names(folder: Path) -> None:
    hook = (
        "import bayplan\n\n@bayplan.gang\ndef ranks(pod):\n"
        "    return bayplan.Gang(pod.labels['job'], size=4) if 'job' in pod.labels else None\n"
    )
    (folder / "policy.py").write_text(hook)
    (folder / "sch.yaml").write_text(CONFIG + "policies: [{use: policy.py}]\n")

    assert told(job(labels={"job": "ranks"}))["gang"]["name"] == "default/ranks"


@pytest.mark.usefixtures("folder")
def test_a_number_of_pods_that_is_none_is_told_with_its_line() -> None:
    result = why(job(parallelism="many"))  # type: ignore[arg-type]

    assert result.exit_code == 1
    assert "want a number, 0 or more; got 'many'" in flat(result)


@pytest.mark.usefixtures("folder")
def test_a_pod_in_no_gang_is_judged_as_before() -> None:
    assert "gang" not in told(job(labels={}))


@pytest.mark.usefixtures("folder")
def test_of_a_large_gang_not_every_node_is_listed() -> None:
    nodes = [node(f"n{number}", rack="a") for number in range(30)]
    Path("cluster.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    large = {"bayplan.dev/gang": "train", "bayplan.dev/gang-size": "30"}

    result = why(job(parallelism=30, cpu="4", labels=large))

    assert "all 30 members have a place" in flat(result)
    assert "and 10 more" in result.output
    assert len(told(job(parallelism=30, cpu="4", labels=large))["gang"]["nodes"]) == 30
