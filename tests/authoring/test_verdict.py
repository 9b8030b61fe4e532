"""Reasons, verdicts and scores: what policies say about nodes."""

from typing import Any

import numpy as np
import pytest

from bayplan import Reason, Score, Verdict
from bayplan.authoring.verdict import DETAIL_LENGTH, REASON_LENGTH, fill
from bayplan.snapshot.strings import Strings
from bayplan.testing import make_cluster

NODES = make_cluster(["first", "second", "third"]).nodes
FULL = Reason("too little CPU", detail="{free}m free, {need}m needed")
FAR = Reason("too far away")
PLAIN = Reason("too little CPU")


def test_where_refuses_the_nodes_whose_bit_is_set() -> None:
    verdict = PLAIN.where(np.array([True, False, True]))

    assert verdict.rejected_names(NODES) == ["first", "third"]
    assert [verdict.reason(row) for row in range(3)] == [PLAIN, None, PLAIN]
    assert repr(verdict) == "Verdict(2 of 3 refused)"


def test_a_detail_has_the_numbers_of_its_node() -> None:
    verdict = FULL.where(np.array([True, False, True]), free=np.array([10, 20, 30]), need=50)

    assert [verdict.detail(row) for row in range(3)] == ["10m free, 50m needed", "", "30m free, 50m needed"]


def test_either_of_two_verdicts_refuses_and_the_first_is_shown() -> None:
    full = FULL.where([True, True, False], free=np.array([1, 2, 3]), need=9)
    far = FAR.where([True, False, True])

    both = full | far

    assert [both.reason(row) for row in range(3)] == [FULL, FULL, FAR]
    assert both.detail(1) == "2m free, 9m needed"
    assert [(far | full).reason(row) for row in range(3)] == [FAR, FULL, FAR]


def test_three_verdicts_keep_their_reasons_apart() -> None:
    late = Reason("too late")

    verdict = (
        PLAIN.where([True, False, False]) | FAR.where([False, True, False]) | late.where([True, True, True])
    )

    assert [verdict.reason(row) for row in range(3)] == [PLAIN, FAR, late]


def test_one_bit_is_for_all_nodes() -> None:
    assert PLAIN.where(True).rejected_names(NODES) == ["first", "second", "third"]
    assert PLAIN.where(False).rejected_names(NODES) == []


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(np.array([1, 0, 1]), id="numbers"),
        pytest.param(np.array([0.5, 0.0, 1.0]), id="floats"),
        pytest.param(["yes", "no", "no"], id="texts"),
    ],
)
def test_where_wants_true_or_false(mask: Any) -> None:
    with pytest.raises(TypeError, match=r"where\(\) wants true or false a node, not .*; compare it"):
        PLAIN.where(mask)


def test_more_reasons_than_there_are_numbers_for_refuse_all_the_same() -> None:
    many = 40_000

    verdict = Verdict.of(range(1, many + 1), (Reason(f"node {number} is full") for number in range(many)))

    assert verdict.refused.all()
    first, last = verdict.reason(32_765), verdict.reason(39_999)
    assert first is not None
    assert first.text == "node 32765 is full"
    assert last is not None
    assert "one of very many reasons" in last.text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("too  little\n CPU ", "too little CPU", id="blanks and line ends"),
        pytest.param("x" * 300, "x" * (REASON_LENGTH - 1) + "…", id="a text that would fill the event"),
        pytest.param("half a pair \ud800", "half a pair ?", id="what JSON cannot hold"),
    ],
)
def test_the_text_of_a_reason_is_tidied(given: str, kept: str) -> None:
    assert Reason(given).text == kept


@pytest.mark.parametrize("text", [pytest.param("", id="nothing"), pytest.param(" \n", id="blanks")])
def test_a_reason_needs_a_text(text: str) -> None:
    with pytest.raises(ValueError, match="a Reason needs a text"):
        Reason(text)


def test_what_helps_may_be_given_as_any_set() -> None:
    assert Reason("x", helped_by={"pods"}).helped_by == frozenset({"pods"})


@pytest.mark.parametrize(
    ("detail", "values", "filled"),
    [
        pytest.param("{x:.1f}s", {"x": np.array([0.25, 0.5])}, "0.5s", id="a format of its own"),
        pytest.param("{x}", {"x": [1, 2]}, "2", id="a list is a column"),
        pytest.param("{x}", {"x": Strings.intern(["a", "b"])}, "b", id="a column of text"),
        pytest.param("{x}", {"x": "ab"}, "ab", id="a text is no column"),
        pytest.param("{x}", {"x": np.float64(3)}, "3.0", id="one number for all"),
        pytest.param("{x[k]}", {"x": {"k": 7}}, "7", id="a mapping is no column"),
        pytest.param("{y}", {"x": 1}, "{y}", id="a name that is missing"),
        pytest.param(
            "{x:cpu} of {y:bytes}", {"x": np.array([1, 1500]), "y": 2**30}, "1500m of 1Gi", id="units"
        ),
        pytest.param("{x:bytes}", {"x": np.array([1.0, np.nan])}, "?", id="a unit of what nobody knows"),
        pytest.param("{x:%%}", {"x": 1}, "{x:%%}", id="a format that does not exist"),
        pytest.param("{", {}, "{", id="a bracket left open"),
        pytest.param("{x}", {"x": np.array([1])}, "{x}", id="a column that is too short"),
        pytest.param("{x.nope}", {"x": 1}, "{x.nope}", id="an attribute that does not exist"),
    ],
)
def test_details_are_filled_in_or_left_as_they_are(detail: str, values: dict[str, Any], filled: str) -> None:
    assert fill(detail, values, 1) == filled


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_value_that_cannot_be_printed_leaves_the_detail_as_it_is(error: BaseException) -> None:
    class Broken:
        def __format__(self, spec: str) -> str:
            raise error

    assert fill("{x}", {"x": Broken()}, 0) == "{x}"


def test_a_detail_is_of_bounded_length_and_json_can_hold_it() -> None:
    assert (
        fill("{x}", {"x": "half a pair \ud800" + "x" * 5000}, 0)
        == f"half a pair ?{'x' * (DETAIL_LENGTH - 14)}…"
    )
    half = Reason("no", detail="a \ud800", advice="b \ud800")
    assert (half.detail, half.advice) == ("a ?", "b ?")
    assert Score([1.0], detail="a \ud800").explain(0) == "a ?"


def test_a_score_explains_itself() -> None:
    score = Score([1.0, 2.0], detail="p95 {p95:.3f}s", p95=np.array([0.1, 0.2]))

    assert score.explain(1) == "p95 0.200s"
    assert Score([1.0]).explain(0) == ""


@pytest.mark.parametrize(
    ("values", "told"),
    [
        pytest.param({}, r"no value for \{free\} of the detail$", id="none at all"),
        pytest.param({"fre": 1, "need": 2}, r"\{free\} of the detail; did you mean 'fre'", id="a typo"),
    ],
)
def test_a_detail_that_nobody_fills_in_is_found_at_once_whoever_is_refused(
    values: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        FULL.where([False, False, False], **values)


@pytest.mark.parametrize(
    "detail", ["{used.value} of {room[0]:.1f}", "{used}{room!r:>10}", "{{free}} {used} {room}"]
)
def test_what_is_filled_in_may_be_formatted(detail: str) -> None:
    Reason("full", detail=detail).where([True], used=1, room=[2], more=3)


def test_a_detail_that_is_no_format_is_told_as_it_is() -> None:
    assert Reason("full", detail="50 % {").where([True]).detail(0) == "50 % {"


def test_news_that_there_are_not_help_nobody() -> None:
    with pytest.raises(ValueError, match="helped_by: nothing is called 'node'; did you mean 'nodes'"):
        Reason("full", helped_by=frozenset({"node"}))


def test_a_source_or_a_kind_of_object_may_help() -> None:
    topics = frozenset({"source:prices", "PersistentVolumeClaim", "time"})

    assert Reason("full", helped_by=topics).helped_by == topics


def test_one_word_of_news_is_one() -> None:
    assert Reason("full", helped_by="pods").helped_by == frozenset({"pods"})  # type: ignore[arg-type]


def test_a_number_that_nobody_knows_is_told_so() -> None:
    watts = Reason("too few watts", detail="{free:.0f} W free, {need} W needed, {free!s}")

    verdict = watts.where([True, True], free=np.array([100.0, np.nan]), need=400)

    assert [verdict.detail(row) for row in (0, 1)] == [
        "100 W free, 400 W needed, 100.0",
        "? W free, 400 W needed, ?",
    ]


def test_a_verdict_on_a_choice_of_rows_keeps_its_numbers_beside_another_one() -> None:
    rows = np.array([2, 3])
    few = Reason("too small", detail="{free} free").where([True, True], free=np.array([20, 10]))
    hot = Reason("too hot", detail="{degrees} degrees").where(
        [True, False, False, True], degrees=[90, 50, 50, 80]
    )

    spread = few.spread(rows, 4)

    assert [(spread | hot).detail(row) for row in range(4)] == ["90 degrees", "", "20 free", "10 free"]
    assert [(hot | spread).detail(row) for row in range(4)] == ["90 degrees", "", "20 free", "80 degrees"]
