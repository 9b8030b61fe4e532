"""A backlog keeps nobody waiting: it is bounded, it goes on after an error, and it ends."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bayplan.recording import backlog as module
from bayplan.recording.backlog import Backlog
from tests.controlplane.waiting import wait_until


class Slow:
    """Somebody who does not get on before he may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.done: list[str] = []

    def __call__(self, what: str) -> None:
        assert self.may.wait(30)
        self.done.append(what)


@contextmanager
def busy(*, most: int = 100, most_bytes: int = 100) -> Iterator[tuple[Backlog[str], Slow]]:
    """A backlog whose thread is at work on its first thing already."""
    slow = Slow()
    backlog = Backlog[str](slow, name="slow", most=most, most_bytes=most_bytes)
    assert backlog.offer("first")
    wait_until(backlog.empty, 5, what="the first is at work")
    try:
        yield backlog, slow
    finally:
        slow.may.set()
        backlog.close(5)


def test_what_finds_no_room_is_refused_and_the_rest_is_done_in_order() -> None:
    with busy(most=2) as (backlog, slow):
        assert [backlog.offer(each) for each in "abc"] == [True, True, False]

    assert slow.done == ["first", "a", "b"]


def test_heavy_things_are_refused_sooner_and_one_always_fits() -> None:
    with busy(most_bytes=10) as (backlog, _):
        assert backlog.offer("huge", 1000)
        assert not backlog.offer("small", 1)

    assert not backlog.offer("late")


def test_an_error_costs_one_thing_alone(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def divide(each: int) -> None:
        if each < 0:
            raise SystemExit(each)
        done.append(10 // each)

    backlog = Backlog[int](divide, name="divides", most=9, most_bytes=9)

    for each in (1, 0, -1, 2):
        backlog.offer(each)
    backlog.close(5)

    assert done == [10, 5]
    assert "SystemExit: -1" in caplog.text
    assert "divides: this is a bug in Bayplan" in caplog.text
    caplog.clear()


def test_closing_does_not_wait_for_ever() -> None:
    with busy() as (backlog, slow):
        start = time.monotonic()
        backlog.close(0.05)
        assert time.monotonic() - start < 5
        assert slow.done == []


def test_few_things_wait_for_a_quiet_moment_and_many_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 60.0)
    done, looks = list[int](), list[int]()

    def quiet() -> bool:
        looks.append(len(done))
        return False

    backlog = Backlog[int](done.append, name="quiet", most=30, most_bytes=9, quiet=quiet)
    backlog.offer(0)
    wait_until(lambda: len(looks) > 5, 5, what="it has looked several times")
    assert set(looks[:5]) == {0}
    for number in range(1, 10):
        backlog.offer(number)
    wait_until(lambda: len(done) >= 6, 5, what="only so many wait as are few")
    backlog.close(5)

    assert done == list(range(10))


def test_nothing_waits_for_a_quiet_moment_for_ever() -> None:
    done: list[int] = []
    backlog = Backlog[int](done.append, name="loud", most=30, most_bytes=9, quiet=lambda: False)

    backlog.offer(0)
    wait_until(lambda: done == [0], 5, what="patience ends")
    backlog.close(5)


def test_what_comes_last_is_done_after_the_rest() -> None:
    done: list[str] = []
    backlog = Backlog[str](
        done.append,
        name="ends",
        most=9,
        most_bytes=9,
        at_end=lambda: done.append("end"),
    )

    backlog.offer("a")
    backlog.offer("b")
    backlog.close(5)

    assert done == ["a", "b", "end"]
