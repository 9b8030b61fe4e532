"""Words of other tools: each leads to a command or a policy that there is."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import commands
from bayplan.cli.starter import names
from bayplan.cli.suggestion import COMMANDS_MEANT, POLICIES_MEANT, nearest


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param("explain", "'why pod/NAME'?", id="as kubectl has it"),
        pytest.param("What-If", "'why -f POD.yaml', 'compare' or 'replay'?", id="capitals and a hyphen"),
        pytest.param("validate", "'check'?", id="a word for check"),
        pytest.param("manifests", "'render'?", id="a word for render"),
        pytest.param("run", "'serve' or 'schedule'?", id="two doors"),
        pytest.param("record", "'serve --record FILE'?", id="an option of a command"),
    ],
)
def test_a_command_of_another_tool_is_answered_with_ours(word: str, said: str) -> None:
    refused = run(word, "pod/web")

    assert refused.exit_code == 2
    assert f"no command {word!r}; did you mean {said}" in refused.output


@pytest.mark.parametrize("hint", sorted({one for meant in COMMANDS_MEANT.values() for one in meant}))
def test_a_command_that_is_hinted_at_is_there_with_its_options(hint: str) -> None:
    words = [word for word in hint.split() if word.islower() and "/" not in word]
    options = [word for word in words if word.startswith("-")]

    helped = run(*(word for word in words if word not in options), "--help")

    assert helped.exit_code == 0, helped.output
    assert [option for option in options if option not in helped.output] == []


def test_a_command_that_there_is_means_itself() -> None:
    known = [name.replace("-", "") for name in commands.list_commands(None)]  # type: ignore[arg-type]

    assert set(known) & set(COMMANDS_MEANT) == set()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param("gpu", "'shared-resource'?", id="what is shared"),
        pytest.param("GPU-Sharing", "'shared-resource'?", id="as people spell it"),
        pytest.param("bin-packing", "'most-allocated'?", id="what is done"),
        pytest.param("quota", "'resource-limits' or 'cost'?", id="two that might be meant"),
        pytest.param("load-aware", "'load'?", id="how others call it"),
    ],
)
def test_a_policy_by_another_word_is_answered_with_its_name(tmp_path: Path, word: str, said: str) -> None:
    refused = run("init", tmp_path / "mine", "--policy", word)

    assert refused.exit_code == 2
    assert f"no policy {word!r}; did you mean {said}" in refused.output


@pytest.mark.parametrize("word", ["gang", "coscheduling"])
def test_who_looks_for_a_policy_for_gangs_hears_that_none_is_needed(tmp_path: Path, word: str) -> None:
    refused = run("init", tmp_path / "mine", "--policy", word)

    assert refused.exit_code == 2
    assert "gangs need none; `bayplan schedule` heeds labels of the pods" in refused.output


def test_policies_that_are_hinted_at_are_there() -> None:
    hinted = {one for meant in POLICIES_MEANT.values() for one in meant}

    assert hinted - set(names()) == set()
    assert {name.replace("-", "") for name in names()} & set(POLICIES_MEANT) == set()


def test_without_other_words_the_nearest_name_counts() -> None:
    assert nearest("explain", ["expand"]) == "; did you mean 'expand'?"
