"""Decisions are written down after their answers, many at a time, and nobody who reads sees that."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bayplan.engine.entry import Entry
from bayplan.runtimes.extender.later import Later
from tests.runtimes.extender.caller import Caller, ask, make_pod, metric, names_request
from tests.runtimes.extender.obedient import serving

NODES = ["a", "b"]


def adding(done: list[int], numbers: range) -> list[Callable[[], None]]:
    return [partial(done.append, number) for number in numbers]


async def test_it_is_done_after_a_moment_and_not_at_once() -> None:
    later, done = Later(), asyncio.Event()

    later.put(done.set)

    assert not done.is_set()
    async with asyncio.timeout(10):
        await done.wait()


async def test_much_of_it_does_not_wait_and_keeps_its_order() -> None:
    later, done = Later(), list[int]()

    for work in adding(done, range(256)):
        later.put(work)
    assert done == []
    while len(done) < 256:
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) > before

    assert done == list(range(256))


@pytest.mark.parametrize("nodes", [[5000], [1500, 1500, 1500]], ids=["at once", "together"])
async def test_decisions_over_many_nodes_are_much_of_it(nodes: list[int]) -> None:
    later, done = Later(), list[int]()

    for count in nodes:
        assert done == []
        later.put(partial(done.append, count), nodes=count)
        await asyncio.sleep(0)

    assert done == nodes


async def test_much_is_done_in_slices_and_others_have_their_turn_in_between() -> None:
    later, done = Later(), list[str]()

    def slow(number: int) -> None:
        time.sleep(0.001)
        done.append(f"work {number}")

    for number in range(256):
        later.put(partial(slow, number))
        if number == 250:
            asyncio.get_running_loop().call_soon(done.append, "before")
    for _ in range(3):
        await asyncio.sleep(0)
        done.append("somebody else")
    assert done == ["before", "work 0", "somebody else", "work 1", "somebody else", "work 2", "somebody else"]

    later.catch_up()
    assert len(done) == 256 + 4
    await asyncio.sleep(0)
    assert len(done) == 256 + 4, "what was done is not done again"


async def test_what_nobody_finds_time_for_does_not_pile_up() -> None:
    later, done = Later(), list[int]()
    waited = 0

    for number, work in enumerate(adding(done, range(5000))):
        later.put(work)
        waited = max(waited, number + 1 - len(done))

    assert waited <= 1024
    later.catch_up()
    assert done == list(range(5000))


async def test_a_reader_in_another_thread_has_it_done_first() -> None:
    later, done, threads = Later(), list[int](), list[int]()
    for work in adding(done, range(3)):
        later.put(work)
    later.put(lambda: threads.append(threading.get_ident()))

    await asyncio.to_thread(later.catch_up)

    assert done == [0, 1, 2]
    assert threads != [threading.get_ident()]


async def test_what_fails_is_said_and_the_rest_is_done(caplog: pytest.LogCaptureFixture) -> None:
    later, done = Later(), list[int]()
    later.put(lambda: done.append(1 // 0))
    later.put(partial(done.append, 1))

    with caplog.at_level(logging.ERROR):
        later.catch_up()

    assert done == [1]
    assert "a decision was not written down" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_whoever_is_told_of_a_decision_may_read_the_journal(tmp_path: Path) -> None:
    seen: list[int] = []
    async with serving(tmp_path, view=NODES) as server:

        def look(entry: Entry) -> None:
            seen.append(len(server.journal.of_pod(entry.pod.key)))

        server.journal.on_entry.append(look)
        for _ in range(3):
            await ask(server, "filter", names_request(NODES, pod=make_pod("web")))
        server.journal.entries()

    # Told of each, whether or not it was the reader himself who had the next ones written.
    assert len(seen) == 3
    assert max(seen) == 3


async def test_what_was_answered_is_in_the_journal_and_in_the_metrics(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server, await Caller.connect(server) as caller:
        for count in range(1, 6):
            await caller.post("filter", names_request(NODES, pod=make_pod("web")))

            assert len(server.journal.of_pod("default/web")) == count
            assert await metric(server, "bayplan_requests_total", verb="filter", result="ok") == count


async def test_a_bind_comes_after_the_filter_before_it(tmp_path: Path) -> None:
    pod = make_pod("web")
    args = {"PodName": "web", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "a"}
    async with serving(tmp_path, view=NODES) as server, await Caller.connect(server) as caller:
        await caller.post("filter", names_request(NODES, pod=pod))
        await caller.post("bind", args)

        assert [entry.verb for entry in server.journal.of_pod("default/web")] == ["bind", "filter"]


async def test_a_server_that_ends_has_written_everything(tmp_path: Path) -> None:
    told: list[str] = []
    async with serving(tmp_path, view=NODES) as server:
        server.journal.on_entry.append(lambda entry: told.append(entry.pod.name))
        for name in ("one", "two", "three"):
            await ask(server, "filter", names_request(NODES, pod=make_pod(name)))

    assert told == ["one", "two", "three"]


async def test_a_policy_that_fails_is_in_the_log_with_its_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = make_pod("web", score=json.dumps({"a": "no number"}))
    async with serving(tmp_path, view=NODES) as server:
        await ask(server, "prioritize", names_request(NODES, pod=broken))

        assert "could not convert string to float: 'no number'" in caplog.text
