"""Labels of gangs that come to an extender are told, not heeded."""

import pytest

from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.runtimes.extender.gang_labels import GangLabels
from bayplan.testing import make_pod


def test_a_gang_that_nobody_heeds_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(on_entry=[GangLabels().look])

    for gang in ("a", "a", "b"):
        journal.note("bind", PodRef.of(make_pod(labels={"bayplan.dev/gang": gang})), generation=1, node="n")
    journal.note("bind", PodRef.of(make_pod(labels={"app": "web"})), generation=1, node="n")

    assert len(caplog.messages) == 2
    assert "has the label bayplan.dev/gang, and is judged alone" in caplog.messages[0]
