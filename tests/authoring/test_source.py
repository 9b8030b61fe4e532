"""``@bayplan.source``: what it accepts, what it refuses, and what becomes of an answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bayplan
from bayplan.authoring.load import load
from bayplan.config.sources import declare
from bayplan.config.v1 import BayplanConfiguration
from bayplan.state.sources.asker import Asked, Asker
from bayplan.state.sources.http import SourceHttp
from bayplan.state.sources.poller import Polled, Poller
from bayplan.testing import make_pod

CONFIG = BayplanConfiguration(api_version="bayplan.dev/v1", kind="BayplanConfiguration")


def source_of(folder: Path, code: str, **args: Any) -> Polled | Asked:
    """The one source of a file with this code."""
    (folder / "policy.py").write_text(f"import bayplan\n\n{code}")
    policies = [definition.make(args=args) for definition in load(str(folder / "policy.py"))]
    (found,) = declare(CONFIG, policies, folder)
    return found.source


async def polled(source: Polled | Asked) -> Poller:
    assert isinstance(source, Polled)
    poller = Poller(source, SourceHttp())
    await poller.ask()
    return poller


async def test_a_plain_decorator_asks_every_half_minute(tmp_path: Path) -> None:
    source = source_of(tmp_path, "@bayplan.source\nasync def price():\n    return {'a': 1}\n")

    poller = await polled(source)

    assert (poller.source.name, poller.source.every_seconds, poller.source.max_age_seconds) == (
        "price",
        30,
        300,
    )
    assert poller.reading.fields == {"": {"a": 1}}


async def test_arguments_of_the_policy_reach_its_source(tmp_path: Path) -> None:
    code = """
class PriceArgs(bayplan.Args):
    base: float = 1.0

@bayplan.source
async def price(args: PriceArgs):
    return {"a": args.base}

@bayplan.score
def cheap(pod, nodes, args: PriceArgs):
    return nodes[bayplan.Source("price")]
"""
    poller = await polled(source_of(tmp_path, code, base=7))

    assert poller.reading.fields == {"": {"a": 7}}


async def test_a_source_about_a_pod_gets_the_pod_and_the_names(tmp_path: Path) -> None:
    code = """
@bayplan.source(per="pod", timeout="100ms", keep="1s", fallback={"score": 5})
async def svc(pod, nodes, http):
    return {name: {"score": len(pod.name)} for name in nodes}
"""
    source = source_of(tmp_path, code)
    assert isinstance(source, Asked)
    assert (source.timeout_seconds, source.keep_seconds, source.fallback) == (0.1, 1, {"score": 5})

    reading = await Asker(source, SourceHttp()).about(make_pod("four"), ["a", "b"])

    assert reading.fields == {"score": {"a": 4, "b": 4}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("return [1]", "policy.py:4 price: want a dict by node name, got list", id="a list"),
        pytest.param("return {'a': [1]}", "a: want a number or a text, got list", id="a list for a node"),
        pytest.param("raise RuntimeError('down')", "RuntimeError: down", id="an exception"),
    ],
)
async def test_what_is_wrong_with_an_answer_is_said(tmp_path: Path, body: str, said: str) -> None:
    poller = await polled(source_of(tmp_path, f"\n@bayplan.source\nasync def price():\n    {body}\n"))

    assert said in poller.error


def plain() -> dict[str, float]:
    return {}


async def nothing() -> dict[str, float]:
    return {}


async def mistyped(htp: object) -> dict[str, float]:
    return {}


async def asks_for_a_pod(pod: object) -> dict[str, float]:
    return {}


async def method(self: object) -> dict[str, float]:
    return {}


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        pytest.param(plain, {}, "a source is `async def`", id="not async"),
        pytest.param(nothing, {"per": "node"}, 'per must be "cluster" or "pod"', id="per what"),
        pytest.param(nothing, {"every": "30"}, "every: ", id="a duration without a unit"),
        pytest.param(
            nothing, {"every": "10m"}, "max_age, 5m, is less than every, 10m", id="asked too seldom"
        ),
        pytest.param(mistyped, {}, "unknown parameter 'htp'; did you mean 'http'", id="a typo"),
        pytest.param(asks_for_a_pod, {}, "unknown parameter 'pod'", id="a pod, where nobody asks about one"),
        pytest.param(method, {}, "a source is a function of the file, not a method", id="a method"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(
    function: Callable[..., Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(bayplan.PolicyError, match=said) as caught:
        bayplan.source(**options)(function)

    assert "test_source.py:" in str(caught.value)


async def test_a_decorated_function_can_still_be_called() -> None:
    assert await bayplan.source(nothing)() == {}
