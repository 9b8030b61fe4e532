"""The bind benchmark's caller keeps its promise, and its ratios are those of the same round."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from bench import bind
from bench.bind_caller import Answer, CallFailed, Place, call_all, post
from bench.bind_ways import CHECKS, DIRECT, refusal


@dataclass
class Echo:
    """Answers each request with its body, and knows how many it had at once."""

    at_once: int = 0
    most: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                body = await reader.readexactly(int(head.rpartition("Content-Length: ")[2]))
                self.at_once += 1
                self.most = max(self.most, self.at_once)
                # Others that were sent by now are read before this one is answered.
                for _ in range(20):
                    await asyncio.sleep(0)
                self.at_once -= 1
                # In two writes: an answer may come in pieces.
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                await writer.drain()
                writer.write(body)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]


async def test_every_call_is_made_and_no_more_than_so_many_at_once() -> None:
    echo, said = Echo(), []

    def check(answer: Answer) -> str:
        said.append(answer.body)
        return ""

    async with echo.running() as port:
        requests = [post("/bind", f"pod-{number}".encode(), port=port) for number in range(50)]
        batch = await call_all(Place(port), requests, at_once=8, check=check)

    assert sorted(said) == sorted(f"pod-{number}".encode() for number in range(50))
    assert len(batch.latencies) == 50
    assert 1 < echo.most <= 8
    assert batch.rate == pytest.approx(50 / batch.seconds)


async def test_a_bind_that_is_refused_ends_the_benchmark() -> None:
    async with Echo().running() as port:
        requests = [post("/bind", b'{"Error":"node is full"}', port=port)]
        with pytest.raises(ExceptionGroup) as failure:
            await call_all(Place(port), requests, at_once=1, check=refusal)

    assert failure.group_contains(CallFailed, match="node is full")


def test_an_answer_of_a_verb_is_read() -> None:
    assert refusal(Answer(200, b'{"Error":""}')) == ""
    assert "503" in refusal(Answer(503, b""))


def turn(rate: float, latencies: list[float]) -> bind.Turn:
    return bind.Turn(rate, latencies, caller_ms=0.1, between_ms=0.8, served_ms=2.0, caller_cores=0.05)


def part() -> bind.Part:
    fast = [float(number) for number in range(1, 101)]
    return bind.Part(
        16,
        {
            DIRECT: [turn(100, fast), turn(200, fast), turn(400, fast)],
            CHECKS: [turn(90, fast), turn(100, fast), turn(360, fast)],
        },
    )


def test_a_ratio_is_of_the_same_round() -> None:
    assert part().ratios(CHECKS) == [0.9, 0.5, 0.9]


@pytest.mark.parametrize(
    ("share", "expected"),
    [pytest.param(0.5, 50.0, id="the middle"), pytest.param(0.99, 99.0, id="all but a hundredth")],
)
def test_a_latency_is_of_all_rounds_together(share: float, expected: float) -> None:
    assert part().latency(CHECKS, share) == expected


def test_the_table_has_a_ratio_for_each_way() -> None:
    _, _, alone, ours = bind.table([part()]).splitlines()

    assert alone.startswith(f"| 16 | {DIRECT} | 200 (100 to 400) | 1 | 50.0 / 99.0 | 0.10 |  | 2.00 | 0.05 |")
    assert ours.startswith(f"| 16 | {CHECKS} | 100 (90 to 360) | 0.90 (0.50 to 0.90) |")
    assert "<svg" in bind.picture([part()])


def test_every_round_is_written_down_but_not_every_call() -> None:
    ours = part().figures()["ways"][CHECKS]

    assert (ours["p50"], ours["p99"]) == (50.0, 99.0)
    assert [one["rate"] for one in ours["rounds"]] == [90, 100, 360]
    assert all("latencies" not in one for one in ours["rounds"])
