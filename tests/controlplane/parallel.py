"""Doing something to a cluster many times over, on several connections at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane

T = TypeVar("T")

CONNECTIONS = 8


def in_parallel(plane: ControlPlane, numbers: range, work: Callable[[Client, int], T]) -> list[T]:
    """Do it once for each number; what came of it, in the order of the numbers."""

    def part(first: int) -> list[tuple[int, T]]:
        with Client(plane.server, plane.ca.cert, token=plane.admin_token) as client:
            return [(number, work(client, number)) for number in numbers[first::CONNECTIONS]]

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        done = dict(pair for some in pool.map(part, range(CONNECTIONS)) for pair in some)
    return [done[number] for number in numbers]
