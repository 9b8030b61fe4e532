"""Edits in place: one value changes, and nothing beside it."""

import pytest

from bayplan.doctor.edit import CannotEdit, edited
from bayplan.doctor.finding import Put, Remove, Rename, Repair

BLOCK = "a: 1  # one\nlist:\n- first: x # two\n  second: y\nlast: {k: v, l: w}\n"


@pytest.mark.parametrize(
    ("repair", "text"),
    [
        pytest.param(Put(("a",), 2), BLOCK.replace("a: 1", "a: 2"), id="a number"),
        pytest.param(Put(("a",), "5s"), BLOCK.replace("a: 1", "a: 5s"), id="a text that needs no quotes"),
        pytest.param(Put(("a",), "true"), BLOCK.replace("a: 1", 'a: "true"'), id="a text that needs them"),
        pytest.param(Put(("a",), "a: b"), BLOCK.replace("a: 1", 'a: "a: b"'), id="a text with a colon"),
        pytest.param(
            Put(("list", 0, "third"), value=True, after="first"),
            BLOCK.replace("# two\n", "# two\n  third: true\n"),
            id="a new key in a list",
        ),
        pytest.param(
            Put(("last", "m"), 3, after="k"), BLOCK.replace("k: v", "k: v, m: 3"), id="a new key in braces"
        ),
        pytest.param(
            Put(("b",), 3, after="list"),
            BLOCK.replace("list:", "b: 3\nlist:"),
            id="beside what has many lines",
        ),
        pytest.param(
            Rename(("list", 0, "first"), "1st"), BLOCK.replace("first", "1st"), id="another name for a key"
        ),
        pytest.param(Remove(("list", 0, "second")), BLOCK.replace("  second: y\n", ""), id="a whole line"),
        pytest.param(
            Remove(("list", 0, "first")),
            BLOCK.replace("- first: x # two\n  second", "- second"),
            id="the first key of an element",
        ),
        pytest.param(Remove(("last", "k")), BLOCK.replace("k: v, ", ""), id="the first in braces"),
        pytest.param(Remove(("last", "l")), BLOCK.replace(", l: w", ""), id="the last in braces"),
    ],
)
def test_one_thing_changes(repair: Repair, text: str) -> None:
    assert edited(BLOCK, 0, repair) == text


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        pytest.param("a: |\n  text\n", Put(("a",), 1), id="a block of text"),
        pytest.param("a: [1]\n", Put(("a",), 1), id="a list"),
        pytest.param("a: 1\n", Remove(("b",)), id="a key that is not there"),
        pytest.param("a: 1\n", Put(("b", "c"), 1), id="a mapping that is not there"),
        pytest.param("- a\n", Put(("a",), 1), id="no mapping"),
        pytest.param("- a: 1\n", Remove((0, "a")), id="the only key of an element"),
    ],
)
def test_what_has_no_place_is_refused(text: str, repair: Repair) -> None:
    with pytest.raises(CannotEdit):
        edited(text, 0, repair)


def test_a_value_that_is_not_there_yet_goes_behind_the_colon() -> None:
    assert edited("weight:\nname: x\n", 0, Put(("weight",), 1)) == "weight: 1\nname: x\n"


def test_a_mapping_without_its_last_key_is_an_empty_one() -> None:
    assert edited("a:\n  b: 1\nc: 2\n", 0, Remove(("a", "b"))) == "a:\n  {}\nc: 2\n"


def test_only_the_document_that_is_meant_changes() -> None:
    assert edited("a: 1\n---\n~\n---\na: 1\n", 1, Put(("a",), 2)) == "a: 1\n---\n~\n---\na: 2\n"


def test_a_file_without_a_last_newline_gets_one_before_a_new_line() -> None:
    assert edited("a: 1", 0, Put(("b",), 2, after="a")) == "a: 1\nb: 2\n"
