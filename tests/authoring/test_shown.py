"""What the source of a hook shows: the node alone, or that nobody can tell; and what it does nothing with."""

import ast
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from bayplan.authoring.hooks import HOOK, HookSpec
from bayplan.authoring.load import load
from bayplan.authoring.shown import module
from bayplan.authoring.shown.constants import Constants

HEAD = """
import functools
import math
import random
import re
import time

import numpy as np

import bayplan
from bayplan import Reason

PRICE = bayplan.Label("price", float)
LOAD = bayplan.Source("load")
HOT = LOAD.latched(above=2, below=1)
GPUS = bayplan.Units("example.com/gpu", capacity=bayplan.Label("gpus"))
NO = bayplan.Reason("no")
NAME = re.compile("node-[0-9]+")
LIMIT = 5
ZONES = ("a", "b")
RACKS = {"r1", "r2"}
POINTS = {"small": 1, "large": 2}
SEEN = {"a"}
CHANGING = 1
LIST = ZONES and ["a"]


def large(node):
    return node.labels.get("size") == "large"


def counted(node, counts):
    counts[node.name] = 1
    return True


def twice(function):
    @functools.wraps(function)
    def both(*args, **kwargs):
        return function(*args, **kwargs) and time.time() > 0

    return both


@twice
def wrapped(node):
    return node.labels.get("size") == "large"


def note(node):
    SEEN.add(node.name)


def change():
    global CHANGING
    CHANGING += 1
"""


def spec_of(tmp_path: Path, body: str, *, kind: str = "filter", takes: str = "node") -> HookSpec:
    file = tmp_path / "policy.py"
    file.write_text(
        f"{HEAD}\n\n@bayplan.{kind}\ndef hook({takes}):\n{indent(dedent(body).strip(), '    ')}\n"
    )
    (definition,) = load(str(file))
    found: HookSpec = getattr(dict(definition.functions)["hook"], HOOK)
    return found


@pytest.mark.parametrize(
    "body",
    [
        'return None if node.labels.get("disk") == "ssd" else "node has no SSD"',
        'if "disk" not in node.labels:\n    return "node lacks disk"',
        "return node.zone in ZONES",
        "return node.labels.get('rack') in RACKS",
        "return POINTS.get(node.labels.get('size'), 0) > 0",
        "return node[PRICE] < LIMIT",
        "return node[LOAD] < 0.5 and not node[HOT]",
        "return node['cpu.allocatable'] >= 4000 and node['ready'] and node['zone'] == 'a'",
        "return node.allocatable.get('nvidia.com/gpu', 0) > 0",
        "return not any(taint.key == 'old' and taint.effect != 'NoSchedule' for taint in node.taints)",
        "return bool(NAME.fullmatch(node.name)) and bool(re.match('node', node.name))",
        "return int(node.name[-1]) % 2 == 0 if node.name[-1:].isdigit() else True",
        "try:\n    price = float(node.labels['price'])\n"
        "except (KeyError, ValueError):\n    return 'no price'\nreturn price < 5",
        "total = 0\nfor key, value in node.labels.items():\n"
        "    if key.startswith('a'):\n        total += len(value)\nreturn total < 9",
        "return math.log2(node.capacity['cpu']) < math.inf",
        "return large(node)",
        "return bayplan.Reason('cordoned', preemptible=False) if node.unschedulable else None",
        "return Reason(f'{node.zone} is {node.region:>4}')",
        "'What it says.'\nreturn NO if node.annotations.get('off') else None",
        "x = [one for one in node.labels.values() if one]\nx, y = 1, 2\nreturn x < y",
    ],
)
def test_what_looks_at_the_node_alone_is_seen(body: str, tmp_path: Path) -> None:
    assert spec_of(tmp_path, body).reads == "node"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return node.free.get('cpu', 0) > 0", id="what is free"),
        pytest.param("return len(node.pods) < 5", id="pods"),
        pytest.param("return node['cpu.free'] > 0", id="a column of what runs"),
        pytest.param("return node['cpu.' + 'free'] > 0", id="a column that is put together"),
        pytest.param("which = 'cpu.free'\nreturn node[which] > 0", id="a column in a name"),
        pytest.param("return node[GPUS].sum() > 0", id="devices"),
        pytest.param("return time.time() > 0", id="a clock"),
        pytest.param("return random.random() > 0", id="dice"),
        pytest.param("return open('/tmp/x').read() == ''", id="a file"),
        pytest.param("return node.zone in SEEN", id="a set that somebody adds to"),
        pytest.param("return node.zone in LIST", id="a list that was made elsewhere"),
        pytest.param("return CHANGING > 0", id="a name that is bound again"),
        pytest.param("return counted(node, {})", id="a function that writes"),
        pytest.param("return wrapped(node)", id="a function inside another"),
        pytest.param("import os\nreturn bool(os.environ)", id="an import"),
        pytest.param("node.labels['x'] = 'y'", id="writing"),
        pytest.param("del node.labels['x']", id="deleting"),
        pytest.param("node.labels.update(x='y')", id="a method that writes"),
        pytest.param("labels = node.labels\nlabels |= {'x': 'y'}", id="writing in place"),
        pytest.param("return print(node.name)", id="printing"),
        pytest.param("return node.object is not None", id="the object"),
        pytest.param("return hash(node.name) > 0", id="another in each process"),
        pytest.param("return (lambda: True)()", id="a function of its own"),
        pytest.param("return getattr(node, 'free') is None", id="by name"),
        pytest.param("return time.e > 1", id="a name in another module"),
        pytest.param("return max({node[PRICE], node[LOAD]}) > 1", id="NaN in a set"),
        pytest.param("return max({n for n in node.labels}) > 'a'", id="a set that is made"),
        pytest.param("return {node[PRICE]: 1}.get(1, 0) > 0", id="NaN as a key"),
        pytest.param("return f'{(one for one in node.labels)}'", id="a generator as a text"),
        pytest.param("return str(zip(node.labels, node.labels))", id="an iterator as a text"),
        pytest.param("return node.zone is node.region", id="where a text is in memory"),
        pytest.param("for () in ((),):\n    return time.time() > 1", id="a loop that binds nothing"),
        pytest.param(
            "try:\n    return node['memory.allocatable'] > 5\nexcept ValueError:\n    return 'bad'",
            id="a column that fails",
        ),
        pytest.param(
            "try:\n    return large(node)\nexcept ValueError:\n    return 'bad'", id="a helper that fails"
        ),
        pytest.param("while True:\n    return True", id="a loop without end"),
        pytest.param("return node == node", id="nodes compared"),
        pytest.param("return later\nlater = 1", id="what is not there yet"),
        pytest.param("return LIMITS > 1", id="what is nowhere"),
    ],
)
def test_whatever_may_depend_on_more_proves_nothing(body: str, tmp_path: Path) -> None:
    assert spec_of(tmp_path, body).reads == "cluster"


@pytest.mark.parametrize(
    "body",
    [
        "return NO.where(nodes[PRICE] > 0.5, price=nodes[PRICE])",
        "return NO.where(nodes['zone'] == 'a') | NO.where(~nodes['ready'])",
        "return NO.where(~nodes['zone'].isin(ZONES) & nodes['region'].present)",
        "return nodes['zone'] != pod.labels.get('zone', 'a')",
        "found: object = np.where(np.isnan(nodes[PRICE]), 0.0, -nodes[PRICE] * 2)\nreturn found",
        "return np.maximum(nodes['cpu.allocatable'] / 1000, LIMIT) > LIMIT",
        "return nodes[HOT]",
    ],
)
def test_columns_that_are_worked_with_row_by_row_are_seen(body: str, tmp_path: Path) -> None:
    assert spec_of(tmp_path, body, takes="pod, nodes").reads == "node"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return nodes[PRICE] > nodes[PRICE].min()", id="the least of all"),
        pytest.param("return nodes[PRICE] > min(nodes[PRICE])", id="the least, otherwise"),
        pytest.param("return nodes[PRICE] > np.median(nodes[PRICE])", id="the middle"),
        pytest.param("return nodes[PRICE] @ nodes[PRICE] > 1", id="a sum"),
        pytest.param("return nodes[PRICE][::-1] > 1", id="another order"),
        pytest.param("return nodes[PRICE] > (1, 2, 3)", id="by place"),
        pytest.param("return np.where(nodes[PRICE] > 1)", id="places"),
        pytest.param("return np.maximum(nodes[PRICE], 1, nodes[PRICE]) > 1", id="written into a column"),
        pytest.param("price = nodes[PRICE]\nprice += 1\nreturn price > 1", id="written in place"),
        pytest.param("return 1 < nodes[PRICE] < 2", id="one truth of many"),
        pytest.param("return nodes[PRICE] > 1 and nodes['ready']", id="the truth of a column"),
        pytest.param("return not nodes['ready']", id="not a column"),
        pytest.param("if nodes['ready']:\n    return None", id="if a column"),
        pytest.param("return len(nodes) > 1", id="how many"),
        pytest.param("return {name: 'no' for name in nodes.names}", id="names"),
        pytest.param("return {'n1': 'no'}", id="a name"),
        pytest.param("return nodes.count(by='zone') > 1", id="pods"),
        pytest.param("return nodes['cpu.free'] > 1", id="what is free"),
        pytest.param("return (nodes[PRICE] > 0) & (np.abs((1, 2, 3)) > 2)", id="by place, worked out"),
        pytest.param("return np.abs((1, 2, 3)) > 2", id="by place alone"),
        pytest.param("return np.sqrt(4.0) * (1, 2) > 3", id="a number of NumPy makes rows of a tuple"),
        pytest.param(
            "return NO.where(nodes[PRICE] > 1, step=np.abs((1, 2)) > 1)", id="by place, in a reason"
        ),
        pytest.param(
            "try:\n    return 2 ** nodes['cpu.allocatable'] > 1\nexcept ValueError:\n    return None",
            id="one row fails for all",
        ),
        pytest.param(
            "value = 0\nfor one in ZONES:\n    found = nodes[PRICE] > value\n    value = ZONES\nreturn found",
            id="another thing in the next round",
        ),
    ],
)
def test_columns_that_are_looked_at_together_prove_nothing(body: str, tmp_path: Path) -> None:
    assert spec_of(tmp_path, body, takes="nodes").reads == "cluster"


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("return node.labels.get('team') == pod.labels.get('team')", "node"),
        ("return pod.priority > 5 or pod.namespace == 'kube-system'", "node"),
        ("return all(pod.tolerates(taint) for taint in node.taints)", "node"),
        ("return pod.name == node.name", "cluster"),
        ("return pod.uid == ''", "cluster"),
        ("return pod.metadata is None", "cluster"),
    ],
)
def test_of_a_pod_what_all_of_its_kind_have_may_be_read(body: str, reads: str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, body, takes="pod, node")
    assert (spec.reads, spec.uses_pod) == (reads, True)


@pytest.mark.parametrize(
    "takes", ["node, now", "node, cluster", "node, pod=None", "node, args: bayplan.Args"]
)
def test_what_else_is_asked_for_may_be_anything(takes: str, tmp_path: Path) -> None:
    assert spec_of(tmp_path, "return node.zone == 'a'", takes=takes).reads == "cluster"


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("score", "node"),
        ("score(range=(0, 1))", "node"),
        ('filter(reads="cluster")', "cluster"),
        ('filter(reads="pods")', "pods"),
        ("prefer", "cluster"),
    ],
)
def test_who_says_what_it_reads_is_believed(kind: str, reads: str, tmp_path: Path) -> None:
    assert spec_of(tmp_path, "return node.zone == 'a'", kind=kind).reads == reads


@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("return node.zone == 'a'", False),
        ("return pod.name == 'a'", True),
        ("return locals()['pod'] is None", True),
        ("return [pod for _ in 'a'] == []", True),
    ],
)
def test_a_pod_that_nothing_is_done_with_is_seen(body: str, used: bool, tmp_path: Path) -> None:
    assert spec_of(tmp_path, body, takes="pod, node").uses_pod is used


@pytest.mark.parametrize(
    ("decorators", "reads"),
    [
        ("@bayplan.filter", "node"),
        ("@bayplan.filter\n@twice", "cluster"),
        ("@twice\n@bayplan.filter", "cluster"),
    ],
)
def test_a_function_inside_another_is_not_what_runs(decorators: str, reads: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text(f"{HEAD}\n\n{decorators}\ndef hook(pod, node):\n    return node.zone == 'a'\n")
    (definition,) = load(str(file))
    spec: HookSpec = getattr(dict(definition.functions)["hook"], HOOK)
    assert (spec.reads, spec.uses_pod) == (reads, reads == "cluster")


@pytest.mark.parametrize(
    "line", ["globals()['LIMIT'] = 7", "sys.modules[__name__].LIMIT = 7", "exec('LIMIT = 7')"]
)
def test_a_module_that_changes_its_own_names_proves_nothing(line: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    rule = "@bayplan.filter\ndef hook(node):\n    return LIMIT > 1\n"
    file.write_text(f"import sys\n\n\ndef change():\n    {line}\n\n{HEAD}\n\n{rule}")
    (definition,) = load(str(file))
    assert getattr(dict(definition.functions)["hook"], HOOK).reads == "cluster"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(
            "try:\n    from sys import path as SPOTS\nexcept ImportError:\n    SPOTS = ['a']", id="try"
        ),
        pytest.param("SPOTS = ['a']\nfrom string import *", id="star"),
        pytest.param("SPOTS = ['a']\nimport string as SPOTS", id="import"),
        pytest.param("SPOTS = ['a']\nmatch 1:\n    case SPOTS:\n        SPOTS = ['b']", id="match"),
        pytest.param(
            "from site import ENABLE_USER_SITE\nSPOTS = [ENABLE_USER_SITE]\nspots = SPOTS", id="another name"
        ),
        pytest.param(
            "import sys\nSPOTS = ['a']\ndef f():\n    sys.modules[__name__].SPOTS.append('b')",
            id="by way of sys",
        ),
        pytest.param("SPOTS = ['a']\ndef f():\n    f.__globals__['SPOTS'] = 1", id="globals of a function"),
        pytest.param("if True:\n    SPOTS = ['a']", id="not straight in the module"),
    ],
)
def test_a_list_that_somebody_else_may_have_proves_nothing(head: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text(
        f"import bayplan\n{head}\n\n@bayplan.filter\ndef hook(node):\n    return node.zone in SPOTS\n"
    )
    (definition,) = load(str(file))
    assert getattr(dict(definition.functions)["hook"], HOOK).reads == "cluster"


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("return " + " + ".join(["node.zone"] * 900) + " == ''", id="a long sum"),
        pytest.param(
            "if node.zone == 'a':\n        return True\n    "
            + "\n    ".join(f"elif node.zone == '{n}':\n        return True" for n in range(700)),
            id="a long choice",
        ),
    ],
)
def test_a_function_that_is_too_long_to_be_read_is_loaded_all_the_same(rule: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text(f"import bayplan\n\n@bayplan.filter\ndef hook(node):\n    {rule}\n")
    (definition,) = load(str(file))
    assert getattr(dict(definition.functions)["hook"], HOOK).reads in ("node", "cluster")


def test_a_large_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(Constants):
        def __init__(self, tree: ast.Module, names: Mapping[str, Any]) -> None:
            made.append(names)
            super().__init__(tree, names)

    monkeypatch.setattr(module, "Constants", Counted)
    file = tmp_path / "policy.py"
    rules = (f"@bayplan.filter\ndef hook_{n}(node):\n    return node.zone == '{n}'\n" for n in range(20))
    file.write_text("import bayplan\n\n" + "\n".join(rules))
    (definition,) = load(str(file))

    assert {getattr(function, HOOK).reads for _, function in definition.functions} == {"node"}
    assert len(made) == 1


def test_a_file_that_is_not_what_was_loaded_proves_nothing(tmp_path: Path) -> None:
    before = "return node.zone == 'a'"
    file = tmp_path / "policy.py"
    file.write_text(
        "import bayplan\nfrom pathlib import Path\n\n\n"
        "@bayplan.filter\ndef hook(node):\n    return len(node.pods) > 1\n\n\n"
        "file = Path(__file__)\nfile.write_text(file.read_text().replace('return len(node.pods) > 1', "
        f'"{before}"))\n'
    )
    (definition,) = load(str(file))
    assert before in file.read_text().splitlines()[6]
    assert getattr(dict(definition.functions)["hook"], HOOK).reads == "cluster"
