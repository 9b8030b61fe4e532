"""A dry run finds what would break in production: on no node, on one, on three."""

from pathlib import Path

import pytest

from bayplan.authoring.load import load
from bayplan.config.assemble import from_files
from bayplan.config.made_up import example_cluster
from bayplan.config.rehearse import promises_unmade, rehearse
from bayplan.testing import make_cluster, make_node
from bench.policies import SETTINGS

HEAD = "import bayplan\nimport numpy as np\n\n"


def problems(folder: Path, code: str, *, pods_known: bool = True) -> list[str]:
    (folder / "policy.py").write_text(HEAD + code)
    return rehearse(from_files([str(folder / "policy.py")]), pods_known=pods_known)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        pytest.param(
            "@bayplan.filter\ndef f(pod, node):\n    return node.labels['rack'] == 'a'\n",
            "policy.py:6 f: KeyError: 'rack'; write .get('rack') where it may be missing"
            " (on node rehearsal-0)",
            id="a label that not every node has",
        ),
        pytest.param(
            "@bayplan.score\ndef s(pod, nodes):\n    return np.ones((len(nodes), 1))\n",
            "policy.py:4 s: returned an array of shape (3, 1) for 3 nodes",
            id="a wrong shape",
        ),
        pytest.param(
            "@bayplan.score\ndef s(pod, nodes):\n    return [nodes['cpu.free'].max()] * len(nodes)\n",
            "identity (with no nodes)",
            id="the largest of nothing",
        ),
        pytest.param(
            "@bayplan.filter\ndef f(pod, node):\n    return 7\n",
            "policy.py:4 f: returned int 7",
            id="no verdict",
        ),
        pytest.param(
            "@bayplan.protect\ndef p(pod, victim):\n    return 1 / 0\n",
            "policy.py:6 p: ZeroDivisionError: division by zero",
            id="a protect that raises",
        ),
        pytest.param(
            "@bayplan.victims\ndef v(pod, victims):\n    return sum(victims)\n",
            "policy.py:6 v: TypeError",
            id="a price that raises",
        ),
        pytest.param(
            "@bayplan.gate\ndef g(pod, cluster):\n    return pod.label['team']\n",
            "policy.py:6 g: AttributeError",
            id="a gate that raises",
        ),
        pytest.param(
            "@bayplan.gate\ndef g(pod):\n    return 'never'\n\n"
            "@bayplan.order\ndef o(pod):\n    return float('nan')\n",
            "policy.py:8 o: NaN comes neither before nor after anything",
            id="an order behind a gate that lets nobody in",
        ),
        pytest.param(
            "@bayplan.score\ndef s(pod, nodes):\n    return nodes['cpu.fre']\n",
            "cpu.free",
            id="a column that is none",
        ),
    ],
)
def test_what_is_found(tmp_path: Path, code: str, problem: str) -> None:
    found = problems(tmp_path, code)

    assert [problem in text for text in found] == [True], found


def test_a_sound_policy_has_no_problems(tmp_path: Path) -> None:
    assert problems(tmp_path, "@bayplan.score\ndef s(pod, nodes):\n    return nodes['cpu.free']\n") == []


def test_free_cpu_needs_the_pods(tmp_path: Path) -> None:
    code = "@bayplan.score\ndef s(pod, nodes):\n    return nodes['cpu.free']\n"

    (problem,) = problems(tmp_path, code, pods_known=False)

    assert "cpu.free" in problem


def test_scopes_do_not_hide_a_policy_from_the_rehearsal(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("import bayplan\n@bayplan.filter\ndef f(pod, node):\n    return 7\n")
    from bayplan.config.flags import Flags, load_all

    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"
        "policies: [{use: policy.py, for: {namespaces: [nowhere]}}]\n"
    )

    assert rehearse(load_all([], Flags(config=config)).policies, pods_known=True)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_example_cluster_has_a_pod_on_each_node(count: int) -> None:
    cluster = example_cluster(count)

    assert len(cluster.nodes) == len(cluster.pods) == count
    assert cluster.nodes["cpu.free"].tolist() == [3900] * count


def test_nobody_is_told_of_a_bind_that_never_was(tmp_path: Path) -> None:
    code = "@bayplan.bound\ndef b(pod, node):\n    raise RuntimeError('told')\n"

    assert problems(tmp_path, code) == []


def test_a_hook_that_names_gangs_is_called_too(tmp_path: Path) -> None:
    good = "@bayplan.gang\ndef g(pod):\n    return bayplan.Gang('a', size=2)\n"

    assert problems(tmp_path, good) == []
    (problem,) = problems(tmp_path, good.replace("2", "0"))

    assert "g: ValueError: Gang 'a': size is how many pods it has, 1 or more; got 0" in problem


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        pytest.param(
            "score(reads='node')\ndef h(nodes):\n    return 1.0 * np.arange(len(nodes))", True, id="by place"
        ),
        pytest.param(
            "score(reads='node')\ndef h(nodes):\n    return nodes['cpu.allocatable'] / len(nodes)",
            True,
            id="a share of all",
        ),
        pytest.param(
            "filter(reads='node')\ndef h(pod, node):\n    return not pod.name.endswith('again')",
            True,
            id="by the pod's name",
        ),
        pytest.param(
            "filter(reads='node')\ndef h(pod, node):\n    return f'{pod.name} does not fit'",
            True,
            id="a reason with the pod's name",
        ),
        pytest.param(
            "score(reads='nodes')\ndef h(nodes):\n    return 1.0 * np.arange(len(nodes))", False, id="nodes"
        ),
        pytest.param("score\ndef h(nodes):\n    return 1.0 * np.arange(len(nodes))", False, id="no promise"),
        pytest.param(
            "score(reads='node')\ndef h(nodes):\n    return nodes['cpu.allocatable'] * 1.0", False, id="kept"
        ),
        pytest.param(
            "filter(reads='node')\ndef h(node):\n    return node.name[-1] != '1' or 'no ones'",
            False,
            id="kept by node",
        ),
        pytest.param("score(reads='node')\ndef h(nodes):\n    return float('nan')", False, id="no opinion"),
    ],
)
def test_a_promise_about_what_is_read_is_tried(tmp_path: Path, code: str, *, broken: bool) -> None:
    found = problems(tmp_path, f"@bayplan.{code}\n")

    assert bool(found) == broken
    assert len(found) <= 1
    assert all("policy.py:4 h: promises reads=" in text and "depends on" in text for text in found)


# Right, and written so that the source alone does not show it.
LABELLED = "@bayplan.filter\ndef f(pod, node):\n    return 'rack' in dict.fromkeys(node.labels)\n\n"
FIXED = (
    "@bayplan.score(range=(0, 9e9))\ndef s(nodes):\n    return nodes['memory.allocatable'].astype(float)\n\n"
)


@pytest.mark.parametrize(
    ("code", "hooks"),
    [
        pytest.param(LABELLED + FIXED, ["f", "s"], id="two that look at the node alone"),
        pytest.param(LABELLED + FIXED.replace("9e9)", "9e9), reads='node'"), ["f"], id="one has promised it"),
        pytest.param(LABELLED + FIXED.replace("9e9)", "9e9), reads='pods'"), ["f"], id="one promises less"),
        pytest.param(
            LABELLED + FIXED.replace("9e9)", "9e9), reads='cluster'"), ["f"], id="one reads anything"
        ),
        pytest.param(
            LABELLED + FIXED.replace(".astype(float)", ""), ["f"], id="one whose source shows it already"
        ),
        pytest.param(LABELLED + FIXED.replace("allocatable", "free"), ["f"], id="one looks at pods"),
        pytest.param(
            "@bayplan.score\ndef s(nodes):\n"
            "    return nodes['cpu.allocatable'] / nodes['cpu.allocatable'].sum()\n",
            [],
            id="shares of all nodes",
        ),
        pytest.param(
            FIXED + FIXED.replace("def s", "def free").replace("allocatable", "free"),
            [],
            id="one over the table, beside one that looks at pods",
        ),
        pytest.param("@bayplan.filter\ndef f(pod, node):\n    return pod.name\n", [], id="by the pod's name"),
        pytest.param("@bayplan.score\ndef s(node, now):\n    return now.hour\n", [], id="by the clock"),
        pytest.param(
            "@bayplan.filter\ndef f(nodes, cluster):\n    return None\n", [], id="who may look at everything"
        ),
        pytest.param(LABELLED + "@bayplan.prefer\ndef p(node): ...\n", ["f"], id="beside a soft filter"),
        pytest.param(LABELLED + "@bayplan.prepare\ndef p(pod): ...\n", [], id="something is prepared"),
        pytest.param("@bayplan.protect\ndef p(pod, victim): ...\n", [], id="no filter, no score"),
        pytest.param(
            "APP = bayplan.PodLabel('app')\n\n@bayplan.filter\ndef f(pod, nodes):\n"
            "    return nodes.count(APP.same_as(pod)) == 0 if 'app' in pod.labels else None\n",
            [],
            id="one that looks at pods for some pods",
        ),
        pytest.param(
            "LOAD = bayplan.Source('load')\n\n@bayplan.score\ndef s(nodes):\n    return nodes[LOAD]\n",
            [],
            id="numbers from outside",
        ),
        pytest.param(
            "import functools\n\ndef around(inner):\n    @functools.wraps(inner)\n"
            "    def outer(*args, **kwargs):\n        return inner(*args, **kwargs)\n    return outer\n\n"
            "@bayplan.filter\n@around\ndef f(pod, node):\n    return 'rack' in pod.labels\n",
            [],
            id="what is inside another function",
        ),
    ],
)
def test_promises_that_could_be_made(tmp_path: Path, code: str, hooks: list[str]) -> None:
    (tmp_path / "policy.py").write_text(HEAD + code)

    found = promises_unmade(from_files([str(tmp_path / "policy.py")]))

    assert [hook.name for hook in found] == hooks


def test_a_cluster_shows_more_than_made_up_nodes(tmp_path: Path) -> None:
    code = "@bayplan.score\ndef s(nodes):\n    return nodes[P] - nodes[P].min()\n"
    (tmp_path / "policy.py").write_text(f"{HEAD}P = bayplan.Label('price', float)\n\n{code}")
    policies = from_files([str(tmp_path / "policy.py")])
    priced = make_cluster([make_node(f"node-{n}", labels={"price": f"{n}"}) for n in range(3)])

    assert promises_unmade(policies), "no node has a price, so nobody can tell"
    assert promises_unmade(policies, cluster=priced) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_nobody_is_asked_to_make_a_built_in_promise_more(name: str) -> None:
    assert promises_unmade([load(name)[0].make(args=SETTINGS[name])]) == []
