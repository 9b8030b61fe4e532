"""Health in the words of Kubernetes."""

import pytest

from bayplan.ops.health import Health


def healthy() -> str:
    return ""


def broken() -> str:
    return "it is broken"


@pytest.mark.parametrize(
    ("live", "ready", "states"),
    [
        pytest.param(healthy, healthy, (True, True, True), id="all is well"),
        pytest.param(healthy, broken, (True, False, False), id="readiness does not cost liveness"),
        pytest.param(broken, healthy, (False, False, False), id="the dead are not ready"),
    ],
)
def test_endpoints(live: object, ready: object, states: tuple[bool, bool, bool]) -> None:
    health = Health(live={"threads": live}, ready={"view": ready})  # type: ignore[dict-item]

    found = tuple(health.report(name, verbose=False)[0] for name in ("livez", "readyz", "healthz"))

    assert found == states


def test_results_are_by_check_and_endpoint() -> None:
    health = Health(live={"threads": healthy}, ready={"view": broken})

    assert health.results() == {("threads", "livez"): True, ("view", "readyz"): False}


def test_a_healthy_endpoint_says_ok_and_no_more() -> None:
    assert Health(live={"threads": healthy}).report("livez", verbose=False) == (True, "ok")


def test_a_remark_is_listed_and_is_no_problem() -> None:
    health = Health(ready={"view": healthy}, remarks=lambda: {"leader": "another server binds", "b": ""})

    assert health.problems() == {}
    assert health.report("readyz", verbose=True) == (
        True,
        "[+]view ok\n[!]leader: another server binds\nreadyz check passed\n",
    )


def test_verbose_lists_every_check_and_a_failed_one_is_always_listed() -> None:
    health = Health(
        live={"threads": healthy},
        ready={"view": broken},
        notes=lambda: {"policy a": "it is broken", "b": ""},
    )

    alive, lines = health.report("livez", verbose=True)
    ready, failed = health.report("readyz", verbose=False)

    assert (alive, ready) == (True, False)
    assert lines == "[+]threads ok\n[!]policy a: it is broken\nlivez check passed\n"
    assert failed == (
        "[+]threads ok\n[-]view failed: it is broken\n[!]policy a: it is broken\nreadyz check failed\n"
    )
