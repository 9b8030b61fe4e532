"""Log lines: one a message, whatever is in it; repeated warnings are held back and counted."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bayplan.engine.guard import CURRENT_POD
from bayplan.ops.logs import LogFormat, Sparingly, set_generation, set_up_logging

log = logging.getLogger("bayplan.test")


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # Another test's server may have come to a later one in this process.
    set_generation(1)
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
    set_up_logging(format="json", level="DEBUG")
    token = CURRENT_POD.set("default/web-1")
    log.debug("hello")
    CURRENT_POD.reset(token)

    (line,) = written(capsys)
    fields = json.loads(line)
    assert (fields["level"], fields["message"], fields["pod"]) == ("debug", "hello", "default/web-1")
    assert fields["logger"] == "bayplan.test"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["time"])
    assert abs((datetime.now(UTC) - datetime.fromisoformat(fields["time"])).total_seconds()) < 60


@pytest.mark.parametrize("format", ["text", "json", "klog"])
def test_a_name_with_a_newline_cannot_forge_a_line(
    capsys: pytest.CaptureFixture[str], format: LogFormat
) -> None:
    set_up_logging(format=format)

    forged = "a\r\n2026-01-01T00:00:00Z INFO all is well"
    log.warning("dropped node %s", forged)
    log.warning("dropped it", extra={"pod": forged, "node": forged})

    assert len(written(capsys)) == 2


@pytest.mark.parametrize("format", ["text", "json", "klog"])
@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\x9b", "\x0b", "\x85", "\u2028", "\0", "\x7f"])
def test_a_terminal_obeys_nothing_that_is_logged(
    capsys: pytest.CaptureFixture[str], format: LogFormat, letter: str
) -> None:
    """A tenant may write anything into an annotation, and a policy may repeat it."""
    set_up_logging(format=format)

    log.warning("no number: %s[2Jé", letter, extra={"node": f"a{letter}b"})

    told = capsys.readouterr().err
    assert letter not in told
    assert "[2Jé" in told


@pytest.mark.parametrize("format", ["text", "json", "klog"])
def test_half_a_surrogate_pair_is_logged_all_the_same(
    capsys: pytest.CaptureFixture[str], format: LogFormat
) -> None:
    set_up_logging(format=format)

    log.warning("node %s", "\ud800", extra={"node": "\ud800"})

    text = capsys.readouterr().err
    assert "Logging error" not in text
    assert "node" in text


@pytest.mark.parametrize("format", ["text", "json", "klog"])
def test_an_exception_brings_its_traceback(capsys: pytest.CaptureFixture[str], format: LogFormat) -> None:
    set_up_logging(format=format)
    try:
        raise ValueError("oops")
    except ValueError:
        log.exception("it broke")

    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "ValueError: oops" in text
    assert len(text.splitlines()) == 1 or format != "json"


class Untraceable(Exception):
    @property
    def __traceback__(self) -> None:  # type: ignore[override]
        raise RuntimeError("nowhere")


@pytest.mark.parametrize("format", ["text", "json", "klog"])
def test_an_exception_that_cannot_be_traced_fails_nobody(
    capsys: pytest.CaptureFixture[str], format: LogFormat
) -> None:
    set_up_logging(format=format)
    try:
        try:
            raise Untraceable
        except Untraceable as error:
            raise ValueError("oops") from error
    except ValueError:
        log.exception("it broke")

    text = capsys.readouterr().err
    assert "it broke" in text
    assert "(its traceback cannot be printed)" in text


@pytest.fixture
def second_generation() -> Iterator[None]:
    set_generation(2)
    yield
    set_generation(1)


@pytest.mark.usefixtures("second_generation")
def test_json_says_what_a_line_is_about_by_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json")
    log.info("all is well")
    log.info("bound", extra={"pod": "default/web-1", "node": "node-1", "decision": 7})

    plain, bound = (json.loads(line) for line in written(capsys))
    assert list(plain) == ["time", "level", "logger", "message", "generation"]
    assert list(bound) == [*plain, "pod", "node", "decision"]
    values = (bound["generation"], bound["pod"], bound["node"], bound["decision"])
    assert values == (2, "default/web-1", "node-1", 7)


def test_klog_is_as_kube_scheduler_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="klog", level="DEBUG")
    before = datetime.now()
    log.debug("hello")
    log.info('it is "odd"', extra={"pod": "default/web-1", "node": 'a"b'})
    log.warning("w")
    log.error("e")

    first, second, *others = written(capsys)
    head = re.fullmatch(
        r"I(\d{4} \d\d:\d\d:\d\d\.\d{6}) ( *\d+) test_logs.py:\d+\] hello generation=1", first
    )
    assert head is not None
    assert len(head[2]) >= 7
    assert int(head[2]) == os.getpid()
    when = datetime.strptime(f"{before.year}{head[1]}", "%Y%m%d %H:%M:%S.%f")
    assert abs((when - before).total_seconds()) < 60
    assert second.endswith('] it is "odd" pod="default/web-1" node="a\\"b" generation=1')
    assert [line[0] for line in others] == ["W", "E"]


def test_text_does_not_repeat_what_the_message_says(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    log.warning("bind default/web-1 to a: no", extra={"pod": "default/web-1", "node": "a", "decision": 3})
    log.warning("a pod was bound", extra={"pod": "default/web-1", "node": "b"})

    first, second = written(capsys)
    assert first.endswith(" bind default/web-1 to a: no decision=3")
    assert second.endswith(" a pod was bound pod=default/web-1 node=b")


def test_a_warning_held_back_is_about_the_same_and_from_the_same_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Sparingly().warn(log, "key", "it rains", pod="default/web-1", node="node-1")

    (record,) = caplog.records
    assert (vars(record)["pod"], vars(record)["node"]) == ("default/web-1", "node-1")
    assert record.filename == "test_logs.py"


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
        sparingly.warn(quiet, f"key {number}", "x")

    assert sys.getsizeof(vars(sparingly)["_last"]) < 100_000
    assert sys.getsizeof(vars(sparingly)["_held"]) < 100_000
