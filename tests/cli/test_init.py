"""``bayplan init --policy``: every built-in has a starter that works as it stands and leaves nothing out."""

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan import Args
from bayplan.cli.main import commands
from bayplan.cli.starter import names, policy_files
from bayplan.config.load import parse_config
from bayplan.policies import BUILT_INS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bayplan"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def arguments_of(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Names as written in YAML, also those of arguments within arguments."""
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for inner in _parts(field.type):
            if isinstance(inner, type) and issubclass(inner, Args):
                yield from arguments_of(inner)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


@pytest.mark.parametrize("name", names())
def test_a_starter_passes_the_check_as_it_was_written(name: str, tmp_path: Path) -> None:
    written = run("init", tmp_path / "mine", "--policy", name)
    checked = run("check", "--config", tmp_path / "mine" / "bayplan.yaml")

    assert written.exit_code == 0, written.output
    assert checked.exit_code == 0, checked.output
    assert "and on the cluster's 3" in checked.output


@pytest.mark.parametrize("name", BUILT_INS)
def test_every_built_in_has_a_starter_that_names_all_its_arguments(name: str) -> None:
    text = policy_files([name])["bayplan.yaml"]
    config, _ = parse_config(text.encode(), source="starter")
    args = getattr(importlib.import_module(BUILT_INS[name]), f"{name}Args")

    assert [policy.use for policy in config.policies] == [name]
    assert [key for key in arguments_of(args) if f"{key}:" not in text] == []


@pytest.mark.parametrize("name", BUILT_INS)
def test_a_starter_explains_each_argument_where_it_first_comes(name: str) -> None:
    lines = policy_files([name])["bayplan.yaml"].splitlines()
    args = getattr(importlib.import_module(BUILT_INS[name]), f"{name}Args")
    first = {
        key: next(line for line in lines if re.search(rf"\b{key}: *\S", line)) for key in arguments_of(args)
    }

    assert [key for key, line in first.items() if not re.search(r"\S +# \S", line)] == []


def test_starters_can_be_combined(tmp_path: Path) -> None:
    given = [argument for name in names() for argument in ("--policy", name)]

    assert run("init", tmp_path, *given).exit_code == 0
    checked = run("check", "--config", tmp_path / "bayplan.yaml")
    scheduler = yaml.safe_load((tmp_path / "scheduler.yaml").read_text())["extenders"]

    assert checked.exit_code == 0, checked.output
    assert f"ok: {len(names()) + 1} policies" in checked.output, "expressions are two"
    assert scheduler[0]["bindVerb"] == "bind"
    assert "managedResources" not in scheduler[0], "it would keep all other pods from the other policies"


def test_one_that_hands_out_devices_tells_kube_scheduler_so() -> None:
    extender = yaml.safe_load(policy_files(["shared-resource"])["scheduler.yaml"])["extenders"][0]

    assert extender["bindVerb"] == "bind"
    assert extender["managedResources"] == [{"name": "example.com/gpu-memory", "ignoredByScheduler": True}]


def test_one_that_only_scores_leaves_binding_to_kube_scheduler() -> None:
    extender = yaml.safe_load(policy_files(["least-allocated"])["scheduler.yaml"])["extenders"][0]

    assert "bindVerb" not in extender


@pytest.mark.parametrize("name", ["most-available-cpu", "MostAvailableCPU", "most_available_cpu"])
def test_a_policy_may_be_given_as_people_spell_it(name: str) -> None:
    assert "use: MostAvailableCPU" in policy_files([name])["bayplan.yaml"]


def test_a_policy_that_is_given_twice_is_there_once() -> None:
    assert policy_files(["cost", "Cost"])["bayplan.yaml"].count("use: Cost") == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("spred", "no policy 'spred'; did you mean 'spread'?", id="a typo"),
        pytest.param("Bogus", "no policy 'Bogus'; there are: affinity, ", id="nothing like it"),
    ],
)
def test_an_unknown_policy_is_refused_with_the_right_name(tmp_path: Path, name: str, said: str) -> None:
    refused = run("init", tmp_path / "mine", "--policy", name)

    assert refused.exit_code == 2
    assert said in refused.output
    assert not (tmp_path / "mine").exists()


def test_help_lists_the_names() -> None:
    listed = " ".join(run("init", "--help").output.split())

    assert [name for name in names() if name not in listed] == []


def test_the_next_commands_are_told(tmp_path: Path) -> None:
    said = run("init", tmp_path, "--policy", "cost").output

    told = [line.strip() for line in said.partition("Next:\n")[2].splitlines()]
    assert told == [
        f"cd {tmp_path}",
        "bayplan check --config bayplan.yaml",
        "bayplan serve --config bayplan.yaml",
    ]
    assert "python -m pytest" not in said, "there is nothing to test"


def test_a_starter_replaces_nothing_unless_forced(tmp_path: Path) -> None:
    mine = tmp_path / "bayplan.yaml"
    mine.write_text("# mine")

    refused = run("init", tmp_path, "--policy", "cost")

    assert refused.exit_code == 1
    assert "bayplan.yaml exists already; --force replaces it" in refused.output
    assert mine.read_text() == "# mine"
    assert not (tmp_path / "cluster.json").exists(), "nothing is written by halves"

    assert run("init", tmp_path, "--policy", "cost", "--force").exit_code == 0
    assert "use: Cost" in mine.read_text()


def test_the_texts_are_part_of_what_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["bayplan"]
    installed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    texts = {path for path in (PACKAGE / "cli" / "starters").rglob("*") if path.is_file()}

    assert texts
    assert texts - installed == set()
