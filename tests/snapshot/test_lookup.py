"""Rows are found by hash as they are in a dictionary, however many names there are."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.snapshot import lookup
from bayplan.snapshot.lookup import UNKNOWN_ROW, NodeRows, _HashTable


def rows_of(count: int) -> NodeRows:
    return NodeRows({f"node-{number:05}.example.internal": number for number in range(count)})


@pytest.mark.parametrize("count", [0, 1, 10, 1499, 1500, 20_000])
def test_every_name_is_found_and_a_stranger_is_not(count: int) -> None:
    rows = rows_of(count)
    asked = [*rows, "stranger", ""]
    random.Random(count).shuffle(asked)

    assert rows.find(asked).tolist() == [rows.get(name, UNKNOWN_ROW) for name in asked]


def test_a_few_names_of_many_are_found_and_many_of_a_few() -> None:
    rows = rows_of(5000)

    assert rows.find(["node-00007.example.internal"]).tolist() == [7]
    assert rows_of(3).find([f"stranger-{number}" for number in range(2000)]).max() == UNKNOWN_ROW


@settings(max_examples=200, deadline=None)
@given(
    keys=st.lists(st.integers(0, 40), unique=True),
    asked=st.lists(st.integers(0, 40), max_size=60),
    stride=st.sampled_from([1, 64, 2**40]),
)
def test_hashes_that_crowd_in_one_place_are_told_apart(
    keys: list[int], asked: list[int], stride: int
) -> None:
    hashes = np.array([key * stride - 2**50 for key in keys], dtype=np.int64)
    table = _HashTable(hashes, np.arange(len(keys), dtype=np.int32) * 3)
    known = {key: row * 3 for row, key in enumerate(keys)}

    found = table.find(np.array([key * stride - 2**50 for key in asked], dtype=np.int64))

    assert found.tolist() == [known.get(key, UNKNOWN_ROW) for key in asked]


def test_where_two_names_have_one_hash_the_dictionary_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "hash", len, raising=False)
    rows = rows_of(2000)

    assert rows.find(list(rows)).tolist() == list(range(2000))


@pytest.mark.parametrize("count", [1, 10, 1499, 1500, 5000])
def test_each_has_its_row_unless_one_is_a_stranger_or_there_twice(count: int) -> None:
    rows = rows_of(5000)
    asked = random.Random(count).sample(list(rows), count)

    found = rows.find_each(asked)
    assert found is not None
    assert found.tolist() == [rows[name] for name in asked]
    assert rows.find_each([*asked[:-1], "stranger"]) is None
    assert rows.find_each([*asked, asked[0]]) is None


def test_few_names_are_found_in_plain_numbers() -> None:
    rows = NodeRows({"a": 0, "b": 1, "c": 2})

    assert rows.find_few(["c", "a"]) == ([2, 0], {0, 2})
    assert rows.find_few(["c", "stranger"]) is None
    assert rows.find_few(["c", "c"]) is None
    assert rows.find_few([]) == ([], set())
