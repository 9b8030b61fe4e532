"""Files are imported beside what serves: nobody who is at work sees another version, or half of one."""

import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from bayplan import PolicyError
from bayplan.authoring.editions import anew
from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.config.flags import Flags, load_all
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.testing import make_cluster, make_pod

LAZY = """
import bayplan
import words

@bayplan.filter
def says(pod, node):
    import words
    return words.WORD + " " + words.more()
"""
WORDS = """
WORD = "NUMBER"

def more():
    import later
    return later.WORD
"""
EAGER = """
import bayplan
IMPORT

@bayplan.filter
def says(pod, node):
    return WORD
"""


class Gate:
    """Where an import waits until it is let through."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(30)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """``from gate import gate`` in a policy."""
    module = ModuleType("gate")
    gate = Gate()
    module.gate = gate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gate", module)
    yield gate
    gate.opened.set()


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def said(policy: Policy) -> str:
    """The reason that the policy has for the only node."""
    cluster = make_cluster(["n"])
    decision = filter_nodes([policy], Question(make_pod("p"), cluster.nodes, cluster, datetime.now(UTC)))
    assert decision.error == ""
    refusal = decision.refusal(0)
    assert refusal is not None
    return refusal.reason.text


def only(folder: Path) -> Policy:
    (definition,) = load(str(folder / "policy.py"))
    return definition.make()


def version(number: str) -> dict[str, str]:
    return {"policy": LAZY, "words": WORDS.replace("NUMBER", number), "later": f'WORD = "{number}"\n'}


def test_a_hook_that_imports_gets_its_own_version_before_while_and_after_another_is_loaded(
    tmp_path: Path, gate: Gate
) -> None:
    with anew():
        old = only(write(tmp_path, **version("one")))
    assert said(old) == "one one"
    write(tmp_path, **version("two"))
    slow = version("two")["words"] + "from gate import gate\ngate.wait()\n"
    write(tmp_path, words=slow)
    fresh: list[Policy] = []

    def reload() -> None:
        with anew():
            fresh.append(only(tmp_path))

    reloading = threading.Thread(target=reload)
    reloading.start()
    assert gate.reached.wait(30)
    meanwhile = said(old)
    gate.opened.set()
    reloading.join()

    assert meanwhile == "one one"
    assert said(fresh[0]) == "two two"
    assert said(old) == "one one"


def test_what_is_refused_leaves_no_trace_at_any_time(tmp_path: Path, gate: Gate) -> None:
    with anew() as edition:
        old = only(write(tmp_path, **version("one")))
    assert said(old) == "one one"
    files, modules, path = edition.files(), dict(sys.modules), list(sys.path)
    write(tmp_path, **version("two"), broken="from gate import gate\ngate.wait()\nraise ValueError('no')\n")
    write(tmp_path, policy=LAZY + "import broken\n")
    refused: list[str] = []

    def reload() -> None:
        with pytest.raises(PolicyError) as caught, anew():
            only(tmp_path)
        refused.append(str(caught.value))

    reloading = threading.Thread(target=reload)
    reloading.start()
    assert gate.reached.wait(30)
    meanwhile = said(old)
    known = {name for name in set(sys.modules) - set(modules) if not name.startswith("bayplan_policy_")}
    gate.opened.set()
    reloading.join()

    assert (meanwhile, known) == ("one one", set())
    assert refused == [f"{tmp_path}/policy.py:9: ValueError: no"]
    assert (dict(sys.modules), list(sys.path)) == (modules, path)
    assert edition.files() == files
    assert said(old) == "one one"


def test_an_edition_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    before = set(sys.modules)
    with anew() as edition:
        only(write(tmp_path, **version("one")))
    assert set(sys.modules) - before

    edition.forget()

    assert set(sys.modules) == before


def test_each_load_knows_its_own_files_alone(tmp_path: Path) -> None:
    here, there = write(tmp_path / "here", **version("one")), write(tmp_path / "there", **version("two"))
    first, second = (load_all([str(folder / "policy.py")], Flags()) for folder in (here, there))

    assert {file.parent for file in first.edition.files()} == {here}
    assert {file.parent for file in second.edition.files()} == {there}


def test_two_policies_of_a_folder_share_what_they_import(tmp_path: Path) -> None:
    text = "import bayplan\nimport words\n\n@bayplan.filter\ndef says(pod, node):\n    return words.again()\n"
    write(tmp_path, words="said = []\n\ndef again():\n    said.append(1)\n    return str(len(said))\n")
    write(tmp_path, policy=text, other=text)
    with anew():
        first, (second,) = only(tmp_path), load(str(tmp_path / "other.py"))

    assert (said(first), said(second.make())) == ("1", "2")


def test_each_folder_has_files_of_its_own(tmp_path: Path) -> None:
    with anew():
        here = only(write(tmp_path / "here", **version("here")))
        there = only(write(tmp_path / "there", **version("there")))

    assert (said(here), said(there)) == ("here here", "there there")


@pytest.mark.parametrize(
    ("statement", "files"),
    [
        pytest.param("from words import WORD", {"words": "WORD = 'x'"}, id="a file"),
        pytest.param("from .words import WORD", {"words": "WORD = 'x'"}, id="a file, relatively"),
        pytest.param("import words as w; WORD = w.WORD", {"words": "WORD = 'x'"}, id="under another name"),
        pytest.param("from words import *", {"words": "WORD = 'x'"}, id="everything"),
        pytest.param(
            "import kit.words; WORD = kit.words.WORD",
            {"kit/__init__": "", "kit/words": "WORD = 'x'"},
            id="a module of a package",
        ),
        pytest.param(
            "from kit import words; WORD = words.WORD",
            {"kit/__init__": "", "kit/words": "WORD = 'x'"},
            id="a module from a package",
        ),
        pytest.param(
            "from kit.words import WORD",
            {"kit/__init__": "from .words import WORD", "kit/words": "import top\nWORD = top.WORD"}
            | {"top": "WORD = 'x'"},
            id="a package that imports from within and from beside",
        ),
        pytest.param("from kit.words import WORD", {"kit/words": "WORD = 'x'"}, id="a folder"),
        pytest.param(
            "from words import Word; WORD = Word().text",
            {
                "words": "from __future__ import annotations\nimport dataclasses\n"
                "@dataclasses.dataclass\nclass Word:\n    text: str = 'x'\n"
            },
            id="a class that is looked up by the name of its module",
        ),
    ],
)
def test_what_is_beside_the_policy_is_imported_as_anything_else(
    tmp_path: Path, statement: str, files: dict[str, str]
) -> None:
    with anew() as edition:
        policy = only(write(tmp_path, policy=EAGER.replace("IMPORT", statement), **files))

    assert said(policy) == "x"
    there = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.py")}
    assert {path.relative_to(tmp_path) for path in edition.files()} == there
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_file_beside_the_policy_shadows_nothing(tmp_path: Path) -> None:
    text = EAGER.replace("IMPORT", "import colorsys\nWORD = 'own' if hasattr(colorsys, 'OWN') else 'python'")
    with anew():
        assert said(only(write(tmp_path, policy=text, colorsys="OWN = 1"))) == "python"


def test_a_folder_on_the_path_of_python_is_reloaded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for number in ("one", "two"):
        with anew():
            assert said(only(write(tmp_path, **version(number)))) == f"{number} {number}"


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        pytest.param("import wordz", "No module named 'wordz'", id="no such file"),
        pytest.param("import words.more", "No module named 'words.more'", id="no package"),
        pytest.param("from words import MORE", "cannot import name 'MORE' from 'words'", id="no such name"),
    ],
)
def test_an_import_that_fails_is_told_in_the_names_of_its_author(
    tmp_path: Path, statement: str, text: str
) -> None:
    write(tmp_path, policy=EAGER.replace("IMPORT", statement), words="")
    with pytest.raises(PolicyError) as caught, anew():
        only(tmp_path)

    assert text in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/policy.py:3: ")
    assert "bayplan_policy" not in str(caught.value)
