"""Threads that nobody waits for: calls take turns, and one that hangs holds up neither us nor the end."""

import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

from bayplan.client import daemon_threads
from bayplan.client.daemon_threads import DaemonThreads
from tests.controlplane.waiting import wait_until


def _hang(threads: DaemonThreads, times: int) -> threading.Event:
    """So many calls that last until the event is set; they have begun."""
    release, begun = threading.Event(), threading.Semaphore(0)

    def call() -> None:
        begun.release()
        release.wait(60)

    for _ in range(times):
        threads.submit(call)
        assert begun.acquire(timeout=10)
    return release


def test_a_call_gives_its_result_or_what_it_raised() -> None:
    threads = DaemonThreads("test", limit=2)

    assert threads.submit(divmod, 7, 2).result(10) == (3, 1)
    assert threads.submit(sorted, [1, 2], reverse=True).result(10) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(10)
    with pytest.raises(SystemExit):
        threads.submit(sys.exit, 1).result(10)
    assert threads.submit(str, 1).result(10) == "1"


def test_no_more_calls_than_the_limit_are_under_way_and_the_next_one_has_its_turn() -> None:
    threads = DaemonThreads("test", limit=2)
    release = _hang(threads, 2)
    assert threads.full

    waiting = threads.submit(str, 1)
    assert not waiting.done()
    release.set()

    assert waiting.result(10) == "1"
    wait_until(lambda: not threads.full, 10, what="a free thread")


def test_a_thread_that_is_free_is_used_again() -> None:
    threads = DaemonThreads("test", limit=8)
    names = set()
    for _ in range(5):
        names.add(threads.submit(threading.get_ident).result(10))
        wait_until(lambda: threads._idle == 1, 10, what="the thread to be free")

    assert len(names) == 1


def test_a_call_that_is_given_up_before_its_turn_is_not_made_and_not_kept() -> None:
    threads = DaemonThreads("test", limit=1)
    release = _hang(threads, 1)
    made: list[int] = []
    for number in range(5):
        assert threads.submit(made.append, number).cancel()
    last = threads.submit(made.append, 9)

    assert len(threads._waiting) == 1
    release.set()
    last.result(10)
    assert made == [9]


def test_a_call_that_is_given_up_between_others_is_not_made() -> None:
    threads = DaemonThreads("test", limit=1)
    release = _hang(threads, 1)
    first, given_up, last = (threads.submit(str, number) for number in range(3))
    given_up.cancel()
    release.set()

    assert (first.result(10), last.result(10)) == ("0", "2")
    with pytest.raises(CancelledError):
        given_up.result(10)


def test_an_idle_thread_ends_after_a_while_and_another_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_threads, "_IDLE_SECONDS", 0.01)
    threads = DaemonThreads("test", limit=1)
    threads.submit(str, 1).result(10)
    wait_until(lambda: threads._there == 0, 10, what="the end of the thread")

    assert threads.submit(str, 2).result(10) == "2"


def test_whoever_was_told_to_end_takes_no_more_calls_and_waits_for_none() -> None:
    threads = DaemonThreads("test", limit=1)
    release = _hang(threads, 1)

    threads.shutdown(wait=True)

    with pytest.raises(RuntimeError, match="no new calls"):
        threads.submit(str, 1)
    release.set()
    wait_until(lambda: threads._there == 0, 10, what="the end of the thread")


def test_where_the_system_gives_no_thread_the_call_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    threads = DaemonThreads("test", limit=2)
    release = _hang(threads, 1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    later = threads.submit(str, 1)
    release.set()

    assert later.result(10) == "1", "the thread that is there takes it"
    with pytest.raises(RuntimeError, match="new thread"):
        DaemonThreads("test", limit=1).submit(str, 1)


def test_the_program_ends_while_a_call_hangs() -> None:
    code = (
        "import time; from bayplan.client.daemon_threads import DaemonThreads;"
        "DaemonThreads('test', limit=1).submit(time.sleep, 1000)"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)

    assert ended.returncode == 0
