"""``bayplan why`` of a pod whose answer was cut down."""

import re
from typing import Any

import msgspec
import pytest

from bayplan.cli.why_render import show_reply
from bayplan.cli.why_words import outcome
from bayplan.engine.why import Why
from bayplan.runtimes.extender.ask_why import Reply
from tests.cli.test_why import PASSED

ONE = msgspec.structs.replace(PASSED, passed=1667, kept=1, kept_nodes=["c"])
SEVERAL = msgspec.structs.replace(ONE, kept=20, kept_nodes=["c", "d", "e", "f", "g"])


def printed(why: Why, capfdbinary: Any) -> str:
    show_reply(Reply(why, "http://one:8890", []), output="table")
    text: str = capfdbinary.readouterr().out.decode()
    assert max(map(len, text.splitlines())) <= 80
    return text


def test_the_nodes_say_how_many_were_kept_and_by_which_key(capfdbinary: Any) -> None:
    text = printed(ONE, capfdbinary)

    flat = " ".join(text.split())
    assert "kept 1 of 1667 nodes that passed (extender.answer.keep: 1): c refused" in flat
    assert re.search(r"^  1  c +90.0 +- +-  cost 90.0$", text, re.MULTILINE), "nobody was told scores"
    assert "and 1665 more" in text
    assert "kube-scheduler was told no scores" in text


def test_several_that_were_kept_are_told_with_the_first_few_names(capfdbinary: Any) -> None:
    flat = " ".join(printed(SEVERAL, capfdbinary).split())

    assert "kept 20 of 1667 nodes that passed (extender.answer.keep: 20): c, d, e, f, g and 15 more" in flat
    assert "and 18 more" in flat, "those that were scored are those that were kept"


def test_a_pod_that_had_come_before_is_told_why_it_is_not_the_best(capfdbinary: Any) -> None:
    again = msgspec.structs.replace(ONE, turn=1, kept_nodes=["d"], chosen="d")

    flat = " ".join(printed(again, capfdbinary).split())

    assert "(extender.answer.keep: 1): d; the pod had come 1 time before, so others had their turn" in flat


def test_an_answer_that_was_not_cut_says_nothing_of_it(capfdbinary: Any) -> None:
    assert "kept" not in printed(PASSED, capfdbinary)


@pytest.mark.parametrize(
    ("why", "said"),
    [
        pytest.param(
            ONE,
            "kube-scheduler chose c, our best: the only node that it was told, so it asks for no scores.",
            id="the best",
        ),
        pytest.param(
            msgspec.structs.replace(ONE, kept_nodes=["d"], chosen="d"),
            "kube-scheduler chose d, our number 2: the only node that it was told, so it asks for no scores.",
            id="the second, at its turn",
        ),
        pytest.param(
            msgspec.structs.replace(ONE, chosen="d"),
            "kube-scheduler chose d, our number 2, at another attempt:"
            " the last answer had another node alone.",
            id="another one",
        ),
        pytest.param(
            msgspec.structs.replace(ONE, ranking=[]),
            "kube-scheduler chose c: the only node that it was told, so it asks for no scores.",
            id="nobody scored",
        ),
        pytest.param(
            SEVERAL,
            "kube-scheduler chose c, our best, of the 20 nodes that it was told:"
            " its own plugins had a say among those.",
            id="one of several",
        ),
    ],
)
def test_the_outcome_says_who_chose(why: Why, said: str) -> None:
    assert outcome(why) == said
