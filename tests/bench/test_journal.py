"""The benchmark of the journal runs, and the journal's part of a filter call stays small."""

import pytest

from bench import journal

# What others do on the machine only adds to it: one calm run is enough, and is waited for within bounds.
CALM_TRIES = 20


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
    parts: list[float] = []
    while len(parts) < CALM_TRIES and min(parts, default=1.0) > journal.MAX_PART:
        call, part = journal.part_of_a_filter_call(5000, 40)
        parts.append(part / call)

    assert min(parts) <= journal.MAX_PART, parts


@pytest.mark.alone
def test_a_call_hardly_notices_that_it_is_written_to_disk() -> None:
    parts: list[float] = []
    while len(parts) < CALM_TRIES and min(parts, default=1.0) > journal.MAX_PART:
        run = journal.disk_beside_filter_calls(5000, 4, pause_seconds=journal.PAUSE_SECONDS)
        parts.append((run.with_seconds - run.without_seconds) / run.without_seconds)

    assert min(parts) <= journal.MAX_PART, parts
    assert run.line_bytes < 50_000
