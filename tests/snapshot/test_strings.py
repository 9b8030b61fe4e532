"""A column of text is compared as a whole, and absent equals nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.snapshot import strings
from bayplan.snapshot.strings import Strings

RACKS = Strings.intern(["r1", None, "r2", "r1"])
TEXTS = st.lists(st.none() | st.sampled_from(["", "a", "b", "c"]), max_size=8)


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        pytest.param(lambda s: s == "r1", [True, False, False, True], id="equal to a text"),
        pytest.param(lambda s: s != "r1", [False, True, True, False], id="unequal to a text, absent too"),
        pytest.param(lambda s: s == "r9", [False] * 4, id="equal to a text that no node has"),
        pytest.param(lambda s: s == None, [False, True, False, False], id="absent"),  # noqa: E711
        pytest.param(lambda s: s != None, [True, False, True, True], id="not absent"),  # noqa: E711
        pytest.param(lambda s: s.present, [True, False, True, True], id="present"),
        pytest.param(lambda s: s.isin(["r2", "r9"]), [False, False, True, False], id="one of some texts"),
        pytest.param(lambda s: s.isin([]), [False] * 4, id="one of no texts"),
        pytest.param(
            lambda s: s == s.take(np.arange(4)),
            [True, False, True, True],
            id="equal to its own copy where present",
        ),
    ],
)
def test_comparisons_give_one_bool_a_node(compare: Callable[[Strings], Any], expected: list[bool]) -> None:
    result = compare(RACKS)

    assert result.dtype == np.bool_
    assert result.tolist() == expected


def test_a_row_is_its_text_or_none() -> None:
    assert [RACKS[row] for row in range(len(RACKS))] == ["r1", None, "r2", "r1"]


def test_taking_rows_keeps_their_texts() -> None:
    taken = RACKS.take(np.array([2, 1], dtype=np.intp))

    assert [taken[0], taken[1]] == ["r2", None]
    assert (taken == "r2").tolist() == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(1, id="a number"),
        pytest.param(["r1", None, "r2", "r1"], id="a list"),
        pytest.param(Strings.intern(["r1"]), id="a column of another length"),
    ],
)
def test_comparing_with_anything_else_is_an_error(other: object) -> None:
    with pytest.raises(TypeError, match="cannot compare a column of text with"):
        RACKS.__eq__(other)


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda racks: racks >= 3, id="larger"),
        pytest.param(lambda racks: np.arange(4) > racks, id="the other way round"),
        pytest.param(lambda racks: 100 - racks, id="less"),
        pytest.param(lambda racks: racks * np.ones(4), id="with an array"),
    ],
)
def test_computing_with_text_says_how_to_get_numbers(compute: Callable[[Strings], object]) -> None:
    with pytest.raises(TypeError, match=r"as in Label\(KEY, float\)"):
        compute(RACKS)


def test_a_column_says_how_much_it_holds() -> None:
    assert repr(RACKS) == "Strings(4 nodes, 2 distinct)"


@settings(deadline=None)
@given(TEXTS, st.data())
def test_two_columns_are_compared_row_by_row(left: list[str | None], data: st.DataObject) -> None:
    right = data.draw(st.permutations(left))

    same = Strings.intern(left) == Strings.intern(right)

    assert same.tolist() == [a is not None and a == b for a, b in zip(left, right, strict=True)]


@given(TEXTS, st.lists(st.sampled_from(["", "a", "z"])))
def test_isin_and_find_are_what_a_loop_would_find(texts: list[str | None], wanted: list[str]) -> None:
    column = Strings.intern(texts)

    assert column.isin(wanted).tolist() == [text in wanted for text in texts]
    assert [code != -1 and column.values[code] for code in column.find(wanted).tolist()] == [
        text in texts and text for text in wanted
    ]


def test_other_rows_of_known_texts_share_what_is_known_about_them() -> None:
    column = Strings.intern(["r1", "r2"])

    assert column.patched(np.array([0]), ["r2"]).values is column.values
    assert column.take(np.array([1])).values is column.values


def test_texts_that_nobody_has_any_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "_SPARE", 0)
    column = Strings.intern(["n0", None, "stays"])

    for number in range(1, 100):
        column = column.patched(np.array([0]), [f"n{number}"])
        assert [column[row] for row in range(3)] == [f"n{number}", None, "stays"]
        assert (column == "stays").tolist() == [False, False, True]

    assert len(column.values) <= 7


def test_many_texts_are_found_in_whatever_order_they_come() -> None:
    names = [f"node-{number}" for number in range(2_000)]
    column = Strings.intern(names)

    for wanted in (names, names, names[::-1], ["no-node", *names[:1_500]], names[:10], names):
        assert column.find(wanted).tolist() == [names.index(n) if n in names else -1 for n in wanted]
