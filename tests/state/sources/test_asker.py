"""A source that is asked about a pod: a deadline, a memory, and a way out."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from bayplan.kube.pod import Pod
from bayplan.snapshot.sources import Source
from bayplan.state.sources.asker import Asked, Asker
from bayplan.state.sources.book import Declared, Sources
from bayplan.state.sources.http import SourceError, SourceHttp
from bayplan.testing import make_node, make_pod

SCORE, REFUSE = Source("svc.score"), Source("svc.refuse", str)
NODES = ["a", "b"]


class Service:
    """Answers with a number for each node, or fails."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, list[str]]] = []
        self.failure: BaseException | None = None

    async def __call__(self, http: SourceHttp, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
        self.questions.append((pod.name, list(names)))
        if self.failure is not None:
            raise self.failure
        return {name: {"score": number} for number, name in enumerate(names)}


class World:
    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.service = Service()
        self.asker = Asker(Asked("svc", self.service, **settings), SourceHttp(), clock=lambda: self.now)

    async def scores(self, pod: Pod, names: Sequence[str] = NODES) -> list[float]:
        reading = await self.asker.about(pod, names)
        values: list[float] = reading.read(SCORE, [make_node(n).object for n in names]).tolist()  # type: ignore[union-attr]
        return values


async def test_filter_and_prioritize_of_one_attempt_ask_once() -> None:
    world, pod = World(), make_pod("p")

    assert await world.scores(pod) == [0, 1]
    assert await world.scores(pod, ["b"]) == [1]
    assert len(world.service.questions) == 1


async def test_an_answer_is_forgotten_after_a_while() -> None:
    world, pod = World(keep_seconds=10), make_pod("p")
    await world.scores(pod)
    world.now += 10
    await world.scores(pod)

    assert len(world.service.questions) == 2


async def test_a_node_that_was_not_asked_about_is_a_new_question() -> None:
    world, pod = World(), make_pod("p")
    await world.scores(pod, ["a"])
    await world.scores(pod, ["a", "b"])

    assert [names for _, names in world.service.questions] == [["a"], ["a", "b"]]


async def test_a_failure_is_answered_by_the_fallback_and_asked_again() -> None:
    world, pod = World(fallback={"score": 7.0, "refuse": "service is down"}), make_pod("p")
    world.service.failure = SourceError("down")

    reading = await world.asker.about(pod, NODES)

    objects = [make_node(name).object for name in NODES]
    assert reading.read(SCORE, objects).tolist() == [7, 7]  # type: ignore[union-attr]
    refusals = reading.read(REFUSE, objects)
    assert [refusals[row] for row in range(2)] == ["service is down"] * 2
    world.service.failure = None
    assert await world.scores(pod) == [7, 7], "filter and prioritize of one attempt wait once"
    world.now += 1
    assert await world.scores(pod) == [0, 1]


async def test_pods_without_a_uid_are_not_the_same_pod() -> None:
    """As in a request that somebody wrote by hand."""
    world = World()
    await world.scores(_without_uid("p"))
    await world.scores(_without_uid("q"))

    assert [name for name, _ in world.service.questions] == ["p", "q"]


async def test_few_answers_are_kept_and_none_that_is_too_old() -> None:
    """Each may have a value for every node of a large cluster."""
    world = World(keep_seconds=10)
    for number in range(1000):
        await world.scores(make_pod(f"p{number}"))
    assert len(world.asker._kept) == 256

    world.now += 10
    await world.scores(make_pod("later"))

    assert len(world.asker._kept) == 1


async def test_without_a_fallback_a_failure_is_no_opinion() -> None:
    world = World()
    world.service.failure = SourceError("down")

    assert np.isnan(await world.scores(make_pod("p"))).all()


async def test_a_late_answer_is_no_answer() -> None:
    async def never(http: SourceHttp, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {}

    asker = Asker(Asked("svc", never, timeout_seconds=0.01), SourceHttp())

    reading = await asker.about(make_pod("p"), NODES)

    assert reading.fields == {}
    assert asker.error == "no answer in 0.01 s"


async def test_after_five_failures_it_is_left_alone_for_a_while() -> None:
    world = World()
    world.service.failure = SourceError("down")
    for number in range(8):
        await world.scores(make_pod(f"p{number}"))
    assert len(world.service.questions) == 5
    assert world.asker.broken

    world.now += 10
    world.service.failure = None

    assert await world.scores(make_pod("later")) == [0, 1]
    assert not world.asker.broken


async def test_only_wanted_sources_are_asked() -> None:
    service = Service()
    sources = Sources([Declared(Asked("svc", service))])

    without = await sources.about(make_pod("p"), NODES, wanted=())
    assert (service.questions, without.by_source) == ([], {})

    found = await sources.about(make_pod("p"), NODES, wanted={"svc"})
    assert found.of(SCORE).fields == {"score": {"a": 0, "b": 1}}


def _without_uid(name: str) -> Pod:
    pod = make_pod(name)
    assert pod.metadata is not None
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=""))


@pytest.mark.parametrize(
    "raised",
    [
        pytest.param(asyncio.CancelledError(), id="a task of its own was cancelled"),
        pytest.param(SystemExit(2), id="a library that would end the program"),
        pytest.param(KeyboardInterrupt(), id="what Ctrl-C raises"),
        pytest.param(GeneratorExit(), id="what ends a generator"),
    ],
)
async def test_whatever_the_source_raises_is_its_own_failure(raised: BaseException) -> None:
    world = World(fallback={"score": 7.0})
    world.service.failure = raised

    assert await world.scores(make_pod("p")) == [7, 7]
    assert world.asker.error.startswith(f"it raised {type(raised).__name__}")


async def test_a_failure_whose_text_is_broken_is_a_failure_all_the_same() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            return str(self.response["Error"])  # type: ignore[attr-defined]

    world = World(fallback={"score": 7.0})
    world.service.failure = Unspeakable()

    assert await world.scores(make_pod("p")) == [7, 7]
    assert world.asker.error == "Unspeakable: (its text cannot be printed)"


async def test_a_source_that_cancels_its_own_task_does_not_cancel_the_request() -> None:
    async def cancels(http: SourceHttp, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)
        return {}

    asker = Asker(Asked("svc", cancels, fallback={"score": 7.0}), SourceHttp())

    assert (await asker.about(make_pod("p"), NODES)).fields == {"score": {"a": 7.0, "b": 7.0}}


async def test_who_asks_and_is_cancelled_stops() -> None:
    asked = asyncio.Event()

    async def slow(http: SourceHttp, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
        asked.set()
        await asyncio.Event().wait()
        return {}

    asker = Asker(Asked("svc", slow, timeout_seconds=60), SourceHttp())
    task = asyncio.create_task(asker.about(make_pod("p"), NODES))
    await asked.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert asker.failures == 0


async def test_answers_about_many_nodes_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.state.sources.asker._KEPT_NODES", 100)
    world = World(keep_seconds=60)
    names = [f"n{number}" for number in range(30)]
    pods = [make_pod(f"p{number}") for number in range(5)]

    for pod in (*pods, *pods[-3:], pods[0]):
        await world.asker.about(pod, names)

    assert [name for name, _ in world.service.questions] == ["p0", "p1", "p2", "p3", "p4", "p0"]
