"""``extender.answer``: what may be written there, what comes of it, and that it can change."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError, parse_config
from bayplan.config.unchangeable import needs_restart
from bayplan.config.v1 import AnswerSection
from bayplan.runtimes.extender.options import changed, options_from

HEAD = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\nextender:\n  answer:\n"


def written(line: str) -> AnswerSection:
    return parse_config(f"{HEAD}    {line}\n".encode(), source="f.yaml")[0].extender.answer


@pytest.mark.parametrize(
    ("line", "most"),
    [
        pytest.param("keep: all", None, id="all"),
        pytest.param("keep: 1", 1, id="one"),
        pytest.param("keep: 500", 500, id="many"),
        pytest.param("failedNodes: always", None, id="left out"),
    ],
)
def test_keep_is_all_or_a_number(line: str, most: int | None) -> None:
    assert written(line).most == most


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("keep: 0", "want a whole number >= 1; write `all`, or the number", id="none"),
        pytest.param("keep: -1", "want a whole number >= 1; write `all`", id="less than none"),
        pytest.param("keep: some", "'some' is not allowed; write `all`, or the number", id="a word"),
        pytest.param("keep: '3'", "'3' is not allowed; write `all`, or the number", id="a number as text"),
        pytest.param("keep: 1.5", "got a number; write `all`, or the number of nodes", id="a part of one"),
        pytest.param("keep: true", "got true or false; write `all`, or the number", id="yes"),
    ],
)
def test_anything_else_is_refused_with_its_line_and_what_to_write(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        written(line)
    assert str(refused.value).startswith("f.yaml:5: extender.answer.keep: ")
    assert said in str(refused.value)


def test_a_typo_in_failed_nodes_gets_the_right_word() -> None:
    with pytest.raises(ConfigError, match="did you mean 'whenNonePass'"):
        written("failedNodes: whenNonePasses")


def test_by_default_all_nodes_that_pass_are_told_and_reasons_to_who_comes_again(tmp_path: Path) -> None:
    options = options_from(_with(tmp_path, AnswerSection()), version="test")

    assert options.keep is None
    assert options.refusals == "again"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("keep: all", "again", id="all nodes"),
        pytest.param("failedNodes: always", "always", id="all nodes, and all that were refused"),
        pytest.param("keep: 3", "whenNonePass", id="a part of them"),
        pytest.param("keep: 3\n    failedNodes: auto", "whenNonePass", id="auto"),
        pytest.param("keep: 3\n    failedNodes: always", "always", id="a part, and all that were refused"),
        pytest.param("failedNodes: whenNonePass", "whenNonePass", id="all nodes, and none that was refused"),
    ],
)
def test_when_refused_nodes_are_told(line: str, told: str) -> None:
    assert written(line).refusals == told


def test_it_can_change_while_the_server_runs(tmp_path: Path) -> None:
    before = _with(tmp_path, AnswerSection())
    after = _with(tmp_path, AnswerSection(keep=3, failed_nodes="whenNonePass"))

    assert needs_restart(before, after) == []
    options = changed(options_from(before, version="test"), after)
    assert (options.keep, options.refusals) == (3, "whenNonePass")


def _with(folder: Path, answer: AnswerSection) -> Loaded:
    file = folder / "bayplan.yaml"
    head = HEAD.partition("extender:")[0]
    file.write_text(f"{head}policies:\n- {{name: p, filter: 'true', reason: never}}\n")
    found = load_all((), Flags(config=file))
    extender = msgspec.structs.replace(found.config.extender, answer=answer)
    return replace(found, config=msgspec.structs.replace(found.config, extender=extender))


@pytest.mark.parametrize(
    ("version", "answer", "told"),
    [
        pytest.param("1.27", AnswerSection(), "always", id="who would try them for eviction"),
        pytest.param("v1.28", AnswerSection(), "again", id="who takes them for refused"),
        pytest.param("1.27", AnswerSection(failed_nodes="whenNonePass"), "whenNonePass", id="who is told to"),
    ],
)
def test_an_old_kube_scheduler_is_told_everything(
    tmp_path: Path, version: str, answer: AnswerSection, told: str
) -> None:
    loaded = _with(tmp_path, answer)
    extender = msgspec.structs.replace(loaded.config.extender, kube_scheduler_version=version)
    loaded = replace(loaded, config=msgspec.structs.replace(loaded.config, extender=extender))

    assert options_from(loaded, version="test").refusals == told
