"""Too many connections of people and their tools: what the log says to do about it."""

from typing import Any

import pytest

from bayplan.runtimes.connection import HttpServer
from bayplan.runtimes.limits import Limits


async def nobody_asks(_request: object) -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        pytest.param(
            "extender.limits.maxConnections",
            "raise extender.limits.maxConnections",
            id="where one can set it",
        ),
        pytest.param("", "find out who keeps so many, and close some", id="where nobody can"),
    ],
)
async def test_who_reads_the_log_is_told_what_can_be_done(
    caplog: pytest.LogCaptureFixture, setting: str, hint: str
) -> None:
    server = HttpServer(nobody_asks, Limits(max_connections=0), setting=setting)

    assert server.full()

    assert caplog.messages == [f"0 connections are open, more are refused: {hint}"]
