"""Turns come at a steady rate, after a burst."""

import pytest

from bayplan.client.limiter import Limiter


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_goes_at_once_and_the_rest_one_by_one() -> None:
    limiter = Limiter(per_second=10, burst=3, clock=Clock())

    waits = [limiter.reserve() for _ in range(6)]

    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


def test_a_pause_fills_the_bucket_up_to_the_burst_and_no_further() -> None:
    clock = Clock()
    limiter = Limiter(per_second=10, burst=3, clock=clock)
    for _ in range(3):
        limiter.reserve()

    clock.now = 60.0

    assert [limiter.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


async def test_nobody_waits_while_there_are_turns() -> None:
    await Limiter(per_second=0.001, burst=1).turn()


def test_a_turn_that_would_come_too_late_is_left_to_others() -> None:
    limiter = Limiter(per_second=10, burst=1, clock=Clock())
    limiter.reserve()

    refused = [limiter.reserve(within_seconds=0.05) for _ in range(1_000)]

    assert min(refused) >= 0.05
    assert limiter.reserve(within_seconds=1) == pytest.approx(0.1)
