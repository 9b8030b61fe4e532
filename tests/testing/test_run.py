"""A policy is run as the server would run it."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import bayplan
from bayplan import Args, PolicyError, Reason
from bayplan.authoring.load import load
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

CLUSTER = make_cluster([make_node("small", cpu=1), make_node("middle", cpu=2), make_node("large", cpu=4)])
POD = make_pod(cpu=2)


@bayplan.filter
def fits(pod: Any, nodes: Any) -> Any:
    free = nodes["cpu.free"]
    return Reason("too little CPU", detail="{free}m free").where(free < pod.cpu_milli, free=free)


@bayplan.score(range=(0, 4000))
def by_size(node: Any) -> Any:
    return node["cpu.allocatable"]


@bayplan.score
def fails(node: Any) -> Any:
    raise OSError("no table")


class SizeArgs(Args):
    """Settings of `Size`."""

    least_milli: int = 2000


@bayplan.policy
class Size:
    """Refuse nodes below a size."""

    def __init__(self, args: SizeArgs) -> None:
        self._least = args.least_milli

    @bayplan.filter
    def big(self, node: Any) -> Any:
        return node.allocatable["cpu"] >= self._least or "too small"


def test_a_function_is_a_policy() -> None:
    result = run_policy(fits, POD, CLUSTER)

    assert result.passed == ["middle", "large"]
    assert result.refused == {"small": "too little CPU"}
    assert result.details == {"small": "1000m free"}
    assert result.errors == []


def test_scores_are_of_the_nodes_that_passed() -> None:
    result = run_policy([fits, by_size], POD, CLUSTER)

    assert result.scores == {"middle": 50.0, "large": 100.0}
    assert result.best == "large"


def test_nothing_passed_has_no_best() -> None:
    result = run_policy(fits, make_pod(cpu=100), CLUSTER)

    assert (result.passed, result.scores, result.best) == ([], {}, None)


def test_a_class_is_a_policy_and_takes_arguments() -> None:
    assert run_policy(Size, POD, CLUSTER).refused == {"small": "too small"}
    assert run_policy(Size, POD, CLUSTER, args={"leastMilli": 4000}).passed == ["large"]


def test_a_module_is_every_policy_in_it() -> None:
    result = run_policy(sys.modules[__name__], POD, CLUSTER, allow_errors=True)

    assert result.refused == {"small": "too little CPU"}
    assert result.scores == {"middle": 50.0, "large": 100.0}
    assert len(result.errors) == 1


@pytest.mark.parametrize("form", [pytest.param(str, id="a text"), pytest.param(Path, id="a path")])
def test_a_file_is_a_policy(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "policy.py"
    path.write_text("import bayplan\n\n@bayplan.filter\ndef rule(node):\n    return node.name == 'large'\n")

    assert run_policy(form(path), POD, CLUSTER).passed == ["large"]


def test_a_policy_that_is_ready_is_run_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "policy.py"
    path.write_text("import bayplan\n\n@bayplan.filter\ndef rule(node):\n    return node.name == 'large'\n")
    (definition,) = load(str(path))

    assert run_policy(definition.make(name="ready"), POD, CLUSTER).passed == ["large"]


def test_hooks_that_fail_are_told_with_their_place() -> None:
    with pytest.raises(PolicyError, match="fails: OSError: no table"):
        run_policy([by_size, fails], POD, CLUSTER)

    result = run_policy([by_size, fails], POD, CLUSTER, allow_errors=True)

    (error,) = result.errors
    assert error.startswith("test_run.py:")
    assert error.endswith("fails: OSError: no table (on node small)")
    assert result.best == "large"


def test_the_moment_is_given() -> None:
    @bayplan.filter
    def at_night(node: Any, now: Any) -> Any:
        return now.hour < 6 or "only at night"

    day, night = datetime(2026, 11, 15, 12, tzinfo=UTC), datetime(2026, 11, 15, 3, tzinfo=UTC)

    assert run_policy(at_night, POD, CLUSTER, now=day).passed == []
    assert run_policy(at_night, POD, CLUSTER, now=night).passed == ["small", "middle", "large"]


def test_the_decisions_behind_a_result_can_be_read() -> None:
    result = run_policy([fits, by_size], POD, CLUSTER)

    assert [outcome.hook.name for outcome in result.filtered.outcomes] == ["fits"]
    assert [outcome.hook.name for outcome in result.scored.outcomes] == ["by_size"]
    assert list(result.scored.nodes.names) == ["middle", "large"]


def test_nodes_alone_are_no_cluster() -> None:
    with pytest.raises(TypeError, match=r"wants a cluster, as of make_cluster"):
        run_policy(fits, POD, [make_node("a")])  # type: ignore[arg-type]


def test_a_name_is_no_pod() -> None:
    with pytest.raises(TypeError, match=r"wants a pod, as of make_pod\(...\), not str"):
        run_policy(fits, "web-1", make_cluster(["a"]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "note"),
    [
        pytest.param(
            {"price_label": "x"},
            "args of Cost: price_label: unknown key; did you mean 'priceLabel'?",
            id="the spelling of Python",
        ),
        pytest.param(
            {"budgets": [{"namespaces": ["a"], "perHour": "2"}]},
            "args of Cost: budgets[0].perHour: want a number, got text; leave the quotes out",
            id="a number in quotes",
        ),
    ],
)
def test_args_that_do_not_fit_say_what_was_meant(args: dict[str, Any], note: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        run_policy("Cost", POD, make_cluster(["a"]), args=args)

    assert caught.value.__notes__ == [note]


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(len, id="a function without a decorator"),
        pytest.param(7, id="a number"),
        pytest.param(None, id="nothing"),
    ],
)
def test_what_is_no_policy_is_an_error(thing: Any) -> None:
    with pytest.raises(
        TypeError, match="is no policy: want a decorated function, a class, a module or a file"
    ):
        run_policy(thing, POD, CLUSTER)
