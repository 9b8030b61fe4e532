"""Values by node become columns, all at once where they are plain, with the same outcome as one by one."""

import time
import tracemalloc
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan import Source
from bayplan.snapshot import bynode
from bayplan.snapshot.bynode import by_field
from bayplan.snapshot.columns import parse_number
from bayplan.snapshot.sources import Latch, Reading
from bayplan.snapshot.strings import Strings

NAMES = st.sampled_from(["a", "b", "c", "d", ""])
SCALARS = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([10**400, -(10**400), 2**63, 2**64]),
    st.booleans(),
    st.sampled_from(["", "1.5", "1_000", "nan", "inf", "busy", " 7 "]),
)
ODD = st.one_of(st.just([1]), st.builds(np.float64, st.floats()), st.builds(np.int64, st.integers(0, 9)))
GIVEN = st.one_of(SCALARS, st.none(), ODD)


def outcome(read: Any, values: Any) -> Any:
    try:
        return read(values)
    except ValueError as error:
        return str(error)


@given(
    st.one_of(
        st.dictionaries(NAMES, st.one_of(SCALARS, st.none())),
        st.dictionaries(NAMES, st.dictionaries(NAMES, st.one_of(SCALARS, st.none()))),
        st.dictionaries(NAMES, st.one_of(GIVEN, st.dictionaries(NAMES, GIVEN))),
    )
)
def test_all_at_once_gives_what_one_by_one_gives(values: Any) -> None:
    assert outcome(by_field, values) == outcome(bynode._checked_one_by_one, values)


def test_plain_values_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bynode, "_checked_one_by_one", lambda _: pytest.fail("it is slow"))

    assert by_field({"a": 1, "b": nan, "c": None, "d": "x"}) == {"": {"a": 1, "d": "x"}}
    values = {"a": {"x": 1.5, "y": None}, "b": {"x": nan}, "c": {"z": True, "x": inf}}
    assert by_field(values) == {"x": {"a": 1.5, "c": inf}, "z": {"c": True}}
    assert by_field({}) == {}


@pytest.mark.parametrize("odd", [pytest.param({}, id="plain"), pytest.param({"odd": 1}, id="one by one")])
def test_names_that_are_no_columns_are_refused(odd: dict[str, Any]) -> None:
    few = {f"n{number}": {f"pod-{number}": 1} for number in range(bynode.MOST_FIELDS - len(odd))}
    assert len(by_field(few | odd)) == bynode.MOST_FIELDS

    with pytest.raises(
        ValueError, match="more than 256 columns, such as 'pod-0' and 'another'; want the same"
    ):
        by_field(few | odd | {"n": {"another": 1}})


def test_a_value_is_looked_at_once_however_many_columns_there_are() -> None:
    """Each column for each node would be 25 million looks, and everybody waits for them."""
    values = {f"n{number}": {f"c{number % 256}": 1.5} for number in range(100_000)}
    start = time.thread_time()

    assert sum(map(len, by_field(values).values())) == 100_000
    assert time.thread_time() - start < 1


def number(value: Any) -> float:
    if value is None:
        return nan
    try:
        found = parse_number(value, float) if isinstance(value, str) else float(value)
    except OverflowError:
        return nan
    return found if found is not None and isfinite(found) else nan


def text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


@given(st.dictionaries(NAMES, SCALARS), st.lists(NAMES, max_size=8))
def test_a_column_has_the_value_of_each_name(there: dict[str, Any], names: list[str]) -> None:
    reading, keys = Reading({"x": there}), Strings.intern(names)

    numbers = reading.over(Source("s.x"), keys)
    assert isinstance(numbers, np.ndarray)
    np.testing.assert_array_equal(numbers, np.array([number(there.get(name)) for name in names], dtype=float))
    texts = reading.over(Source("s.x", str), keys)
    assert isinstance(texts, Strings)
    assert [texts[row] for row in range(len(names))] == [text(there.get(name)) for name in names]
    # Rows say which text is the first, whatever the order of the answer: ties are broken by it.
    assert texts.values == tuple(dict.fromkeys(t for n in names if (t := text(there.get(n))) is not None))


@given(st.sets(NAMES), st.lists(NAMES, max_size=8))
def test_a_latch_is_on_for_the_names_that_it_is_on_for(on: set[str], names: list[str]) -> None:
    latch = Latch(Source("s"), above=2, below=1)
    reading = Reading({}, latched={latch: frozenset(on)})

    found = reading.over(latch, Strings.intern(names))

    assert isinstance(found, np.ndarray)
    assert found.tolist() == [name in on for name in names]


def test_one_long_text_does_not_make_all_of_them_long() -> None:
    values: list[Any] = [1.5] * 2_000 + ["x" * 10_000, "7", 10**400, float("inf")]
    tracemalloc.start()
    found = bynode.floats(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found[:2_000].tolist() == [1.5] * 2_000
    assert [str(number) for number in found[2_000:].tolist()] == ["nan", "7.0", "nan", "nan", "nan"]
    assert peak < 1_000_000


def test_a_whole_number_that_no_float_can_hold_is_none() -> None:
    assert str(bynode.floats([1, 10**400]).tolist()) == "[1.0, nan, nan]"
