"""Decorators leave the function as it was, and find its mistakes at once."""

from collections.abc import Callable
from typing import Any

import pytest

import bayplan
from bayplan import PolicyError
from bayplan.authoring.hooks import HOOK, HookSpec, class_hooks
from bayplan.testing import make_cluster, make_node, make_pod, run_policy


def spec_of(function: Callable[..., Any]) -> HookSpec:
    spec: HookSpec = getattr(function, HOOK)
    return spec


def test_a_decorated_function_is_still_called_as_it_was() -> None:
    @bayplan.filter
    def big(pod: bayplan.Pod, node: bayplan.Node) -> str | None:
        return None if node.allocatable["cpu"] > 1000 else "too small"

    assert big(make_pod(), make_node(cpu=1)) == "too small"
    assert big(make_pod(), make_node(cpu=2)) is None


def test_a_hook_gets_what_its_parameters_name() -> None:
    @bayplan.score(range=(0, 10), best="low", weight=3)
    def fast(pod: Any, nodes: Any, cluster: Any, now: Any, prepared: Any) -> Any:
        return 0

    spec = spec_of(fast)
    assert spec.kind == "score"
    assert spec.parameters == ("pod", "nodes", "cluster", "now", "prepared")
    assert (spec.range, spec.best, spec.weight, spec.per_node) == ((0, 10), "low", 3.0, False)
    assert spec.where.startswith("test_hooks.py:")


@pytest.mark.parametrize(
    "decorate",
    [
        pytest.param(bayplan.filter, id="without brackets"),
        pytest.param(bayplan.filter(), id="with brackets"),
        pytest.param(bayplan.prefer, id="prefer"),
        pytest.param(bayplan.prefer(), id="prefer with brackets"),
        pytest.param(bayplan.score, id="score"),
        pytest.param(bayplan.score(), id="score with brackets"),
    ],
)
def test_a_hook_that_takes_node_is_called_once_a_node(decorate: Callable[..., Any]) -> None:
    def rule(node: Any) -> None: ...

    assert spec_of(decorate(rule)).per_node


def test_a_parameter_with_a_default_is_the_hooks_own() -> None:
    @bayplan.filter
    def rule(node: Any, limit: int = 3) -> None: ...

    assert spec_of(rule).parameters == ("node",)


def unknown(pdo: Any, node: Any) -> None: ...
def stranger(pod: Any, node: Any, gizmo: Any) -> None: ...
def both(pod: Any, node: Any, nodes: Any) -> None: ...
def neither(pod: Any) -> None: ...
def star(pod: Any, node: Any, *rest: Any) -> None: ...
def stars(pod: Any, node: Any, **rest: Any) -> None: ...
def positional(pod: Any, node: Any, /) -> None: ...
def generator(node: Any) -> Any:
    yield None


async def coroutine(node: Any) -> None: ...
async def async_generator(node: Any) -> Any:
    yield None


def victimless(pod: Any) -> None: ...
def about_nodes(pod: Any, nodes: Any) -> None: ...


@pytest.mark.parametrize(
    ("decorate", "function", "complaint"),
    [
        pytest.param(
            bayplan.filter,
            unknown,
            r"test_hooks.py:\d+ unknown: unknown parameter 'pdo'; did you mean 'pod'\?",
            id="a typo",
        ),
        pytest.param(
            bayplan.score,
            stranger,
            "unknown parameter 'gizmo'; known here: args, cluster, node, nodes, now, pod, prepared",
            id="a name far from any",
        ),
        pytest.param(
            bayplan.filter, both, "both: take either `node` .* or `nodes`", id="both node and nodes"
        ),
        pytest.param(bayplan.prefer, neither, "neither: take either `node`", id="neither node nor nodes"),
        pytest.param(bayplan.filter, star, r"star: name each parameter; \*rest", id="a star"),
        pytest.param(bayplan.filter, stars, r"stars: name each parameter; \*rest", id="two stars"),
        pytest.param(
            bayplan.filter, positional, "are given by name; take away the '/'", id="positional only"
        ),
        pytest.param(bayplan.filter, coroutine, "coroutine: .*may neither be async nor yield", id="async"),
        pytest.param(
            bayplan.filter, generator, "generator: .*may neither be async nor yield", id="a generator"
        ),
        pytest.param(
            bayplan.filter, async_generator, "may neither be async nor yield", id="an async generator"
        ),
        pytest.param(bayplan.protect, victimless, "victimless: take `victim`", id="a guard of nobody"),
        pytest.param(bayplan.victims, victimless, "victimless: take `victims`", id="a price of nobody"),
        pytest.param(
            bayplan.prepare, about_nodes, "unknown parameter 'nodes'", id="a preparation that wants nodes"
        ),
        pytest.param(bayplan.filter, 3, "@bayplan.filter is for functions and methods, not 3", id="a number"),
        pytest.param(bayplan.policy, neither, "@bayplan.policy is for classes", id="a function as a policy"),
    ],
)
def test_a_mistake_is_found_when_the_file_is_loaded(
    decorate: Callable[..., Any], function: Any, complaint: str
) -> None:
    with pytest.raises(PolicyError, match=complaint):
        decorate(function)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param({"range": (1, 1)}, r"range must be \(low, high\)", id="an empty range"),
        pytest.param({"range": (5, 1)}, r"range must be \(low, high\)", id="a range that is turned round"),
        pytest.param({"range": (0, float("inf"))}, r"range must be", id="a range without an end"),
        pytest.param({"range": 5}, r"range must be", id="a range of one number"),
        pytest.param({"range": (0, "9")}, r"range must be", id="a range to a text"),
        pytest.param({"best": "highest"}, 'best must be "high" or "low"', id="a best that does not exist"),
        pytest.param({"weight": 0}, "weight must be a number above 0", id="a weight of nothing"),
        pytest.param({"weight": "2"}, "weight must be a number above 0", id="a weight in quotes"),
        pytest.param({"weight": float("nan")}, "weight must be a number above 0", id="a weight of NaN"),
    ],
)
def test_options_of_a_score_are_checked(options: dict[str, Any], complaint: str) -> None:
    def fast(pod: Any, node: Any) -> float:
        return 0

    line = fast.__code__.co_firstlineno
    with pytest.raises(PolicyError, match=f"^test_hooks.py:{line} fast: score: {complaint}"):
        bayplan.score(**options)(fast)


def test_a_class_without_hooks_is_no_policy() -> None:
    class Empty:
        """Nothing is decorated here."""

    with pytest.raises(PolicyError, match=r"test_hooks.py:\d+ Empty: no method has a hook"):
        bayplan.policy(Empty)


def test_a_class_has_the_hooks_that_it_inherits_first() -> None:
    class Parent:
        @bayplan.filter
        def inherited(self, node: Any) -> None: ...

        @bayplan.score
        def replaced(self, node: Any) -> float:
            return 0

    @bayplan.policy
    class Child(Parent):
        @bayplan.score(weight=2)
        def replaced(self, node: Any) -> float:
            return 1

        @bayplan.filter
        def own(self, node: Any) -> None: ...

    hooks = class_hooks(Child)

    assert list(hooks) == ["inherited", "replaced", "own"]
    assert hooks["replaced"].weight == 2


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param(
            "filtr", "module 'bayplan' has no attribute 'filtr'; did you mean 'filter'?", id="a hook"
        ),
        pytest.param(
            "Lable", "module 'bayplan' has no attribute 'Lable'; did you mean 'Label'?", id="a class"
        ),
        pytest.param(
            "prioritize",
            "module 'bayplan' has no attribute 'prioritize'; did you mean 'score'?",
            id="a word of kube-scheduler",
        ),
        pytest.param("xyz", "module 'bayplan' has no attribute 'xyz'", id="far from any"),
        pytest.param("_filter", "module 'bayplan' has no attribute '_filter'", id="a private name"),
    ],
)
def test_a_name_that_bayplan_does_not_have(name: str, complaint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(bayplan, name)

    assert str(caught.value) == complaint


def test_a_static_method_is_a_hook_too() -> None:
    @bayplan.policy
    class Both:
        @staticmethod
        @bayplan.filter
        def static(node: bayplan.Node) -> str:
            return f"{node.name}, said without self"

        @bayplan.filter
        def plain(self, pod: bayplan.Pod, node: bayplan.Node) -> None: ...

    result = run_policy(Both, make_pod(), make_cluster(["a"]))

    assert result.refused == {"a": "a, said without self"}


def test_a_function_is_one_hook() -> None:
    with pytest.raises(PolicyError, match=r"both: a function is one hook, and this is a `prefer` already"):

        @bayplan.filter
        @bayplan.prefer
        def both(pod: bayplan.Pod, node: bayplan.Node) -> None: ...
