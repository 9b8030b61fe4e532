"""Of thousands of pods a few are asked about: those that differ most."""

from typing import Any

import msgspec
import pytest

from bayplan.config.different_pods import different_pods
from bayplan.kube.pod import Pod


def pod(name: str, *, owner: tuple[str, str] | None = None, node: str = "a", **given: Any) -> Pod:
    references = [{"kind": owner[0], "uid": owner[1], "controller": True}] if owner else []
    container = {"name": "main", "resources": {"requests": given.get("requests", {})}}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": given.get("labels", {}),
                "ownerReferences": references,
            },
            "spec": {"containers": [container], "nodeName": node},
            "status": {"phase": "Running"},
        },
        Pod,
    )


@pytest.mark.parametrize(
    ("pods", "chosen"),
    [
        pytest.param([], [], id="none"),
        pytest.param([pod("a"), pod("b")], ["a"], id="two that are alike"),
        pytest.param(
            [pod("a", labels={"app": "x"}), pod("b", labels={"app": "y"})], ["a", "b"], id="by a label"
        ),
        pytest.param(
            [pod("a", labels={"n": str(n)}, owner=("ReplicaSet", "r")) for n in range(5)],
            ["a"],
            id="pods of one owner",
        ),
        pytest.param([pod("a", owner=("Node", "n")), pod("b")], ["b"], id="no pods of the kubelet"),
        pytest.param(
            [*(pod(f"cpu-{n}", requests={"cpu": n + 1}) for n in range(30)), pod("g", requests={"x/gpu": 1})],
            ["cpu-0", "g"],
            id="a resource counts for more than an amount",
        ),
        pytest.param(
            [pod("plain"), pod("much", labels={"a": "1", "b": "2"}), pod("other", labels={"a": "2"})],
            ["much", "other"],
            id="whoever brings nothing new comes last",
        ),
    ],
)
def test_who_is_chosen(pods: list[Pod], chosen: list[str]) -> None:
    assert [each.name for each in different_pods(pods)][:2] == chosen


def test_they_are_few_and_wait_for_a_node() -> None:
    found = different_pods([pod(f"p{n}", labels={"n": str(n)}) for n in range(50)], most=7)

    assert len(found) == 7
    assert {each.node_name for each in found} == {""}
    assert {each.phase for each in found} == {"Pending"}
    assert found[0].uid == "uid-p0-one-more"
