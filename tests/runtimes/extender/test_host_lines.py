"""Lines side by side say what lines that are put together one by one say."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan.engine.guard import Attempt
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender import answer
from bayplan.runtimes.extender.assemble import Spelling
from bayplan.runtimes.extender.host_lines import HostLines
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.testing import make_cluster, make_node
from bayplan.testing.run import ready
from tests.runtimes.extender.caller import make_pod, names_request

NAMES = [f"node-{number}.example.internal" for number in range(120)]


@settings(deadline=None)
@given(
    told=st.lists(
        st.tuples(st.integers(0, 119), st.integers(0, 10)), min_size=1, unique_by=lambda each: each[0]
    )
)
def test_each_node_is_told_with_its_score_in_the_order_of_the_question(told: list[tuple[int, int]]) -> None:
    lines = HostLines.of(NAMES)
    assert lines is not None

    rows, scores = (np.array(column) for column in zip(*told, strict=True))

    said = json.loads(lines.answer(rows, scores))
    assert said == [{"Host": NAMES[row], "Score": score} for row, score in told]


def test_the_lines_stay_as_they_are() -> None:
    lines = HostLines.of(NAMES)
    assert lines is not None
    ten, none = (np.full(120, score) for score in (10, 0))
    rows = np.arange(120)

    before = lines.answer(rows, none)
    lines.answer(rows, ten)

    assert lines.answer(rows, none) == before


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["a", "b" * 200, "c"], id="of very different lengths"),
        pytest.param(["zürich-1", "zürich-2"], id="not of single bytes"),
    ],
)
def test_names_that_do_not_fit_side_by_side_have_no_lines(names: list[str]) -> None:
    assert HostLines.of(names) is None


def test_lines_are_made_once_for_a_list_and_not_of_names_that_need_escapes() -> None:
    spelling = Spelling()
    others = ['say "no"', 'say "yes"']

    assert spelling.host_lines(NAMES) is spelling.host_lines(NAMES)
    assert spelling.host_lines(others) is None


@pytest.mark.parametrize(
    "names", [NAMES, [*NAMES[:-1], "x" * 200]], ids=["of one length", "of very different lengths"]
)
def test_a_verb_says_the_same_in_both_ways(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    @bayplan.score(range=(0, 100))
    def points(nodes: bayplan.NodeTable) -> list[int]:
        return [hash(name) % 101 for name in nodes.names]

    verbs = Verbs(ready(points, None), Metrics(version="0"))
    cluster = make_cluster([make_node(name) for name in names], [])
    asked = [*reversed(names)][:100]
    body = msgspec.json.encode(names_request(asked, pod=make_pod()))
    one_by_one = verbs.prioritize(body, cluster, Attempt()).body

    monkeypatch.setattr(answer, "MANY", 100)
    side_by_side = verbs.prioritize(body, cluster, Attempt()).body

    assert json.loads(side_by_side) == json.loads(one_by_one)
    assert side_by_side.startswith(b'[{"Score":') == (names is NAMES)
