"""An entry about an answer that was cut down goes to disk and comes back."""

import msgspec
import numpy as np
import pytest

from bayplan.engine.entry import Entry
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.engine.keep import Turns, filter_and_keep
from bayplan.recording.journal_lines import DecisionLine
from bayplan.recording.journal_telling import entry_of, line_of
from bayplan.recording.lines import RecordingError
from bayplan.recording.packed import pack
from tests.web.decided import POLICIES, ask, cluster_of


def cut(*, keep: int = 2, turn: int = 0) -> Entry:
    """What the journal has of it."""
    attempt = Attempt(turn=turn)
    _, decision = filter_and_keep(POLICIES, ask(cluster_of(30)), attempt, keep=keep, turns=Turns())
    assert decision is not None
    return Journal().write("keep", decision, generation=1)


def through_a_line(entry: Entry) -> Entry:
    text = msgspec.json.encode(line_of(entry, nodes=1))
    return entry_of(msgspec.json.decode(text, type=DecisionLine), list(entry.names))


def test_what_was_kept_comes_back_as_it_was() -> None:
    entry = cut(turn=3)

    again = through_a_line(entry)

    assert again.kept_names() == entry.kept_names()
    assert len(entry.kept_names()) == 2
    assert again.turn == 3
    assert through_a_line(cut()).turn == 0


def test_the_best_come_first_and_a_few_can_be_had() -> None:
    entry = cut(keep=5)
    assert entry.kept is not None
    assert entry.total is not None

    assert entry.kept_names(2) == entry.kept_names()[:2]
    scores = entry.total[entry.kept].tolist()
    assert scores == sorted(scores, reverse=True)


def test_what_was_kept_counts_in_the_journals_size() -> None:
    assert cut(keep=9).nbytes - cut(keep=1).nbytes == 8 * 4


def test_a_line_that_keeps_a_node_which_was_not_asked_about_is_refused() -> None:
    entry = cut()
    line = line_of(entry, nodes=1)
    wrong = msgspec.structs.replace(line, kept=pack(np.array([len(entry.rows)], dtype=np.uint32)))

    with pytest.raises(RecordingError, match="a kept node that was not asked about"):
        entry_of(wrong, list(entry.names))
