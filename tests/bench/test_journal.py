"""The benchmark of the journal runs, and the journal's part of a filter call stays small."""

import pytest

from bench import journal


def test_it_prints_what_a_decision_costs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["journal", "--nodes", "40", "--rounds", "2"])

    journal.main()

    assert "| a filter call |" in capsys.readouterr().out


def test_writing_down_takes_a_twentieth_of_a_filter_call_at_most() -> None:
    # Others work on the machine too: what it costs is what it costs in the quietest run.
    runs = [journal.part_of_a_filter_call(5000, 40) for _ in range(3)]

    assert min(part / call for call, part in runs) <= journal.MAX_PART, runs
