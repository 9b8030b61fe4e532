"""Snapshots are read from what kubectl prints, and errors say where."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.files import SnapshotError, load_snapshot

NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4"}}}
POD = {
    "kind": "Pod",
    "metadata": {"name": "web", "uid": "u-web"},
    "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
YAML_NODE = """kind: Node
metadata: {name: a, creationTimestamp: 2026-11-15T19:08:22Z}
status: {allocatable: {cpu: 4}, odd: 999999999999999999999999999999}
"""
YAML_POD = """kind: Pod
metadata: {name: web, uid: u-web}
spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


def without_kind(thing: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in thing.items() if key != "kind"}


def load(folder: Path, content: str | bytes) -> Snapshot:
    path = folder / "cluster.file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_snapshot(path)


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    load(tmp_path, '{"kind":"Node","metadata":{"name":"a"}}')

    assert list(load_snapshot(str(tmp_path / "cluster.file")).nodes.names) == ["a"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(json.dumps({"kind": "List", "items": [NODE, POD]}), id="a List in JSON"),
        pytest.param(
            "\n " + json.dumps({"items": [NODE, POD], "kind": "List"}, indent=4), id="indented JSON"
        ),
        pytest.param(
            "kind: List\nitems:\n"
            + "".join("- " + text.strip().replace("\n", "\n  ") + "\n" for text in (YAML_NODE, YAML_POD)),
            id="a List in YAML",
        ),
        pytest.param(f"{YAML_NODE}---\n{YAML_POD}", id="several documents"),
        pytest.param(f"---\n{YAML_NODE}---\n---\n{YAML_POD}---\n", id="empty documents between"),
        pytest.param(
            "---\n".join(
                [
                    json.dumps({"kind": "NodeList", "items": [without_kind(NODE)]}) + "\n",
                    json.dumps({"kind": "PodList", "items": [without_kind(POD)]}) + "\n",
                ]
            ).join(["---\n", ""]),
            id="a NodeList and a PodList",
        ),
        pytest.param(
            json.dumps({"kind": "List", "items": [NODE, POD, {"kind": "ConfigMap", "spec": 1}]}),
            id="other objects are passed over",
        ),
        pytest.param(
            json.dumps({"kind": "List", "items": [NODE, POD]}).encode("utf-16"), id="as PowerShell writes it"
        ),
    ],
)
def test_reads(tmp_path: Path, content: str | bytes) -> None:
    snapshot = load(tmp_path, content)

    assert list(snapshot.nodes.names) == ["a"]
    assert [pod.key for pod in snapshot.pods] == ["default/web"]
    assert snapshot.nodes["cpu.free"].tolist() == [3000]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(json.dumps({"kind": "NodeList", "items": [without_kind(NODE)]}), id="a NodeList"),
        pytest.param(json.dumps(NODE), id="a single Node"),
        pytest.param(YAML_NODE, id="a single Node in YAML"),
    ],
)
def test_nodes_alone_are_a_cluster_without_pods_on_it(tmp_path: Path, content: str) -> None:
    snapshot = load(tmp_path, content)

    assert list(snapshot.nodes.names) == ["a"]
    assert snapshot.pods_known
    assert list(snapshot.pods) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("", r"cluster.file: no nodes in it; make one with: kubectl get", id="an empty file"),
        pytest.param('{"kind":"List","items":[]}', "cluster.file: no nodes in it", id="an empty list"),
        pytest.param('{"items":[]}', "cluster.file: no nodes in it", id="a list that does not say so"),
        pytest.param('{"kind":"List"}', "cluster.file: .*required field `items`", id="a list without items"),
        pytest.param('{"kind":"List","items":[', "cluster.file: .*truncated", id="half a file"),
        pytest.param(
            '{"kind":1}', r"cluster.file: Expected `str`, got `int` - at `\$.kind`", id="a strange kind"
        ),
        pytest.param(
            '{"kind":"List","items":[{"kind":"ConfigMap"},{"kind":"Node","metadata":{"name":3}}]}',
            r"cluster.file items\[1\]: Expected `str \| null`, got `int` - at `\$.metadata.name`",
            id="a broken item",
        ),
        pytest.param(
            '{"kind":"List","items":[{"kind":"Node"}]}',
            r"cluster.file items\[0\]: a Node without metadata.name",
            id="a node without a name",
        ),
        pytest.param("a: [1", r"cluster.file:2:1: not valid YAML", id="broken YAML"),
        pytest.param("a: 1\na: 2", "cluster.file:2: key 'a' is given twice", id="a key given twice"),
        pytest.param(
            f"{YAML_NODE}---\nkind: Node\nstatus: 1\n", "cluster.file:5: Expected `object", id="a document"
        ),
        pytest.param("- 1", "cluster.file:1: no object of Kubernetes", id="a list without a kind"),
        pytest.param("just text", "cluster.file:1: no object of Kubernetes", id="no snapshot at all"),
        pytest.param("[" * 100_000, "cluster.file: nested too deeply", id="YAML nested too deeply"),
        pytest.param('{"kind":' + "[" * 100_000, "cluster.file: ", id="JSON nested too deeply"),
        pytest.param(
            json.dumps({"kind": "List", "items": [NODE, NODE]}),
            "cluster.file: node 'a' is there twice",
            id="a node given twice",
        ),
        pytest.param(
            json.dumps({"kind": "List", "items": [NODE, POD]}).replace('"1"', '"lots"'),
            "cluster.file: pod default/web: 'lots' is not a quantity",
            id="a malformed quantity",
        ),
    ],
)
def test_refuses(tmp_path: Path, content: str, complaint: str) -> None:
    with pytest.raises(SnapshotError, match=complaint):
        load(tmp_path, content)


@pytest.mark.parametrize(
    "content", [pytest.param(b'{"kind":"\xff"}', id="in JSON"), pytest.param(b"kind: \xff", id="in YAML")]
)
def test_refuses_bytes_that_are_no_text(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"cluster\.file: "):
        load(tmp_path, content)


def test_a_file_that_is_not_there_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(
        SnapshotError, match=r"missing\.json: No such file or directory; make one with: kubectl"
    ):
        load_snapshot(tmp_path / "missing.json")


def test_a_folder_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="Is a directory"):
        load_snapshot(tmp_path)


def test_pods_that_were_written_without_a_uid_are_not_all_the_same(tmp_path: Path) -> None:
    pods = [
        {"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "a"}} for name in ("one", "other")
    ]
    cluster = load(tmp_path, json.dumps({"kind": "List", "items": [NODE, *pods]}))
    one = cluster.pods[0]

    assert [pod.name for pod in cluster.without([one.uid]).pods] == ["other"]
    assert [pod.name for pod in cluster.without_on({"a": {one.uid}}).pods] == ["other"]
    assert cluster.without_on({"a": {""}}) is cluster
