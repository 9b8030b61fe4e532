"""A function that cannot return anything is told from one that may."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bayplan.authoring.returns import returns_something

Anything = Callable[..., Any]


def forgot(nodes):  # type: ignore[no-untyped-def]
    nodes["cpu.free"]


def empty(nodes): ...  # type: ignore[no-untyped-def]


def leaves_early(nodes):  # type: ignore[no-untyped-def]
    if nodes:
        return
    len(nodes)


def returns(nodes):  # type: ignore[no-untyped-def]
    return nodes["cpu.free"]


def constant(nodes):  # type: ignore[no-untyped-def]
    return 5


def sometimes(nodes):  # type: ignore[no-untyped-def]
    if not nodes:
        return None
    return len(nodes)


def in_a_loop(nodes):  # type: ignore[no-untyped-def]
    for node in nodes:
        if node:
            return node
    return None


def either(nodes):  # type: ignore[no-untyped-def]
    return 1 if nodes else None


def whatever_happens(nodes):  # type: ignore[no-untyped-def]
    try:
        return len(nodes)
    finally:
        print(nodes)


@pytest.mark.parametrize("function", [forgot, empty, leaves_early])
def test_nothing_ever_comes_out(function: Anything) -> None:
    assert not returns_something(function)


@pytest.mark.parametrize("function", [returns, constant, sometimes, in_a_loop, either, whatever_happens])
def test_something_may_come_out(function: Anything) -> None:
    assert returns_something(function)


@pytest.mark.parametrize("function", [math.floor, partial(empty, 1)])
def test_of_what_is_not_written_in_python_nobody_can_tell(function: Anything) -> None:
    assert returns_something(function)
