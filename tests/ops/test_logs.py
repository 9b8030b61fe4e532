"""Log lines: one a message, whatever is in it; repeated warnings are held back and counted."""

import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bayplan.engine.guard import CURRENT_POD
from bayplan.ops.logs import Sparingly, set_up_logging

log = logging.getLogger("bayplan.test")


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_text_has_time_level_message_and_the_pod(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    token = CURRENT_POD.set("default/web-1")
    log.warning("%d nodes are odd", 2)
    CURRENT_POD.reset(token)
    log.debug("nobody reads this")

    (line,) = written(capsys)
    assert line[4] == "-"
    assert line.endswith("Z WARNING 2 nodes are odd pod=default/web-1")


def test_json_has_the_same_as_fields(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(json=True, level="DEBUG")
    token = CURRENT_POD.set("default/web-1")
    log.debug("hello")
    CURRENT_POD.reset(token)

    (line,) = written(capsys)
    fields = json.loads(line)
    assert (fields["level"], fields["message"], fields["pod"]) == ("debug", "hello", "default/web-1")
    assert fields["logger"] == "bayplan.test"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["time"])
    assert abs((datetime.now(UTC) - datetime.fromisoformat(fields["time"])).total_seconds()) < 60


@pytest.mark.parametrize("json_lines", [False, True], ids=["text", "json"])
def test_a_name_with_a_newline_cannot_forge_a_line(
    capsys: pytest.CaptureFixture[str], *, json_lines: bool
) -> None:
    set_up_logging(json=json_lines)

    log.warning("dropped node %s", "a\r\n2026-01-01T00:00:00Z INFO all is well")

    assert len(written(capsys)) == 1


@pytest.mark.parametrize("json_lines", [False, True], ids=["text", "json"])
def test_half_a_surrogate_pair_is_logged_all_the_same(
    capsys: pytest.CaptureFixture[str], *, json_lines: bool
) -> None:
    set_up_logging(json=json_lines)

    log.warning("node %s", "\ud800")

    text = capsys.readouterr().err
    assert "Logging error" not in text
    assert "node" in text


@pytest.mark.parametrize("json_lines", [False, True], ids=["text", "json"])
def test_an_exception_brings_its_traceback(capsys: pytest.CaptureFixture[str], *, json_lines: bool) -> None:
    set_up_logging(json=json_lines)
    try:
        raise ValueError("oops")
    except ValueError:
        log.exception("it broke")

    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "ValueError: oops" in text
    assert len(text.splitlines()) == 1 or not json_lines


def test_a_warning_is_said_once_in_a_while_with_the_number_held_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sparingly = Sparingly(every_seconds=0.05)
    for _ in range(5):
        sparingly.warn(log, "key", "it rains")
    sparingly.warn(log, "other key", "it snows")
    assert caplog.messages == ["it rains", "it snows"]

    while "it rains (and" not in caplog.text:
        sparingly.warn(log, "key", "it rains")

    assert caplog.messages[2].startswith("it rains (and ")
    held = int(caplog.messages[2].split("(and ")[1].split()[0])
    assert held >= 4


def test_many_keys_do_not_fill_the_memory() -> None:
    sparingly = Sparingly()
    quiet = logging.getLogger("bayplan.test.quiet")
    quiet.setLevel(logging.CRITICAL)
    for number in range(3000):
        sparingly.warn(quiet, f"key {number}", "x")

    assert sys.getsizeof(vars(sparingly)["_last"]) < 100_000
