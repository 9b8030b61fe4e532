"""Which kinds of pods are learned about, how long they are known, and when that is not worth it."""

import itertools
from typing import Any, cast

import numpy as np
import pytest

from bayplan.runtimes.extender import kinds
from bayplan.runtimes.extender.kinds import Kinds
from bayplan.runtimes.extender.known import Known
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS
from bayplan.testing import make_cluster, make_node

NODES = 10


def cluster() -> Snapshot:
    return make_cluster([make_node(f"n{number}") for number in range(NODES)])


def known(there: Snapshot) -> Known:
    return Known(
        standing=cast("Any", None),
        era=there.era,
        objects=there.objects,
        readings=NO_READINGS,
        count=NODES,
        verdicts=bytes(NODES),
        refusals=(),
        lines=[],
        scores=np.zeros(0, dtype=np.uint8),
        every_line=None,
        order=(),
    )


def wanted(found: Kinds, kind: bytes, there: Snapshot) -> bool:
    """Whether it is worth learning, now that another pod of it came."""
    return found.wanted(kind, str(next(_UIDS)), there, NO_READINGS)


_UIDS = itertools.count()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for four kinds."""
    monkeypatch.setattr(kinds, "_ROWS", 3 * (NODES + 1))


def test_a_kind_is_wanted_when_it_comes_again_and_once_at_a_time() -> None:
    there, found = cluster(), Kinds()

    assert [wanted(found, b"web", there) for _ in range(4)] == [False, True, False, False]
    found.learned(b"web", known(there), there)
    assert not wanted(found, b"web", there), "it is known"
    assert found.find(b"web", there, NO_READINGS) is not None


def test_one_that_was_known_is_wanted_at_once_when_nodes_have_changed() -> None:
    there, found = cluster(), Kinds()
    found.learned(b"web", known(there), there)
    for _ in range(Known.pays):
        assert found.find(b"web", there, NO_READINGS) is not None
    later = cluster()

    assert found.find(b"web", later, NO_READINGS) is None
    assert wanted(found, b"web", later)


def test_what_cannot_be_learned_is_not_tried_again_before_nodes_have_changed() -> None:
    there, found = cluster(), Kinds()
    wanted(found, b"web", there)
    assert wanted(found, b"web", there)
    found.learned(b"web", None, there)

    assert not any(wanted(found, b"web", there) for _ in range(100))
    assert wanted(found, b"web", cluster())


def test_a_pod_is_asked_about_twice_and_counts_once() -> None:
    there, found = cluster(), Kinds()

    assert not any(found.wanted(b"web", "the same", there, NO_READINGS) for _ in range(10))
    assert found.wanted(b"web", "another", there, NO_READINGS)


def test_one_that_was_of_no_use_has_to_come_again_first() -> None:
    there, found = cluster(), Kinds()
    found.learned(b"web", known(there), there)

    assert [wanted(found, b"web", cluster()) for _ in range(2)] == [False, True]


@pytest.mark.usefixtures("few")
def test_the_kind_that_was_used_last_is_the_last_to_go() -> None:
    there, found = cluster(), Kinds()
    for number in range(4):
        found.learned(b"%d" % number, known(there), there)
    assert found.find(b"0", there, NO_READINGS) is not None
    found.learned(b"4", known(there), there)

    assert len(found) == 4
    assert found.find(b"0", there, NO_READINGS) is not None
    assert found.find(b"1", there, NO_READINGS) is None


@pytest.mark.usefixtures("few")
def test_where_much_is_learned_in_vain_less_is_learned() -> None:
    there, found = cluster(), Kinds()
    looks = 0
    for number in range(4000):
        kind = b"%d" % (number % 20)
        if found.find(kind, there, NO_READINGS) is None and wanted(found, kind, there):
            looks += 1
            found.learned(kind, known(there), there)

    assert looks < 4000 / 20, "of twenty kinds in turns, four can be known"


def test_where_nodes_change_before_it_pays_less_is_learned() -> None:
    found, looks = Kinds(), 0
    for _ in range(4000):
        there = cluster()
        if found.find(b"web", there, NO_READINGS) is None and wanted(found, b"web", there):
            looks += 1
            found.learned(b"web", known(there), there)

    assert looks < 4000 / 50


@pytest.mark.usefixtures("few")
def test_where_it_pays_again_more_is_learned_again() -> None:
    there, found = cluster(), Kinds()
    for number in range(400):
        found.learned(b"%d" % number, known(there), there)
    assert [wanted(found, b"web", there) for _ in range(64)] == [False] * 63 + [True]

    for number in range(10):
        found.learned(b"good %d" % number, known(there), there)
        for _ in range(20):
            assert found.find(b"good %d" % number, there, NO_READINGS) is not None

    assert [wanted(found, b"app", there) for _ in range(2)] == [False, True]


def test_what_was_seen_is_bounded() -> None:
    there, found = cluster(), Kinds()
    for number in range(5000):
        wanted(found, b"%d" % number, there)
        found.learned(b"%d" % number, None, there)

    assert len(found._seen) <= 1024
    assert len(found._hopeless) <= 1024
