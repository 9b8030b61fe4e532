"""Policies run off the event loop: one that loops, blocks or dies costs neither probes nor others."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bayplan.engine.guard import Attempt
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.workers import RequestOverrun, Workers, _Job, _JobQueue, _Worker
from tests.runtimes.extender.caller import (
    ask,
    look,
    make_node,
    make_pod,
    metric,
    names_request,
    nodes_request,
)
from tests.runtimes.extender.obedient import serving
from tests.runtimes.extender.served import served

NODES = ["node-0", "node-1", "node-2"]
LOOP = make_pod("looper", do="loop")
BLOCK = make_pod("blocker", do="sleep", seconds="4")
FINE = make_pod("fine")


@contextlib.asynccontextmanager
async def hasty(folder: Path, *, failure_policy: str = "Fail", **limits: Any) -> AsyncIterator[Server]:
    """A server that gives policies little time."""
    limits = {"policyTimeout": "300ms", "requestTimeout": "3s", **limits}
    entry = {"failurePolicy": failure_policy}
    async with serving(folder, view=NODES, entry=entry, limits=limits) as server:
        yield server


overrunning = pytest.mark.parametrize(
    "pod", [pytest.param(LOOP, id="loops"), pytest.param(BLOCK, id="blocks")]
)


@pytest.mark.alone
@overrunning
def test_probes_are_answered_within_a_second_while_a_policy_overruns(
    tmp_path: Path, pod: dict[str, Any]
) -> None:
    limits = {"policyTimeout": "1500ms", "requestTimeout": "3s", "stuckThreads": 20}
    asks = nodes_request([make_node(name) for name in NODES], pod=pod)
    # A process of its own, as a kubelet is: a prober in the server's process would wait for its policies too.
    with served(tmp_path, limits=limits) as server, ThreadPoolExecutor(4) as callers:
        asked = [callers.submit(server.ask, "filter", asks) for _ in range(4)]
        statuses = []
        while not asked[0].done():
            # `None` for one that took longer than a second.
            statuses += [server.probe(path) for path in ("/livez", "/readyz", "/metrics")]
        answers = [one.result() for one in asked]

    assert all("still running after" in answer["Error"] for answer in answers)
    assert len(statuses) >= 3
    assert set(statuses) == {200}


@overrunning
@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
async def test_an_overrun_is_answered_for_by_the_failure_policy(
    tmp_path: Path, pod: dict[str, Any], failure_policy: str
) -> None:
    async with hasty(tmp_path, failure_policy=failure_policy) as server:
        start = time.monotonic()
        answer = await ask(server, "filter", names_request(NODES, pod=pod))
        took = time.monotonic() - start
        scores = await ask(server, "prioritize", names_request(NODES, pod=pod))
        healthz = (await look(server, "/healthz?verbose")).body.decode()
        healthy = await metric(server, "bayplan_policy_healthy", policy="obedient")
        failures = await metric(server, "bayplan_policy_failures_total", policy="obedient", kind="overrun")

    if failure_policy == "Fail":
        assert answer.json["NodeNames"] is None
        assert "policy 'obedient' failed: obedient.py:" in answer.json["Error"]
    else:
        assert (answer.json["NodeNames"], answer.json["Error"]) == (NODES, "")
    assert [line["Score"] for line in scores.json] == [0, 0, 0]
    assert took < 2
    assert "policy obedient: unhealthy: overran 2 times" in healthz
    assert "healthz check passed" in healthz
    assert (healthy, failures) == (0, 2)


@pytest.mark.alone
async def test_a_shadow_that_overran_is_left_out_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def seconds() -> float:
        start = time.monotonic()
        answer = await ask(server, "filter", names_request(NODES, pod=LOOP))
        assert (answer.json["NodeNames"], answer.json["Error"]) == (NODES, "")
        return time.monotonic() - start

    limits = {"policyTimeout": "500ms", "requestTimeout": "3s"}
    async with serving(tmp_path, view=NODES, entry={"shadow": True}, limits=limits) as server:
        first, *others = [await seconds() for _ in range(4)]
        overruns = server.workers.overruns()
        monkeypatch.setattr("bayplan.runtimes.workers._UNHEALTHY_SECONDS", 0.0)
        later = await seconds()

    assert first >= 0.5
    assert max(others) < 0.4
    assert overruns == {"obedient": 1}
    assert later >= 0.5


async def test_a_policy_that_keeps_its_time_is_healthy(tmp_path: Path) -> None:
    async with hasty(tmp_path) as server:
        await ask(server, "filter", names_request(NODES))
        healthz = (await look(server, "/healthz?verbose")).body.decode()

        assert await metric(server, "bayplan_policy_healthy", policy="obedient") == 1
    assert "obedient" not in healthz


async def test_stuck_threads_are_replaced_so_that_others_are_served(tmp_path: Path) -> None:
    async with hasty(tmp_path, stuckThreads=20) as server:
        blocked = [ask(server, "filter", names_request(NODES, pod=BLOCK)) for _ in range(6)]
        for answer in await asyncio.gather(*blocked):
            assert "still running after" in answer.json["Error"]

        start = time.monotonic()
        for _ in range(10):
            answer = await ask(server, "filter", names_request(NODES, pod=FINE))
            assert answer.json["NodeNames"] == NODES

        assert time.monotonic() - start < 2
        assert (await look(server, "/livez")).status == 200
        assert await metric(server, "bayplan_policy_healthy", policy="other") == 1


@pytest.mark.alone
async def test_liveness_fails_after_several_stuck_threads_and_names_the_policy(tmp_path: Path) -> None:
    async with hasty(tmp_path, stuckThreads=2) as server:
        blocked = [ask(server, "filter", names_request(NODES, pod=BLOCK)) for _ in range(2)]
        await asyncio.gather(*blocked)

        livez = await look(server, "/livez")
        start = time.monotonic()
        given_up = await ask(server, "filter", names_request(NODES, pod=BLOCK))
        took = time.monotonic() - start

    assert livez.status == 503
    assert "2 policy threads are stuck, in obedient.py" in livez.body.decode()
    # It is not called again: that would only lose another thread.
    assert "still running after" in given_up.json["Error"]
    assert took < 0.3


async def test_a_loop_in_python_is_ended_and_its_thread_not_lost(tmp_path: Path) -> None:
    async with hasty(tmp_path, stuckThreads=2) as server:
        for _ in range(4):
            await ask(server, "filter", names_request(NODES, pod=LOOP))

        deadline = time.monotonic() + 5
        while server.workers.stuck():
            assert time.monotonic() < deadline, "the loops are ended"
            await asyncio.sleep(0.01)
        assert (await look(server, "/livez")).status == 200


@pytest.mark.alone
async def test_a_request_that_waited_too_long_for_a_thread_takes_none_later(tmp_path: Path) -> None:
    """More blocked requests than threads: those given up in the queue must not block threads unwatched."""
    pod = make_pod("short", do="sleep", seconds="0.6")
    async with hasty(tmp_path, policyTimeout="2s", requestTimeout="700ms", stuckThreads=50) as server:
        answers = await asyncio.gather(
            *(ask(server, "filter", names_request(NODES, pod=pod)) for _ in range(16))
        )
        told = [answer for answer in answers if answer.json["Error"]]
        assert told
        assert all("took longer than" in answer.json["Error"] for answer in told)

        start = time.monotonic()
        answer = await ask(server, "filter", names_request(NODES, pod=FINE))

        assert answer.json["NodeNames"] == NODES
        assert time.monotonic() - start < 1


async def test_a_flood_of_blocking_requests_leaves_threads_for_others(tmp_path: Path) -> None:
    async with hasty(tmp_path, policyTimeout="300ms", requestTimeout="800ms", stuckThreads=100) as server:
        flood = [ask(server, "filter", names_request(NODES, pod=BLOCK)) for _ in range(40)]
        answers = await asyncio.gather(*flood)
        assert all(answer.json["Error"] for answer in answers)

        answer = await ask(server, "filter", names_request(NODES, pod=FINE))

    assert answer.json["NodeNames"] == NODES


async def test_an_overrun_in_preempt_drops_the_candidates(tmp_path: Path) -> None:
    victims = {"node-0": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}}
    async with hasty(tmp_path) as server:
        answer = await ask(server, "preempt", {"Pod": LOOP, "NodeNameToMetaVictims": victims})

    assert answer.json == {"NodeNameToMetaVictims": {}}


async def test_work_gets_a_context_of_its_own_and_its_error_comes_back() -> None:
    workers = Workers(size=1, policy_seconds=1, request_seconds=1, stuck_limit=4)
    try:
        assert await workers.run(lambda _: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda _: 1 // 0)
        with pytest.raises(RuntimeError, match="GeneratorExit got past the hook"):
            await workers.run(_leave)
        assert await workers.run(lambda _: 8) == 8
    finally:
        workers.stop()


async def test_an_error_that_cannot_be_printed_costs_no_thread() -> None:
    class Unprintable(KeyboardInterrupt):
        def __str__(self) -> str:
            raise SystemExit(3)

    def stop(_: Attempt) -> None:
        raise Unprintable

    workers = Workers(size=1, policy_seconds=30, request_seconds=30, stuck_limit=4)
    try:
        with pytest.raises(RuntimeError, match="Unprintable got past the hook"):
            await workers.run(stop)
        assert await workers.run(lambda _: 8) == 8
    finally:
        workers.stop()


async def test_work_between_hooks_has_the_deadline_of_the_request() -> None:
    workers = Workers(size=1, policy_seconds=5, request_seconds=0.2, stuck_limit=4)
    try:
        with pytest.raises(RequestOverrun, match=r"took longer than 0\.2 s"):
            await workers.run(lambda _: _spin(5.0))
        assert await workers.run(lambda _: 8) == 8
        assert workers.stuck() == []
    finally:
        workers.stop()


async def test_what_is_still_in_the_queue_at_its_deadline_is_never_begun() -> None:
    """Else each thread that replaces a blocked one would be lost to the next request in the queue."""
    workers = Workers(size=2, policy_seconds=5, request_seconds=0.3, stuck_limit=4)
    begun: list[str] = []
    try:
        runs = [workers.run(lambda _: _block(begun)) for _ in range(30)]
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
    finally:
        workers.stop()

    assert all(isinstance(outcome, RequestOverrun) for outcome in outcomes)
    assert len(begun) < 15


def _block(begun: list[str]) -> None:
    begun.append(threading.current_thread().name)
    time.sleep(1)


def _leave(attempt: object) -> None:
    raise GeneratorExit


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_work_that_was_given_to_an_idle_thread_is_done_though_no_more_is_taken() -> None:
    """The thread has just found nothing to do when it is given a job, and the threads are told to end."""
    job: _Job[object] = _Job(lambda _: "done", Attempt(), deadline=time.monotonic() + 60)

    class Busy(_JobQueue):
        def next_for(self, worker: _Worker) -> _Job[object] | None:
            found = super().next_for(worker)
            if self._idle:
                self.put(job)
                self.close()
            return found

    thread = _Worker(Busy())
    thread.start()
    await asyncio.to_thread(thread.join, 10)

    assert not thread.is_alive()
    assert job.ended
    assert job.outcome() == "done"
