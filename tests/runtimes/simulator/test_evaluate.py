"""A pod that nobody has created: tried on all nodes of a snapshot, with the sources asked once."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.config.flags import Flags
from bayplan.config.load import ConfigError
from bayplan.kube.pod import Pod
from bayplan.runtimes.simulator.evaluate import Evaluated, evaluate
from bayplan.testing import make_pod

POLICY = """
import bayplan

PRICE = bayplan.Source("prices.usd")
DEAR = bayplan.Reason("too dear", detail="{usd} dollars", helped_by={"source:prices"})


@bayplan.filter
def dear(pod, nodes):
    return DEAR.where(nodes[PRICE] > 5, usd=nodes[PRICE])


@bayplan.score(best="low")
def cheap(pod, nodes):
    return nodes[PRICE]
"""
CONFIG = """
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
sources:
- name: prices
  file: {path: prices.json}
policies:
- use: policy.py
  for: {namespaces: [shop]}
cluster: {source: snapshot, snapshot: cluster.json}
"""
PRICES = {"dear": {"usd": 9}, "fair": {"usd": 3}, "cheap": {"usd": 1}}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "bayplan.yaml").write_text(CONFIG)
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))
    cluster = {"kind": "List", "items": [node(name) for name in PRICES]}
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    return tmp_path


def tried(folder: Path, pod: Pod, *, weight: float = 1.0) -> Evaluated:
    return evaluate(pod, [], Flags(config=folder / "bayplan.yaml"), weight=weight)


def test_every_node_is_offered_and_the_best_by_our_scores_is_chosen(folder: Path) -> None:
    why = tried(folder, make_pod("web", namespace="shop"), weight=4).why

    assert (why.pod, why.decision, why.history) == ("shop/web", 0, [])
    assert (why.offered, why.passed, why.never_offered) == (3, 2, 0)
    assert [(g.reason, g.nodes, g.details, g.change) for g in why.refused] == [
        ("too dear", ["dear"], ["9.0 dollars"], "the source prices would have to say otherwise")
    ]
    assert [(ranked.node, ranked.wire, ranked.points) for ranked in why.ranking] == [
        ("cheap", 10, 400),
        ("fair", 0, 0),
    ]
    assert why.chosen == "cheap"


def test_a_source_that_does_not_answer_is_told(folder: Path) -> None:
    (folder / "prices.json").unlink()

    found = tried(folder, make_pod("web", namespace="shop"))

    assert list(found.problems) == ["prices"]
    assert "No such file" in found.problems["prices"]
    assert found.why.passed == 3


def test_a_pod_that_no_policy_is_for_passes_everywhere(folder: Path) -> None:
    (folder / "prices.json").unlink()

    found = tried(folder, make_pod("web", namespace="other"))

    assert (found.why.passed, found.why.hooks, found.why.chosen) == (3, [], "")
    # Nobody reads the source for it, so it is not asked.
    assert found.problems == {}


def test_where_one_node_is_left_that_is_the_one(folder: Path) -> None:
    (folder / "prices.json").write_text(json.dumps({"dear": {"usd": 9}, "fair": {"usd": 9}}))

    why = tried(folder, make_pod("web", namespace="shop")).why

    assert (why.passed, why.chosen) == (1, "cheap")


def test_where_no_node_is_left_the_pod_would_wait(folder: Path) -> None:
    (folder / "prices.json").write_text(json.dumps({name: {"usd": 9} for name in PRICES}))

    why = tried(folder, make_pod("web", namespace="shop")).why

    assert (why.passed, why.chosen, why.ranking) == (0, "", [])
    assert why.event == "0/3 nodes are available: 3 too dear."


def test_a_policy_that_fails_leaves_no_choice(folder: Path) -> None:
    (folder / "policy.py").write_text(POLICY.replace("nodes[PRICE] > 5", "1 / 0"))

    why = tried(folder, make_pod("web", namespace="shop")).why

    assert (why.passed, why.chosen) == (0, "")
    assert "policy 'policy' failed" in why.error


def test_without_a_cluster_or_a_policy_the_error_says_what_to_give(folder: Path) -> None:
    (folder / "bare.py").write_text("import bayplan\n\n@bayplan.filter\ndef f(pod, node): ...\n")

    with pytest.raises(ConfigError, match="no cluster: give --snapshot FILE or --kubeconfig FILE"):
        evaluate(make_pod(), [str(folder / "bare.py")], Flags())
    with pytest.raises(ConfigError, match="no policies: name a file"):
        evaluate(make_pod(), [], Flags(snapshot=folder / "cluster.json"))
