"""What a pod gets on a node: what cannot be written on it is an error of whoever made it."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from bayplan import Allocation, NodeAnnotation, Units
from bayplan.snapshot.units import ALLOCATION
from bayplan.testing import make_pod

GPU = Units("x.io/y", capacity=NodeAnnotation("x.io/sizes"))


@pytest.mark.parametrize(
    ("taken", "annotate"),
    [
        pytest.param({"x.io/y": "z"}, {}, id="no devices"),
        pytest.param({"x.io/y": {0: 0.5}}, {}, id="half a unit"),
        pytest.param({"x.io/y": {"0": 1}}, {}, id="a device by its name"),
        pytest.param({1: {0: 1}}, {}, id="no resource"),
        pytest.param(None, {}, id="nothing"),
        pytest.param({}, {"note": 1}, id="an annotation that is no text"),
    ],
)
def test_an_allocation_that_cannot_be_written_is_an_error_where_it_is_made(taken: Any, annotate: Any) -> None:
    with pytest.raises(TypeError, match="Allocation wants"):
        Allocation(taken, annotate)


def test_numbers_of_an_array_are_whole_numbers() -> None:
    given = Allocation({"x.io/y": {np.int64(1): np.int64(500)}})  # type: ignore[dict-item]

    assert given.annotations() == {ALLOCATION: '{"x.io/y":{"1":500}}'}


def test_two_allocations_together_are_everything_that_either_takes() -> None:
    first = Allocation({"x.io/y": {0: 500, 1: 100}}, {"note": "first", "a": "1"})
    second = Allocation({"x.io/y": {1: 300}, "x.io/z": {0: 1}}, {"note": "second"})

    both = first | second

    assert both.taken == {"x.io/y": {0: 500, 1: 400}, "x.io/z": {0: 1}}
    assert both.annotate == {"note": "second", "a": "1"}
    assert first.taken == {"x.io/y": {0: 500, 1: 100}}


def claims(text: str) -> Any:
    return make_pod(requests={"x.io/y": 1}, annotations={ALLOCATION: text})


@pytest.mark.parametrize("text", ['{"x.io/y\ud800":{"0":1}}', "[" * 100_000, '{"x.io/y":{"0":1e999}}', "\0"])
def test_nonsense_in_the_annotation_claims_nothing(text: str) -> None:
    assert GPU.held_by(claims(text), 2) == {0: 1, 1: 1}


def test_long_claims_are_read_and_not_kept() -> None:
    """Whoever owns a pod may write another one each second."""
    tracemalloc.start()
    try:
        for number in range(50):
            more = ",".join(f'"{device}":{number}' for device in range(10_000))
            assert GPU.held_by(claims(f'{{"x.io/y":{{"1":1}},"x.io/z":{{{more}}}}}'), 2) == {1: 1}

        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


def test_devices_that_no_node_can_have_are_not_read() -> None:
    """A pod's owner could name thousands, and each would be a line in every report about devices."""
    more = ",".join(f'"{device}":1' for device in range(1024, 20_000))

    assert GPU.given_to(claims(f'{{"x.io/y":{{"1023":1,{more}}}}}')) == {1023: 1}
    assert GPU.given_to(claims(f'{{"x.io/y":{{{more}}}}}')) == {}
