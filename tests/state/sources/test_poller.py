"""A polled source: values, their age, failures in a row, and what changed since."""

import asyncio
import contextlib
import random
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from bayplan.snapshot.bynode import by_field
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.table import NodeTable
from bayplan.state.sources.book import Declared, Sources, Watchers
from bayplan.state.sources.http import SourceError, SourceHttp
from bayplan.state.sources.poller import Polled, Poller
from bayplan.testing import make_cluster, make_node, make_pod

LOAD = Source("load")


class Outside:
    """Whatever a source says, in turn; the last one again and again."""

    def __init__(self, *answers: Mapping[str, Any] | BaseException) -> None:
        self.answers = list(answers)

    async def fetch(self, http: SourceHttp) -> Mapping[str, Any]:
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, BaseException):
            raise said
        return said


class Unspeakable(Exception):
    """As of a cloud's library, whose text is made of an answer that never came."""

    def __str__(self) -> str:
        return str(self.response["Error"])  # type: ignore[attr-defined]


class Worse(BaseException):
    """One that wants to end whoever asks for its text."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class _Straight(random.Random):
    """Dice that always fall on the middle."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class World:
    """A poller on a clock that is moved by hand."""

    def __init__(self, *answers: Mapping[str, Any] | BaseException, **settings: Any) -> None:
        self.now = 1000.0
        self.changes = 0
        self.tries: list[str] = []
        self.pauses: list[float] = []
        self.nodes: NodeTable | None = None
        latches = settings.pop("latches", ())
        source = Polled(
            "load", Outside(*answers).fetch, **{"every_seconds": 10, "max_age_seconds": 60, **settings}
        )
        self.poller = Poller(
            source,
            SourceHttp(),
            latches=latches,
            nodes=lambda: self.nodes,
            on_change=self._changed,
            observe=lambda _, error: self.tries.append(error),
            dice=_Straight(),
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) >= 8:
            raise asyncio.CancelledError
        self.now += seconds

    def value(self, column: Source | Latch = LOAD) -> Any:
        return self.poller.reading.read(column, [make_node("n").object]).tolist()[0]  # type: ignore[union-attr]


async def test_values_are_there_after_the_first_answer() -> None:
    world = World({"n": 0.5})
    assert np.isnan(world.value())

    await world.poller.ask()

    assert world.value() == 0.5
    assert world.tries == [""]


async def test_values_that_are_too_old_are_missing() -> None:
    world = World({"n": 0.5})
    await world.poller.ask()
    world.now += 59
    assert world.value() == 0.5

    world.now += 1

    assert np.isnan(world.value())


async def test_a_source_that_fails_keeps_its_values_until_they_are_too_old() -> None:
    world = World({"n": 0.5}, SourceError("down"))
    await world.poller.ask()
    world.now += 30
    await world.poller.ask()

    assert (world.value(), world.poller.error) == (0.5, "down")
    world.now += 30
    assert np.isnan(world.value())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(SourceError("down"), "down", id="down"),
        pytest.param({"n": [1]}, "n: want a number or a text, got list", id="nonsense"),
        pytest.param(RuntimeError("bug"), "RuntimeError: bug", id="a bug in the source"),
        pytest.param(
            asyncio.CancelledError(), "it raised CancelledError", id="a task of its own was cancelled"
        ),
        pytest.param(SystemExit(2), "it raised SystemExit: 2", id="a library that would end the program"),
        pytest.param(KeyboardInterrupt(), "it raised KeyboardInterrupt", id="what Ctrl-C raises"),
        pytest.param(GeneratorExit(), "it raised GeneratorExit", id="what ends a generator"),
        pytest.param(Unspeakable(), "Unspeakable: (its text cannot be printed)", id="a broken text"),
        pytest.param(Worse(), "it raised Worse: (its text cannot be printed)", id="a text that would end us"),
        pytest.param(ValueError(), "ValueError: ", id="no text"),
        pytest.param(RuntimeError("x" * 9999), f"RuntimeError: {'x' * 1999}…", id="a long text"),
    ],
)
async def test_what_is_wrong_is_said(answer: Any, said: str) -> None:
    world = World(answer)
    await world.poller.ask()

    assert world.poller.error == said
    assert world.tries == [said]


async def test_a_source_that_does_not_answer_is_given_up() -> None:
    async def never(http: SourceHttp) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {}

    source = Polled("load", never, every_seconds=10, max_age_seconds=60, timeout_seconds=0.01)
    poller = Poller(source, SourceHttp())
    await poller.ask()

    assert poller.error == "no answer in 0.01 s"


@pytest.mark.parametrize(
    "instead",
    [
        pytest.param(None, id="as it should be"),
        pytest.param(SourceError("interrupted"), id="and makes a failure of it"),
        pytest.param(SystemExit(), id="and wants to end the program"),
    ],
)
async def test_who_is_cancelled_in_the_middle_of_a_question_stops(instead: BaseException | None) -> None:
    asked = asyncio.Event()

    async def slow(http: SourceHttp) -> Mapping[str, Any]:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if instead is not None:
                raise instead from None
            raise
        return {}

    poller = Poller(Polled("load", slow, every_seconds=10, max_age_seconds=60), SourceHttp())
    task = asyncio.create_task(poller.run())
    await asked.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert poller.failures == 0


async def test_a_source_that_cancels_its_own_task_is_asked_again() -> None:
    async def cancels(http: SourceHttp) -> Mapping[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)
        return {}

    poller = Poller(Polled("load", cancels, every_seconds=10, max_age_seconds=60), SourceHttp())
    for _ in range(2):
        await poller.ask()

    assert (poller.failures, poller.error) == (2, "it raised CancelledError")


async def test_a_source_that_will_not_be_given_up_is_left_alone_after_a_few_calls() -> None:
    over, calls = asyncio.Event(), 0

    async def stubborn(http: SourceHttp) -> Mapping[str, Any]:
        nonlocal calls
        calls += 1
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return {"n": 1}

    source = Polled("load", stubborn, every_seconds=10, max_age_seconds=60, timeout_seconds=0.01, threads=2)
    poller = Poller(source, SourceHttp())
    for _ in range(4):
        await poller.ask()
    assert (calls, poller.error) == (2, "not asked: earlier calls do not end, 2 by now")

    over.set()
    await asyncio.sleep(0.01)
    await poller.ask()
    assert (calls, poller.error) == (3, "")


@pytest.mark.parametrize(
    "raised", [GeneratorExit(), KeyboardInterrupt(), Unspeakable(), Worse(), asyncio.CancelledError()]
)
async def test_nothing_that_one_source_raises_ends_the_asking_of_others(raised: BaseException) -> None:
    asked = {"good": 0, "bad": 0}
    enough = asyncio.Event()

    async def good(http: SourceHttp) -> Mapping[str, Any]:
        asked["good"] += 1
        return {"n": asked["good"]}

    async def bad(http: SourceHttp) -> Mapping[str, Any]:
        asked["bad"] += 1
        if min(asked.values()) >= 3:
            enough.set()
        raise raised

    sources = Sources(
        Declared(Polled(fetch.__name__, fetch, every_seconds=0.001, max_age_seconds=60))
        for fetch in (good, bad)
    )
    running = asyncio.create_task(sources.run())
    try:
        await asyncio.wait_for(enough.wait(), 20)
        assert not running.done()
        assert set(sources.problems()) == {"good", "bad"}
        assert sources.problems()["good"] == ""
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_answer_that_we_cannot_use_is_told_and_asked_for_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with us, it must not end in silence."""
    world = World({"n": 1})

    def broken() -> None:
        raise KeyError("nothing")

    monkeypatch.setattr(world.poller, "_look_for_nodes", broken)
    with pytest.raises(asyncio.CancelledError):
        await world.poller.run()

    assert len(world.pauses) == 8
    assert world.poller.error == "its answer cannot be used: KeyError: 'nothing'"
    assert "this is a bug in Bayplan" in caplog.text


@pytest.mark.parametrize(
    ("answer", "aside"),
    [
        pytest.param({f"n{number}": {"a": 1, "b": 2} for number in range(5000)}, False, id="of 5,000 nodes"),
        pytest.param({f"n{number}": 1 for number in range(40_000)}, True, id="very many nodes"),
        pytest.param({"n": {f"c{number}": 1 for number in range(40_000)}}, True, id="very many columns"),
        pytest.param(
            {"a": 1, "n": {f"c{number}": 1 for number in range(40_000)}}, True, id="very many beside one"
        ),
    ],
)
async def test_a_large_answer_is_not_read_on_the_event_loop(
    answer: dict[str, Any], aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        threads.append(threading.current_thread())
        return by_field(values)

    monkeypatch.setattr("bayplan.state.sources.calling.by_field", noted)
    await World(answer).poller.ask()

    assert [thread is not threading.main_thread() for thread in threads] == [aside]


async def test_an_answer_with_too_many_columns_is_a_failure_in_clear_words() -> None:
    world = World({f"n{number}": {f"pod-{number}": 1} for number in range(300)})
    await world.poller.ask()

    assert "more than 256 columns, such as 'pod-0' and 'pod-256'" in world.poller.error


async def test_who_goes_on_failing_is_asked_less_often() -> None:
    world = World(SourceError("down"))
    with pytest.raises(asyncio.CancelledError):
        await world.poller.run()

    assert world.pauses == [10, 10, 20, 40, 80, 160, 160, 160]
    assert world.poller.broken


async def test_after_an_answer_it_is_asked_as_often_as_before() -> None:
    down = SourceError("down")
    world = World(down, down, down, down, {"n": 1})
    with pytest.raises(asyncio.CancelledError):
        await world.poller.run()

    assert world.pauses == [10, 10, 20, 40, 10, 10, 10, 10]
    assert not world.poller.broken


async def test_only_another_value_is_a_change() -> None:
    world = World({"n": 1}, {"n": 1}, {"n": 2})
    for _ in range(3):
        await world.poller.ask()

    assert world.changes == 2


async def test_a_value_that_is_no_number_is_no_value_and_no_change() -> None:
    """NaN is not even equal to itself, and Prometheus gives it for 0 / 0."""
    world = World({"n": 1, "m": float("nan")}, {"n": 1, "m": float("nan")}, {"n": 1})
    for _ in range(3):
        await world.poller.ask()

    assert world.changes == 1
    assert world.poller.reading.fields == {"": {"n": 1}}


async def test_values_that_have_just_become_too_old_are_a_change() -> None:
    """Whoever was refused for them may pass now, and would not be told otherwise."""
    world = World({"n": 1}, SourceError("down"), every_seconds=40, max_age_seconds=60)
    told: list[float] = []
    world.poller._on_change = lambda: told.append(world.now)
    with pytest.raises(asyncio.CancelledError):
        await world.poller.run()

    # Read at 1000; asked in vain at 1040; too old at 1060, in the middle of the pause; and only once.
    assert told == [1000, 1060]


async def test_one_who_listens_and_fails_does_not_end_the_questions(caplog: pytest.LogCaptureFixture) -> None:
    world = World({"n": 1}, {"n": 2}, SourceError("down"), every_seconds=40, max_age_seconds=60)

    def fails(*_: object) -> None:
        raise RuntimeError("a bug in whoever listens")

    world.poller._on_change = world.poller._observe = fails
    with pytest.raises(asyncio.CancelledError):
        await world.poller.run()

    assert len(world.pauses) == 8, "it went on to the end of the test"
    assert "source load: one who was told of it failed" in caplog.text
    assert "RuntimeError: a bug in whoever listens" in caplog.text


async def test_values_are_a_change_again_when_the_source_comes_back() -> None:
    world = World({"n": 1}, SourceError("down"), {"n": 1})
    await world.poller.ask()
    await world.poller.ask()
    world.now += 60
    await world.poller.ask()

    assert world.changes == 2


async def test_a_latch_remembers() -> None:
    hot = LOAD.latched(above=80, below=60)
    world = World({"n": 90}, {"n": 70}, {"n": 50}, latches=[hot])
    seen = []
    for _ in range(3):
        await world.poller.ask()
        seen.append(world.value(hot))

    assert seen == [True, True, False]


async def test_a_latch_stays_while_its_source_is_silent() -> None:
    hot = LOAD.latched(above=80, below=60)
    world = World({"n": 90}, SourceError("down"), latches=[hot])
    await world.poller.ask()
    world.now += 3600
    await world.poller.ask()

    assert world.value(hot) is True


async def test_what_pods_requested_is_remembered_from_before_the_values_settled() -> None:
    world = World({"n": 1}, settle_seconds=25)
    marks = []
    for number in range(5):
        world.nodes = make_cluster(["n"], [make_pod("p", node="n", cpu=number)]).nodes
        marks.append(number * 1000)
        await world.poller.ask()
        world.now += 10

    # Asked at 0, 10, 20, 30 and 40 s: at 40 s the newest that is 25 s old is that of 10 s.
    before = world.poller.reading.before
    assert before is not None
    assert before.over(["n"], "cpu").tolist() == [marks[1]]


async def test_what_pods_request_is_counted_from_when_they_are_known() -> None:
    """The first answer may be there before the first list of pods is."""
    world = World({"n": 1})
    await world.poller.ask()
    assert world.poller.reading.before is None

    world.nodes = make_cluster(["n"]).nodes
    first = world.poller.reading.before
    assert first is not None
    world.nodes = make_cluster(["n"], [make_pod("p", node="n", cpu=2)]).nodes

    assert world.poller.reading.before is first


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param({"n": 1}, "", id="of a node"),
        pytest.param({"n": 1, "gone": 2}, "", id="of a node and of others"),
        pytest.param({"host-7": 1}, "say `match: hostname`: it says 'host-7'", id="by another name"),
        pytest.param({"x:9100": 1}, "it says 'x:9100', and nodes are called 'n' here", id="of nobody"),
        pytest.param({}, "its answer has no values", id="of nothing"),
    ],
)
async def test_values_that_are_of_no_node_are_told_once(
    said: dict[str, float], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(said)
    world.nodes = make_cluster([make_node("n", labels={"kubernetes.io/hostname": "host-7"})]).nodes

    for _ in range(3):
        await world.poller.ask()

    assert problem in world.poller.misfit
    assert bool(world.poller.misfit) == bool(problem)
    assert world.poller.known_nodes == (not problem)
    assert len(caplog.messages) == bool(problem)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        pytest.param([Source("load.usd")], [], id="a value that there is"),
        pytest.param(
            [Source("load.udd"), Source("load.udd"), Source("load.usd")],
            ["a policy reads Source('load.udd'), which no node has; did you mean 'load.usd'?"],
            id="a mistyped one",
        ),
        pytest.param(
            [Source("load.udd").latched(above=2, below=1)],
            ["a policy reads Source('load.udd'), which no node has; did you mean 'load.usd'?"],
            id="a latch of a mistyped one",
        ),
        pytest.param(
            [Source("load")],
            ["a policy reads Source('load'), which no node has; did you mean 'load.usd'?"],
            id="none of several",
        ),
    ],
)
async def test_a_value_that_the_source_does_not_have_is_told_once(
    read: list[Source | Latch], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    world = World({"n": {"usd": 1.0}})
    world.nodes = make_cluster([make_node("n")]).nodes

    for _ in range(3):
        await world.poller.ask()
        for column in read:
            world.poller.reading.over(column, world.nodes[world.poller.reading.keys])
    await world.poller.ask()

    assert caplog.messages == said


async def test_a_source_that_said_nothing_yet_lacks_no_value(caplog: pytest.LogCaptureFixture) -> None:
    world = World(SourceError("down"), {"n": {"usd": 1.0}})
    world.nodes = make_cluster([make_node("n")]).nodes
    await world.poller.ask()
    world.poller.reading.over(Source("load.usd"), world.nodes[world.poller.reading.keys])
    await world.poller.ask()

    assert [message for message in caplog.messages if "policy reads" in message] == []


async def test_without_nodes_in_view_nothing_is_amiss() -> None:
    world = World({"n": 1})
    world.nodes = make_cluster([]).nodes

    await world.poller.ask()

    assert world.poller.misfit == ""
    assert world.poller.known_nodes == 0


async def test_the_book_is_the_same_while_nothing_changes_and_forgets_what_is_too_old() -> None:
    now = [1000.0]
    outside = Outside({"n": 1})
    changed: list[str] = []
    sources = Sources(
        [Declared(Polled("load", outside.fetch, every_seconds=10, max_age_seconds=60))],
        watchers=Watchers(changed=changed.append),
        clock=lambda: now[0],
    )
    await sources.polled["load"].ask()

    first = sources.current
    assert first is sources.current
    assert first.of(LOAD).fields == {"": {"n": 1}}
    assert changed == ["load"]
    now[0] += 60
    assert sources.current is not first
    assert sources.current.of(LOAD).fields == {}


async def test_the_book_tells_what_is_wrong() -> None:
    sources = Sources(
        [Declared(Polled("load", Outside(SourceError("down")).fetch, every_seconds=10, max_age_seconds=60))]
    )
    assert sources.problems() == {"load": "no answer yet"}
    for _ in range(3):
        await sources.polled["load"].ask()

    assert sources.problems() == {"load": "broken: 3 failures in a row: down"}
