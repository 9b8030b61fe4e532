"""A heap from which some have left: who is first, and that it does not grow with those who left."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.runtimes.scheduler.tickets import Tickets
from bayplan.runtimes.scheduler.waiting import Waiting
from bayplan.testing import make_pod


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_they_come_in_their_order_without_those_who_left(given_keys: list[tuple[int, bool]]) -> None:
    heap: Tickets[int, Waiting] = Tickets()
    stay = []
    for ticket, (key, leaves) in enumerate(given_keys, start=1):
        waiting = Waiting(make_pod(f"p{ticket}"), 0.0)
        waiting.ticket = ticket
        heap.push((key, ticket, waiting))
        if leaves:
            waiting.ticket = 0
        else:
            stay.append((key, ticket))

    found = []
    while (first := heap.first()) is not None:
        assert heap.pop() is first
        found.append(first[:2])
    assert found == sorted(stay)
    assert heap.pop() is None


def test_it_is_as_large_as_those_who_are_there() -> None:
    heap: Tickets[int, Waiting] = Tickets()
    for number in range(20_000):
        waiting = Waiting(make_pod("p"), 0.0)
        waiting.ticket = number
        heap.push((number, number, waiting))
        if number % 10:
            waiting.ticket = -1

    assert 2000 <= len(heap) <= 4001
