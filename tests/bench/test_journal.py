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


def test_a_decision_over_five_thousand_nodes_is_a_short_line_on_disk() -> None:
    disk = journal.disk_beside_filter_calls(5000, 1, pause_seconds=0.0)

    assert 0 < disk.line_bytes < 50_000


@pytest.mark.parametrize(
    ("part", "disk", "said"),
    [
        pytest.param(0.05, 0.05, [], id="both within the budget"),
        pytest.param(0.06, 0.0, ["writing down takes 6.0% of a call"], id="writing down takes too long"),
        pytest.param(0.0, 0.07, ["the disk adds 7.0% to a call"], id="calls notice the disk"),
    ],
)
def test_what_is_over_the_budget_is_named(part: float, disk: float, said: list[str]) -> None:
    found = journal.over_budget(1.0, part, journal.Disk(1.0, 1.0 + disk, 0.0))

    assert found == [f"{each}, over the budget of 5%" for each in said]
