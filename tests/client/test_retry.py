"""Reads are tried again when they fail in passing; the clock and the dice are the test's."""

import random

import pytest

from bayplan.client.errors import ApiError, ConnectError, Unreachable
from bayplan.client.retry import Retry


class Clock:
    """Time passes only while somebody sleeps, or an answer takes its time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Highest(random.Random):
    """Dice that always show the highest number."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Server:
    """Fails in these ways, one after the other, then answers."""

    def __init__(self, clock: Clock, *failures: Exception, takes_seconds: float = 0.0) -> None:
        self.clock = clock
        self.failures = list(failures)
        self.takes_seconds = takes_seconds
        self.given: list[float] = []

    async def answer(self, left_seconds: float) -> bytes:
        self.given.append(left_seconds)
        self.clock.now += self.takes_seconds
        if self.failures:
            raise self.failures.pop(0)
        return b"answer"


def refused(status: int, retry_after_seconds: float | None = None) -> ApiError:
    return ApiError(status, "no", doing="reading", retry_after_seconds=retry_after_seconds)


async def read(server: Server, *, timeout_seconds: float = 30.0, dice: random.Random | None = None) -> bytes:
    retry = Retry(dice=dice or Highest(), clock=server.clock, sleep=server.clock.sleep)
    return await retry.read(server.answer, timeout_seconds=timeout_seconds)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Unreachable("connection refused"), id="nobody there"),
        *[pytest.param(refused(status), id=str(status)) for status in (429, 500, 502, 503, 504)],
    ],
)
async def test_what_may_pass_is_tried_again_after_ever_longer_pauses(failure: Exception) -> None:
    clock = Clock()
    server = Server(clock, failure, failure, failure)

    assert await read(server) == b"answer"
    assert clock.slept == [0.1, 0.3, 0.9]


async def test_pauses_are_shortened_by_the_dice_so_that_not_all_come_at_once() -> None:
    clock = Clock()
    await read(Server(clock, *[Unreachable("gone")] * 3), dice=random.Random(1))

    for slept, usual in zip(clock.slept, (0.1, 0.3, 0.9), strict=True):
        assert usual / 2 <= slept < usual


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ConnectError("certificate verify failed"), id="a wrong certificate"),
        *[pytest.param(refused(status), id=str(status)) for status in (400, 401, 403, 404, 409, 410, 501)],
    ],
)
async def test_what_will_not_pass_is_said_at_once(failure: Exception) -> None:
    server = Server(Clock(), failure)

    with pytest.raises(type(failure)) as caught:
        await read(server)

    assert caught.value is failure
    assert len(server.given) == 1


async def test_after_four_tries_the_last_failure_is_the_answer() -> None:
    failures = [refused(503) for _ in range(9)]
    server = Server(Clock(), *failures)

    with pytest.raises(ApiError) as caught:
        await read(server)

    assert caught.value is failures[3]


@pytest.mark.parametrize(
    ("asked", "slept"),
    [
        pytest.param(2.0, 2.5, id="never earlier than asked"),
        pytest.param(3600.0, 10.0, id="never longer than the limit"),
        pytest.param(0.0, 0.1, id="nothing asked"),
    ],
)
async def test_the_server_may_say_when(asked: float, slept: float) -> None:
    clock = Clock()
    await read(Server(clock, refused(429, asked)))

    assert clock.slept == [slept]


async def test_every_try_gets_the_time_that_is_left() -> None:
    server = Server(Clock(), refused(500), refused(500), takes_seconds=1.0)
    await read(server, timeout_seconds=10)

    assert server.given == pytest.approx([10, 8.9, 7.6])


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(refused(429, 3.0), id="told to wait for longer"),
        pytest.param(Unreachable("no answer in 2 s"), id="no answer"),
    ],
)
async def test_a_pause_that_would_outlast_the_time_is_not_begun(failure: Exception) -> None:
    clock = Clock()
    server = Server(clock, failure, takes_seconds=1.95)

    with pytest.raises(type(failure)):
        await read(server, timeout_seconds=2.0)

    assert clock.slept == []
