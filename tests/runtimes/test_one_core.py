"""Threads on the core of the one that waits for them: only those that get work, and only while it waits."""

import os
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from bayplan.engine.guard import Attempt
from bayplan.runtimes.one_core import OneCore
from bayplan.runtimes.workers import Workers

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one core, or no Linux"
)
EVERYWHERE = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


@pytest.fixture
def asleep() -> Iterator[int]:
    """A thread that waits, by the kernel's number."""
    end, ready = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    assert ready.wait(10)
    yield cast("int", thread.native_id)
    end.set()
    thread.join()


def test_a_gathered_thread_is_on_one_core_until_it_is_spread(asleep: int) -> None:
    core = OneCore()

    core.gather(asleep)
    pinned = os.sched_getaffinity(asleep)
    core.spread()

    assert len(pinned) == 1
    assert pinned < EVERYWHERE
    assert os.sched_getaffinity(asleep) == EVERYWHERE


def test_a_thread_that_is_there_already_is_not_moved_again(
    asleep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = OneCore()
    monkeypatch.setattr(core, "_where", lambda: 0)
    moved: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: moved.append(cores))

    core.gather(asleep)
    core.gather(asleep)
    core.spread()
    core.spread()

    assert moved == [{0}, EVERYWHERE]


def test_a_thread_that_has_ended_or_not_begun_is_no_problem(asleep: int) -> None:
    core, thread = OneCore(), threading.Thread(target=bool)
    thread.start()
    thread.join()

    core.gather(None)
    core.gather(thread.native_id)
    core.gather(asleep)

    assert len(os.sched_getaffinity(asleep)) == 1
    core.spread()
    assert os.sched_getaffinity(asleep) == EVERYWHERE


def test_where_it_is_not_allowed_threads_stay_where_they_are(
    asleep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = OneCore()

    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    with monkeypatch.context() as forbidden:
        forbidden.setattr(os, "sched_setaffinity", refuse)
        core.gather(asleep)
    core.gather(asleep)

    assert os.sched_getaffinity(asleep) == EVERYWHERE


async def test_of_four_policy_threads_only_the_one_that_works_is_moved() -> None:
    others = set(threading.enumerate())
    workers = Workers(policy_seconds=5, request_seconds=10, stuck_limit=3)
    threads = {cast("int", thread.native_id) for thread in set(threading.enumerate()) - others}

    def core_of(_: Attempt) -> tuple[int, set[int]]:
        return threading.get_native_id(), os.sched_getaffinity(0)

    try:
        told = [await workers.run(core_of, patience_seconds=5) for _ in range(3)]
        pinned = {thread for thread in threads if len(os.sched_getaffinity(thread)) == 1}
        await workers.run(core_of)
        afterwards = [os.sched_getaffinity(thread) for thread in threads]
    finally:
        workers.stop()

    assert len(threads) == 4
    assert [len(cores) for _, cores in told] == [1, 1, 1]
    assert pinned == {thread for thread, _ in told}
    assert len(pinned) < 4
    assert all(cores == EVERYWHERE for cores in afterwards)
