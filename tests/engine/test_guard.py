"""Nothing that a hook does gets past: exceptions become failures with a name and a place."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import bayplan
from bayplan.authoring.hooks import HOOK
from bayplan.authoring.lift import BadResult, UnknownNode
from bayplan.authoring.registry import Hook
from bayplan.engine.guard import Attempt, Interrupted, guarded, overrun
from bayplan.testing import make_cluster, make_node, make_pod


class Unprintable(Exception):
    """An exception whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Leaving(Exception):
    """An exception whose own text ends the program."""

    def __str__(self) -> str:
        raise SystemExit(3)


class Untraceable(Exception):
    """An exception that does not say where it was raised."""

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("nowhere")


class Thorny(dict[str, int]):
    """A dict that cannot be asked what is in it."""

    def __contains__(self, key: object) -> bool:
        raise OSError("no")


def badly_noted() -> ValueError:
    error = ValueError("x")
    error.__notes__ = [Unprintable()]  # type: ignore[list-item]
    return error


def noted(text: str) -> ValueError:
    error = ValueError("x")
    error.add_note(text)
    return error


@bayplan.filter
def rule(node: Any) -> Any:
    raise node


RULE = Hook("careful", "rule", getattr(rule, HOOK), rule)


def throw(error: BaseException) -> Any:
    return guarded(RULE, Attempt(), lambda: RULE.call({"node": error}))


def test_a_result_is_handed_on_with_the_time_it_took() -> None:
    result, failure, seconds = guarded(RULE, Attempt(), lambda: 7)

    assert (result, failure) == (7, None)
    assert seconds >= 0


@pytest.mark.parametrize(
    ("error", "kind", "said", "summary"),
    [
        pytest.param(
            ValueError("no such rack"),
            "exception",
            r"test_guard.py:\d+ rule: ValueError: no such rack",
            "policy careful raised ValueError",
            id="an exception",
        ),
        pytest.param(
            SystemExit(3),
            "exception",
            r"test_guard.py:\d+ rule: SystemExit: 3",
            "policy careful raised SystemExit",
            id="an exit",
        ),
        pytest.param(
            KeyError(),
            "exception",
            r"test_guard.py:\d+ rule: KeyError",
            "policy careful raised KeyError",
            id="an exception without a text",
        ),
        pytest.param(
            BadResult("x.py:1 rule: shape"),
            "bad-result",
            "x.py:1 rule: shape",
            "policy careful gave a bad result",
            id="a bad result",
        ),
        pytest.param(
            UnknownNode("x.py:1 rule: names"),
            "unknown-node",
            "x.py:1 rule: names",
            "policy careful named an unknown node",
            id="an unknown node",
        ),
        pytest.param(
            Unprintable(),
            "exception",
            r"rule: Unprintable: \(its text cannot be printed\)",
            "policy careful raised Unprintable",
            id="an exception that cannot be printed",
        ),
        pytest.param(
            Leaving(),
            "exception",
            r"rule: Leaving: \(its text cannot be printed\)",
            "policy careful raised Leaving",
            id="an exception that ends the program when it is printed",
        ),
        pytest.param(
            Untraceable(),
            "exception",
            r"test_guard.py:\d+ rule: Untraceable: \(it cannot be told\)",
            "policy careful raised Untraceable",
            id="an exception that cannot be traced",
        ),
        pytest.param(
            badly_noted(),
            "exception",
            r"test_guard.py:\d+ rule: ValueError: \(it cannot be told\)",
            "policy careful raised ValueError",
            id="a note that cannot be printed",
        ),
        pytest.param(
            AttributeError("x", name="cpu", obj=Thorny()),
            "exception",
            "rule: AttributeError: x",
            "policy careful raised AttributeError",
            id="an attribute of an object that cannot be looked into",
        ),
        pytest.param(
            noted("half a pair \ud800"),
            "exception",
            r"rule: ValueError: x \(half a pair \?\)",
            "policy careful raised ValueError",
            id="a note that JSON cannot hold",
        ),
        pytest.param(
            noted("x" * 10_000),
            "exception",
            r"rule: ValueError: x \(x{1800,1999}…",
            "policy careful raised ValueError",
            id="a note that is too long",
        ),
        pytest.param(
            BadResult("returned half a pair \ud800"),
            "bad-result",
            r"returned half a pair \?",
            "policy careful gave a bad result",
            id="a bad result that JSON cannot hold",
        ),
        pytest.param(
            UnknownNode("n" * 10_000),
            "unknown-node",
            "^n{1999}…",
            "policy careful named an unknown node",
            id="a node whose name is too long",
        ),
        pytest.param(
            OSError("two\n  lines"),
            "exception",
            "rule: OSError: two lines",
            "policy careful raised OSError",
            id="a text of several lines",
        ),
        pytest.param(
            OSError("x" * 1000),
            "exception",
            "rule: OSError: x{299}…",
            "policy careful raised OSError",
            id="a text that is too long",
        ),
        pytest.param(
            OSError("half a pair \ud800"),
            "exception",
            r"rule: OSError: half a pair \?",
            "policy careful raised OSError",
            id="a text that JSON cannot hold",
        ),
    ],
)
def test_what_a_hook_raises_becomes_a_failure(
    error: BaseException, kind: str, said: str, summary: str
) -> None:
    result, failure, _ = throw(error)

    assert result is None
    assert (failure.kind, failure.summary) == (kind, summary)
    assert re.search(f"{said}$", failure.text)


class Shy:
    """An object that does not say what it has."""

    def __dir__(self) -> list[str]:
        raise OSError("no")


@pytest.mark.parametrize(
    ("thing", "attribute", "said"),
    [
        pytest.param(
            make_node("a"), "label", "'Node' object has no attribute 'label'; did you mean 'labels'?"
        ),
        pytest.param(make_pod("a"), "namespce", "'namespce'; did you mean 'namespace'?"),
        pytest.param(make_node("a"), "gizmo", "'Node' object has no attribute 'gizmo'"),
        pytest.param(bayplan, "filtr", "'filtr'; did you mean 'filter'?"),
        pytest.param(Shy(), "label", "'Shy' object has no attribute 'label'"),
        pytest.param(make_cluster(["a"]).nodes.row(0), "status", "; write node.object.status"),
        pytest.param(make_cluster(["a"]).nodes, "labels", "; a label is nodes[Label(KEY)]"),
        pytest.param({"cpu": 500}, "cpu", "'dict' object has no attribute 'cpu'; write ['cpu']"),
    ],
    ids=[
        "a node",
        "a pod",
        "far from any",
        "the module",
        "one that does not tell",
        "a part",
        "a table",
        "a key",
    ],
)
def test_an_attribute_that_is_almost_there_is_suggested(thing: Any, attribute: str, said: str) -> None:
    _, failure, _ = guarded(RULE, Attempt(), lambda: getattr(thing, attribute))

    assert failure is not None
    assert failure.text.startswith("test_guard.py:")
    assert failure.text.endswith(said)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        pytest.param(
            lambda pod: pod.labels["team"],
            "KeyError: 'team'; write .get('team') where it may be missing",
            id="a label that the pod lacks",
        ),
        pytest.param(
            lambda _: dict[str, int]()["team"], "KeyError: 'team'", id="a key of the author's own table"
        ),
        pytest.param(
            lambda _: ~np.array([1.0, np.nan]),
            "; a column of numbers is compared first, a label that is read as bool too: nodes[...] == 1",
            id="not, of numbers",
        ),
        pytest.param(
            lambda _: np.array([1.0]) & np.array([True]),
            "read as bool too: nodes[...] == 1",
            id="and, of numbers",
        ),
    ],
)
def test_what_to_write_instead_is_said(look: Callable[[Any], Any], said: str) -> None:
    _, failure, _ = guarded(RULE, Attempt(), lambda: look(make_pod("a")))

    assert failure is not None
    assert failure.text.endswith(said)


def test_the_line_is_the_one_in_the_policys_file() -> None:
    line = rule.__code__.co_firstlineno + 2

    _, failure, _ = throw(ValueError("x"))

    assert failure.text == f"test_guard.py:{line} rule: ValueError: x"


def test_the_node_is_named_where_it_is_known() -> None:
    error = ValueError("x")
    error.add_note("on node full")

    _, failure, _ = throw(error)

    assert failure.text.endswith("rule: ValueError: x (on node full)")


def test_a_hook_that_never_ends_its_calls_is_a_failure() -> None:
    def deeper() -> Any:
        return deeper()

    _, failure, _ = guarded(RULE, Attempt(), deeper)

    assert failure is not None
    assert failure.summary == "policy careful raised RecursionError"


@pytest.mark.parametrize(
    "error",
    [pytest.param(KeyboardInterrupt(), id="Control-C"), pytest.param(Interrupted(), id="the deadline")],
)
def test_what_is_not_the_hooks_doing_goes_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        throw(error)


def test_what_ctrl_c_raises_is_the_hooks_doing_in_another_thread() -> None:
    """Python sends Ctrl-C to the main thread, and a server calls hooks in others."""
    with ThreadPoolExecutor(1) as pool:
        _, failure, _ = pool.submit(throw, KeyboardInterrupt()).result()

    assert failure is not None
    assert failure.text.endswith("rule: KeyboardInterrupt")


def test_a_policy_that_was_given_up_is_not_called_again() -> None:
    given_up = overrun(RULE, 2.5)
    attempt = Attempt(given_up={"careful": given_up})

    result, failure, seconds = guarded(RULE, attempt, lambda: pytest.fail("called"))

    assert (result, failure, seconds) == (None, given_up, 0.0)
    assert given_up.kind == "overrun"
    assert given_up.text.endswith("rule: still running after 2.5 s")
    assert given_up.summary == "policy careful took too long"


def test_whoever_keeps_the_time_sees_the_hook_that_runs() -> None:
    attempt = Attempt()

    seen, _, _ = guarded(RULE, attempt, lambda: (attempt.hook, attempt.since > 0))

    assert seen == (RULE, True)
    assert attempt.hook is None


def test_a_column_is_no_yes_or_no() -> None:
    """NumPy's own advice, any() or all(), would make another rule of it."""
    _, failure, _ = guarded(RULE, Attempt(), lambda: not np.array([True, False]))

    assert failure is not None
    assert failure.text.endswith("; of columns write ~a, a & b, a | b in place of not, and, or")
    assert "; for `if a` return REASON.where(a);" in failure.text
