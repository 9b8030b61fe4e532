"""The benchmark of the journal runs, and the journal's part of a filter call stays small."""

import pytest

from bench import journal


def test_it_prints_what_a_decision_costs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["journal", "--nodes", "40", "--rounds", "2"])

    journal.main()

    said = capsys.readouterr().out
    assert "| a filter call |" in said
    assert "| on disk too, calls with pauses |" in said
    assert "| on disk too, calls without a pause |" in said


@pytest.mark.alone
def test_writing_down_takes_a_twentieth_of_a_filter_call_at_most() -> None:
    # Others work on the machine too: what it costs is what it costs in the quietest run.
    runs = [journal.part_of_a_filter_call(5000, 40) for _ in range(3)]

    assert min(part / call for call, part in runs) <= journal.MAX_PART, runs


@pytest.mark.alone
def test_a_call_hardly_notices_that_it_is_written_to_disk() -> None:
    runs = [journal.disk_beside_filter_calls(5000, 12, pause_seconds=journal.PAUSE_SECONDS) for _ in range(4)]

    parts = [(each.with_seconds - each.without_seconds) / each.without_seconds for each in runs]
    assert min(parts) <= journal.MAX_PART, parts
    assert max(each.line_bytes for each in runs) < 50_000
