"""`make chaos` does each fault test many times over: ``BAYPLAN_CHAOS`` says how many."""

from __future__ import annotations

import os

import pytest

ROUNDS = int(os.environ.get("BAYPLAN_CHAOS", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat fault tests, except those that take minutes as it is."""
    once = metafunc.definition.get_closest_marker("chaos") is not None
    if ROUNDS == 1 or once or not metafunc.module.__name__.rpartition(".")[2].startswith("test_fault_"):
        return
    metafunc.fixturenames.append("chaos_round")
    metafunc.parametrize("chaos_round", range(ROUNDS), ids=[f"round {number}" for number in range(ROUNDS)])
