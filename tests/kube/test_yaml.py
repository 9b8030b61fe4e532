"""YAML is read strictly, and errors say where."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.yaml import Document, YamlError, read_documents, suggest


def read(text: str | bytes) -> Document:
    (document,) = read_documents(text, source="file.yaml")
    return document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: text", {"a": "text"}, id="text"),
        pytest.param(
            "a: 4\nb: 0.5\nc: true\nd: null", {"a": 4, "b": 0.5, "c": True, "d": None}, id="JSON scalars"
        ),
        pytest.param("a: [1, {b: 2}]", {"a": [1, {"b": 2}]}, id="nested values"),
        pytest.param('{"a": {"b": [1]}}', {"a": {"b": [1]}}, id="JSON is YAML"),
        pytest.param("a: 2026-11-15", {"a": "2026-11-15"}, id="a date stays text"),
        pytest.param("a: 2026-11-15T19:08:22Z", {"a": "2026-11-15T19:08:22Z"}, id="a timestamp stays text"),
        pytest.param("a: !!timestamp 2026-11-15", {"a": "2026-11-15"}, id="also where it is called one"),
        pytest.param("a: 12:30", {"a": "12:30"}, id="a time of day is no number"),
        pytest.param("a: =", {"a": "="}, id="an equals sign is text"),
        pytest.param("a: !!binary YQ==", {"a": "YQ=="}, id="binary stays the text that JSON would have"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an alias"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}, id="a merge"),
        pytest.param(
            "a: &x {b: 1}\nc: {<<: *x, b: 2}", {"a": {"b": 1}, "c": {"b": 2}}, id="a key wins over a merge"
        ),
        pytest.param(
            "a: &x {b: 1}\nc: {b: 2, <<: *x}", {"a": {"b": 1}, "c": {"b": 2}}, id="also when it came first"
        ),
        pytest.param(
            "a: &x {b: 1}\nd: &y {b: 3, e: 4}\nc: {<<: [*x, *y]}",
            {"a": {"b": 1}, "d": {"b": 3, "e": 4}, "c": {"b": 1, "e": 4}},
            id="of several merged, the first wins",
        ),
    ],
)
def test_reads(text: str, expected: Any) -> None:
    assert read(text).data == expected


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(b"\xef\xbb\xbfa: 1", id="UTF-8 with a byte order mark"),
        pytest.param("a: 1".encode("utf-16"), id="UTF-16, as PowerShell writes it"),
    ],
)
def test_reads_bytes_as_editors_write_them(encoded: bytes) -> None:
    assert read(encoded).data == {"a": 1}


def test_reads_several_documents_and_leaves_out_empty_ones() -> None:
    documents = list(read_documents("a: 1\n---\n---\nb: 2\n", source="file.yaml"))

    assert [document.data for document in documents] == [{"a": 1}, {"b": 2}]
    assert [document.line(()) for document in documents] == [1, 4]


def test_every_value_knows_its_line() -> None:
    document = read("a: 1\nb:\n  - x\n  - c: 2\n    d: 3\n")

    assert document.line(("a",)) == 1
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "d")) == 5


def test_a_path_that_is_not_there_has_the_line_of_its_nearest_parent() -> None:
    document = read("a: 1\nb:\n  c: 2\n")

    assert document.line(("b", "missing", 3)) == 2
    assert document.line(("nowhere",)) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            "a: [1", "file.yaml:2:1: not valid YAML: did not find", id="a bracket that is not closed"
        ),
        pytest.param("a: 1\n\tb: 2", "file.yaml:2:1: not valid YAML: found a tab", id="a tab"),
        pytest.param(
            "a:\n\t- b", "file.yaml:2:1: not valid YAML: a tab, where YAML wants spaces", id="a tab first"
        ),
        pytest.param(
            "a: @x", "file.yaml:1:4: not valid YAML: found character that cannot start", id="an at sign"
        ),
        pytest.param(
            "a: 1\nb: 2\na: 3",
            r"file.yaml:3: key 'a' is given twice \(first on line 1\); keep one of them",
            id="a key given twice",
        ),
        pytest.param("on: 1", "file.yaml:1: a key must be text; put quotes around it", id="a bool as a key"),
        pytest.param("? [a]\n: 1", "file.yaml:1: a key must be text", id="a list as a key"),
        pytest.param(
            "x: 1\na: !!python/name:os.system ''", "file.yaml:2: tag .* is not allowed", id="a Python tag"
        ),
        pytest.param("a: !!int abc", "file.yaml:1: 'abc' is no int", id="a number that is none"),
        pytest.param("a: 0b_", "file.yaml:1: '0b_' is no int", id="a binary number without digits"),
        pytest.param("a: !!bool maybe", "file.yaml:1: 'maybe' is no bool", id="a bool that is none"),
        pytest.param("a: {<<: 1}", "file.yaml:1: only a mapping can be merged", id="a merge of a number"),
        pytest.param(
            "a: b ? c : d",
            "file.yaml:1:10: not valid YAML: a `: ` where no key can be; a text that has one needs quotes",
            id="a colon in a text without quotes",
        ),
        pytest.param("a: *x", "file.yaml:1:4: not valid YAML: found undefined alias", id="an unknown alias"),
        pytest.param(
            "a: @x", "cannot start any token; a text that begins with @ needs quotes$", id="at sign"
        ),
        pytest.param(
            "a: [*]", "numeric character; a text that begins with [*] or & needs quotes$", id="a star"
        ),
        pytest.param("a: *x", "alias; a text that begins with [*] needs quotes$", id="a star before a word"),
        pytest.param(
            "a: !b.c", "tag '!b.c' is not allowed; a text that begins with ! needs quotes$", id="not, in CEL"
        ),
        pytest.param("a: !(b)", "a text that begins with ! needs quotes$", id="not, before brackets"),
        pytest.param("a: !!python/name:x", "tag .*x' is not allowed$", id="a tag that somebody meant"),
        pytest.param(
            "a: 'b' in c",
            "file.yaml:1:8: not valid YAML: text after the closing '; a text with ' in it needs the other",
            id="an expression that begins with a quote",
        ),
        pytest.param(
            'a: "b == "ä""',
            'file.yaml:1:11: not valid YAML: text after the closing "; a text with " in it',
            id="quotes in quotes",
        ),
        pytest.param(
            "a:\n  b: 1\n c: 2\n",
            "file.yaml:3:2: .*; keys of one mapping need one indentation$",
            id="too far left",
        ),
        pytest.param(
            'a: 1\nb: "c\nd: 2\n',
            "file.yaml:4:1: not valid YAML: found unexpected end of stream; a quote of line 2 is not closed$",
            id="a quote that is not closed",
        ),
        pytest.param(
            r'a: "matches(\d)"',
            "unknown escape character; between double quotes a backslash is written twice, between single",
            id="a regular expression in double quotes",
        ),
        pytest.param("a: &x [*x]", "file.yaml: nested too deeply", id="a list within itself"),
        pytest.param("[" * 100_000, "file.yaml: nested too deeply", id="a hundred thousand brackets"),
        pytest.param("- " * 100_000, "file.yaml: nested too deeply", id="a hundred thousand dashes"),
        pytest.param("a: \x00", "file.yaml: not valid YAML", id="a control character"),
    ],
)
def test_refuses(text: str, complaint: str) -> None:
    with pytest.raises(YamlError, match=complaint):
        read(text)


def test_refuses_bytes_that_are_no_text() -> None:
    with pytest.raises(YamlError, match="not valid YAML"):
        read(b"a: \xff")


@pytest.mark.parametrize(
    ("word", "known", "tail"),
    [
        pytest.param("polices", ["policies", "extender"], "; did you mean 'policies'?", id="a near miss"),
        pytest.param(
            "max",
            ["by", "maxPerDomain", "maxSkew", "pods"],
            "; did you mean 'maxSkew' or 'maxPerDomain'?",
            id="the first word of several",
        ),
        pytest.param(
            "min",
            ["maxSkew", "minDomainsThatAreThere"],
            "; did you mean 'minDomainsThatAreThere'?",
            id="the first word of one",
        ),
        pytest.param("a", [f"aWord{i}" for i in range(30)], "", id="the first word of too many"),
        pytest.param("zzz", ["b", "a"], "; known here: a, b", id="nothing near, few names"),
        pytest.param("zzz", [f"name-{i}" for i in range(30)], "", id="nothing near, many names"),
        pytest.param("zzz", [], "", id="nothing at all"),
    ],
)
def test_suggests(word: str, known: list[str], tail: str) -> None:
    assert suggest(word, known) == tail


def test_of_very_many_names_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else sends them, 400,000 in one document: comparing each would take seconds."""
    taken: list[int] = []
    compared: list[int] = []

    def known() -> Iterator[str]:
        for number in range(400_000):
            taken.append(number)
            yield f"hots{number}"

    def close(word: str, names: list[str], **settings: Any) -> list[str]:
        compared.append(len(names))
        return get_close_matches(word, names, **settings)

    monkeypatch.setattr("difflib.get_close_matches", close)

    assert suggest("hosts", known()) == "; did you mean 'hots9'?"
    assert len(taken) <= 20_001
    assert compared == [1000]


def test_of_many_names_those_with_the_same_first_letter_are_compared() -> None:
    known = [f"ip-10-0-{number}" for number in range(5000)]

    assert suggest("worker-a1", [*known, "worker-1"]) == "; did you mean 'worker-1'?"
    assert suggest("worker-a1", known) == ""


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60) | st.text("ab:-[]{},&*!<>|?'\"\n 01#%@`~=.", max_size=40).map(str.encode))
def test_any_bytes_are_documents_or_a_yaml_error(content: bytes) -> None:
    places: list[str] = []
    try:
        places += [document.source for document in read_documents(content, source="file.yaml")]
    except YamlError as error:
        places.append(str(error))

    assert all(place.startswith("file.yaml") for place in places)


def bomb(first: str, line: str, lines: int) -> str:
    """Each line names the one before nine times."""
    made = [f"a0: &a0 {first}"]
    for number in range(1, lines):
        nine = ",".join([f"*a{number - 1}"] * 9)
        made.append(f"a{number}: &a{number} " + line.replace("NINE", nine))
    return "\n".join(made)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(bomb("[x,x,x,x,x,x,x,x,x]", "[NINE]", 10), id="lists of lists"),
        pytest.param(bomb("{}", "{<<: [NINE]}", 8), id="merges of nothing"),
        pytest.param("\n---\n".join([bomb("[x]", "[NINE]", 5)] * 100), id="a little in each document"),
    ],
)
def test_aliases_that_blow_a_text_up_are_refused_before_they_cost_much(text: str) -> None:
    with pytest.raises(YamlError, match="too many aliases") as caught:
        list(read_documents(text, source="file.yaml"))

    (values,) = re.findall(r"more than (\d+) values", str(caught.value))
    assert int(values) <= 100_000 + 4 * len(text)


def test_a_text_without_aliases_is_never_too_much() -> None:
    assert len(read("[" + "x," * 150_000 + "]").data) == 150_000


def test_an_honest_text_may_name_one_part_many_times() -> None:
    part = ", ".join(f"k{number}: {number}" for number in range(100))
    document = read(f"a: &a {{{part}}}\nb: [{', '.join(['*a'] * 900)}]")

    assert len(document.data["b"]) == 900
    assert document.data["b"][899]["k99"] == 99
