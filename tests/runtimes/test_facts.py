"""What every server says of itself to the page: no problem that ``/readyz`` names is left out."""

from datetime import UTC, datetime, timedelta

from bayplan.ops.health import Health
from bayplan.runtimes import facts

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_a_healthy_server_is_ready_and_has_no_problems() -> None:
    health = Health(ready={"cluster-view": str}, notes=lambda: {"recording": ""})

    assert facts.of_health(health) == {"ready": True}


def test_a_check_that_fails_and_a_note_are_both_named() -> None:
    health = Health(
        live={"following": str},
        ready={"cluster-view": lambda: "the cluster is not listed yet"},
        notes=lambda: {"recording": "no space left on device", "reload": ""},
    )

    assert facts.of_health(health) == {
        "ready": False,
        "problems": {"cluster-view": "the cluster is not listed yet", "recording": "no space left on device"},
    }


def test_a_note_alone_leaves_the_server_ready() -> None:
    found = facts.of_health(Health(notes=lambda: {"background": "the informer of pods ended"}))

    assert found == {"ready": True, "problems": {"background": "the informer of pods ended"}}


def test_a_certificate_that_has_expired_is_a_problem() -> None:
    assert facts.of_certificate(NOON + timedelta(seconds=1), now=NOON)["problem"] == ""
    assert "has expired" in facts.of_certificate(NOON, now=NOON)["problem"]
