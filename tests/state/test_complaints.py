"""What is said of a problem that several share, and when it is said again."""

import time

import pytest

from bayplan.state.complaints import Complaints


def test_it_is_new_again_once_the_pause_of_who_said_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    complaints = Complaints()

    assert complaints.is_new("down", pause_seconds=2)
    assert not complaints.is_new("down", pause_seconds=60)
    assert complaints.is_new("refused", pause_seconds=2)
    clock[0] += 2
    assert complaints.is_new("down", pause_seconds=2)
