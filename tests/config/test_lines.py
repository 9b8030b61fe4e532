"""Lines of hooks that a dry run did not come to are told: nobody has tried them."""

import json
from pathlib import Path

import pytest

from bayplan.config.flags import Flags
from bayplan.runtimes.extender.check import check
from bayplan.testing import make_pod

GPU = """\
import bayplan

NO = bayplan.Reason("no")
GPUS = bayplan.Label("gpus", int, default=0)


@bayplan.filter
def new_enough(pod, nodes):
    if pod.request("nvidia.com/gpu") == 0:
        return None
    many = nodes[GPUS]
    return NO.where(many < 8)


@bayplan.gang
def ranks(pod):
    if job := pod.labels.get("job"):
        return bayplan.Gang(job, size=2)
"""
LINES = "these lines were not run by any pod of the dry run; give one that comes there: --pod pod.yaml"


def hints(folder: Path, code: str, **given: object) -> list[str]:
    path = folder / "gpu.py"
    path.write_text(code)
    return [hint for hint in check([str(path)], Flags(), **given).hints if "not run" in hint]  # type: ignore[arg-type]


def test_lines_that_no_pod_comes_to_are_told_of_filters_and_gangs(tmp_path: Path) -> None:
    first, second = hints(tmp_path, GPU)

    assert first.startswith(f"gpu.py:11-12 new_enough: {LINES}")
    assert second.startswith("gpu.py:18 ranks: this line was not run by any pod")


def test_pods_that_come_there_are_all_that_is_wanted(tmp_path: Path) -> None:
    pods = [make_pod("g", requests={"nvidia.com/gpu": "1"}), make_pod("r", labels={"job": "a"})]

    assert hints(tmp_path, GPU, pods=pods) == []


def test_who_gave_a_pod_is_asked_for_another(tmp_path: Path) -> None:
    first, _ = hints(tmp_path, GPU, pods=[make_pod("mine")])

    assert "give one that comes there: another --pod than yours, or the nodes of a cluster" in first
    assert first.endswith("; or is a label or an annotation of the pod mistyped in the policy?")


def test_a_line_that_no_node_of_the_cluster_leads_to_may_need_another_node(tmp_path: Path) -> None:
    (tmp_path / "gpu.py").write_text(
        "import bayplan\n\n\n@bayplan.filter\ndef kept(pod, node):\n"
        "    if node.annotations.get('maintenance'):\n        return 'node is in maintenance'\n"
    )
    items = [{"kind": "Node", "metadata": {"name": "n"}}, {"kind": "Pod", "metadata": {"name": "p"}}]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": items}))
    flags = Flags(snapshot=tmp_path / "cluster.json")

    def told(**given: object) -> str:
        found = check([str(tmp_path / "gpu.py")], flags, **given).hints  # type: ignore[arg-type]
        return next(hint for hint in found if "not run" in hint)

    assert told().endswith("comes there: --pod pod.yaml, or a cluster with a node that leads there")
    assert "another --pod than yours, or a cluster with a node that leads there; or is a label" in told(
        pods=[make_pod("mine")]
    )


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        pytest.param("return None", "", id="one line"),
        pytest.param('"Words. \\\n    More."\n    # Why.\n    return None', "", id="no code in words"),
        pytest.param("try:\n        x = 1\n    except KeyError:\n        return 'a'", "7-8", id="errors"),
        pytest.param("for n in nodes:\n        if not n.name:\n            continue", "7", id="in a loop"),
        pytest.param(
            "return [\n        n\n        for n in nodes\n        if n.name\n    ] and None",
            "",
            id="in brackets",
        ),
        pytest.param("def inner():\n        return 1\n    return None", "6", id="a function in it"),
        pytest.param("key = lambda n: n.name\n    return None", "", id="a lambda"),
        pytest.param(
            "if pod.labels:\n        return 1\n    a = 1\n    if pod.labels:\n        a = 2\n        a = 3",
            "6, 9-10",
            id="two places",
        ),
    ],
)
def test_which_lines(body: str, lines: str, tmp_path: Path) -> None:
    found = hints(tmp_path, f"import bayplan\n\n@bayplan.filter\ndef f(pod, nodes):\n    {body}\n")

    assert [hint.partition(" f: ")[0] for hint in found] == ([f"gpu.py:{lines}"] if lines else [])


def test_what_is_inside_another_function_is_looked_at(tmp_path: Path) -> None:
    code = (
        "import functools\nimport bayplan\n\ndef around(inner):\n    @functools.wraps(inner)\n"
        "    def outer(*args, **kwargs):\n        return inner(*args, **kwargs)\n    return outer\n\n"
        "@bayplan.filter\n@around\ndef f(pod, node):\n    if pod.labels:\n        return 'no'\n"
    )

    (hint,) = hints(tmp_path, code)

    assert hint.startswith("gpu.py:14 f: this line")


def test_what_a_problem_hides_is_not_told(tmp_path: Path) -> None:
    assert hints(tmp_path, GPU.replace("pod.request(", "pod.requests(")) == []


@pytest.mark.parametrize(
    ("code", "done"),
    [
        pytest.param(
            "@bayplan.filter\ndef f(node):\n    return None\n",
            "every hook ran on 0, 1 and 3 nodes, for a plain pod",
            id="all of it",
        ),
        pytest.param(
            "@bayplan.filter\ndef f(pod, node):\n    if pod.labels:\n        return 'no'\n",
            "hooks ran on 0, 1 and 3 nodes, for a plain pod; not all of their lines (see the hints)",
            id="not all lines",
        ),
        pytest.param(
            "@bayplan.filter\ndef f(node):\n    pass\n\n@bayplan.bound\ndef b(pod):\n    print(pod)\n",
            "hooks ran on 0, 1 and 3 nodes, for a plain pod; not p.py:7 b (nothing was bound)",
            id="not what comes after a bind",
        ),
    ],
)
def test_the_last_line_says_what_was_done(code: str, done: str, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(f"import bayplan\n\n{code}")

    assert check([str(tmp_path / "p.py")], Flags()).done == done
