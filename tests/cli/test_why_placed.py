"""``bayplan why`` of a pod that Bayplan places itself: kube-scheduler has no part in it."""

import re
from typing import Any

import pytest

from bayplan.cli.why_words import outcome
from bayplan.engine.ranking import Ranked
from bayplan.engine.why import Why
from tests.cli.test_why import PASSED, WAITS, changed, printed

PLACED = changed(PASSED, schedules=True, never_offered=0, never_offered_nodes=[])
NOWHERE = changed(PLACED, chosen="")
EQUAL = [Ranked(node, 90.0, 0, 0.0, [], place) for place, node in enumerate("cd", 1)]


@pytest.mark.parametrize(
    "why",
    [
        pytest.param(PLACED, id="on a node"),
        pytest.param(NOWHERE, id="on none"),
        pytest.param(changed(WAITS, schedules=True, never_offered=0, event="0/4 nodes"), id="refused"),
        pytest.param(changed(NOWHERE, error="policy cost failed"), id="no answer"),
        pytest.param(changed(NOWHERE, bind_error="409 Conflict"), id="bind"),
    ],
)
def test_nothing_is_said_of_kube_scheduler(why: Why, capfdbinary: Any) -> None:
    assert "kube-scheduler" not in printed(why, capfdbinary)


def test_the_ranking_has_no_columns_of_what_nobody_was_told(capfdbinary: Any) -> None:
    text = printed(changed(PLACED, passed=3), capfdbinary)

    assert re.search(r"^ +node +total +total is made of$", text, re.MULTILINE)
    assert re.search(r"^  1  c +90.0  cost 90.0$", text, re.MULTILINE)
    assert "and 1 more" in text
    assert "The highest is taken." in " ".join(text.split())


def test_every_node_is_looked_at(capfdbinary: Any) -> None:
    text = printed(PLACED, capfdbinary)

    assert re.search(r"offered +4  all there are$", text, re.MULTILINE)
    assert "never offered" not in text


def test_a_pod_that_was_let_in_just_now_was_judged_on_no_node(capfdbinary: Any) -> None:
    let_in = changed(NOWHERE, offered=0, passed=0, ranking=[], refused=[], hooks=[], never_offered=None)

    text = printed(let_in, capfdbinary)

    assert "It was let into the queue, and is not judged yet." in text
    assert "Nodes" not in text
    assert "without a cluster" not in text


def test_but_where_room_was_made_for_the_pod(capfdbinary: Any) -> None:
    made = changed(
        PLACED, offered=1, passed=1, ranking=[], never_offered=3, never_offered_nodes=["a", "b", "d"]
    )

    flat = " ".join(printed(made, capfdbinary).split())

    assert "offered 1 room was made for the pod there" in flat
    assert "never offered 3 not looked at: room was made for the pod on the other: a, b, d" in flat


@pytest.mark.parametrize(
    ("why", "said"),
    [
        pytest.param(PLACED, "Bayplan chose c: the best.", id="the best"),
        pytest.param(
            changed(PLACED, ranking=EQUAL, chosen="d"), "Bayplan chose d: as good as c.", id="an equal"
        ),
        pytest.param(
            changed(PLACED, chosen="d"),
            "Bayplan chose d, number 2 of the last attempt:"
            " it was chosen at another one, or by somebody else.",
            id="the second",
        ),
        pytest.param(
            changed(PLACED, chosen="z"),
            "Bayplan chose z, which was not among the nodes that were scored:"
            " it was chosen at another attempt, or by somebody else.",
            id="another one",
        ),
        pytest.param(
            changed(PLACED, passed=1, ranking=[]),
            "Bayplan chose c, the only node that passed.",
            id="the only one",
        ),
        pytest.param(
            changed(PLACED, ranking=[]),
            "Bayplan chose c: no policy scored the nodes, so any would do.",
            id="no scores",
        ),
        pytest.param(
            changed(WAITS, schedules=True, never_offered=0, chosen="a"),
            "The pod is on a: it was placed after the last attempt, or by somebody else.",
            id="although none passed",
        ),
        pytest.param(
            NOWHERE,
            "2 nodes passed, and the pod is on none that this server sees:"
            " it is on its way, or it has ended.",
            id="on its way",
        ),
        pytest.param(
            changed(NOWHERE, pods_seen=False),
            "Where the pod went is not in the journal: nobody saw it on a node before the server was gone.",
            id="from a journal",
        ),
        pytest.param(
            changed(NOWHERE, bind_error="409 Conflict"),
            "The bind was refused; the pod is tried again.",
            id="bind",
        ),
        pytest.param(
            changed(NOWHERE, error="policy cost failed"),
            "There was no answer: the pod is tried again.",
            id="no answer",
        ),
        pytest.param(
            changed(NOWHERE, kept_out="too many of this team"),
            "It is kept out of the queue: too many of this team."
            " It is asked about again when that may change.",
            id="kept out",
        ),
    ],
)
def test_the_outcome_says_who_chose(why: Why, said: str) -> None:
    assert outcome(why) == said
