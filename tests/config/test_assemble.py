"""From entries of a configuration, or files on the command line, to policies."""

from pathlib import Path
from typing import Any

import pytest

import bayplan
from bayplan.config.assemble import assemble, from_files
from bayplan.config.load import ConfigError, parse_config
from bayplan.testing import make_pod

HEAD = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n"
POLICY = """
import bayplan

class LimitArgs(bayplan.Args):
    limit: int = 3

@bayplan.filter
def small(pod, node, args: LimitArgs):
    return len(node.name) <= args.limit or "name too long"
"""
TWO = """
import bayplan

@bayplan.policy
class First:
    @bayplan.filter
    def a(self, pod, node): ...

@bayplan.policy
class Second:
    @bayplan.filter
    def b(self, pod, node): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "limit.py").write_text(POLICY)
    (tmp_path / "two.py").write_text(TWO)
    (tmp_path / "needs.py").write_text(POLICY.replace("limit: int = 3", "limit: int"))
    (tmp_path / "broken.py").write_text("import bayplan\n\n1 / 0\n")
    (tmp_path / "typo.py").write_text("import bayplan\n\n@bayplan.filter\ndef f(pod, noed): ...\n")
    (tmp_path / "syntax.py").write_text("import bayplan\n\ndef f(:\n")
    (tmp_path / "empty.py").write_text("")
    return tmp_path


def assembled(folder: Path, text: str) -> list[Any]:
    source = folder / "bayplan.yaml"
    return assemble(*parse_config((HEAD + text).encode(), source=str(source)))


def test_policies_keep_their_order_and_their_settings(folder: Path) -> None:
    first, second = assembled(
        folder,
        "- use: limit.py\n  name: short\n  weight: 3\n  failurePolicy: Ignore\n  args: {limit: 9}\n"
        "  for: {podSelector: {matchLabels: {tier: batch}}}\n"
        "- use: two.py:Second\n",
    )

    assert (first.name, first.weight, first.failure_policy) == ("short", 3, "Ignore")
    assert first.hooks[0].args.limit == 9
    assert first.scope.matches(make_pod(labels={"tier": "batch"}))
    assert not first.scope.matches(make_pod())
    assert (second.name, second.weight, second.failure_policy) == ("Second", 1, "Fail")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "- use: limit.py\n  args: {limti: 3}\n",
            "bayplan.yaml:5: policies[0].args.limti: unknown key; did you mean 'limit'?",
            id="a typo in args",
        ),
        pytest.param(
            "- use: limit.py\n  args: {limit: many}\n",
            "bayplan.yaml:5: policies[0].args.limit: want a whole number, got text",
            id="a wrong type in args",
        ),
        pytest.param(
            "- use: limit.py\n  args: {limit: '3'}\n",
            "args.limit: want a whole number, got text; leave the quotes out",
            id="a number in quotes in args",
        ),
        pytest.param("- use: missing.py\n", "bayplan.yaml:4: ", id="no such file"),
        pytest.param(
            "- use: typo.py\n", "unknown parameter 'noed'; did you mean 'node'?", id="a typo in the code"
        ),
        pytest.param("- use: broken.py\n", "broken.py:3: ZeroDivisionError", id="code that raises"),
        pytest.param("- use: syntax.py\n", "syntax.py:3: ", id="no Python"),
        pytest.param("- use: empty.py\n", "no policy in it; decorate a function", id="no policy"),
        pytest.param("- use: two.py:Frist\n", "did you mean 'First'?", id="a typo in a name"),
        pytest.param(
            "- use: two.py\n  name: x\n", "two.py has 2 policies; name one, such as", id="one name for two"
        ),
        pytest.param("- use: two.py:First\n  args: {a: 1}\n", "First takes no args", id="args for nobody"),
        pytest.param(
            "- use: other.yaml\n", "other.yaml is not a policy; want a Python file", id="a YAML file"
        ),
        pytest.param("- use: .\n", "is a directory; give a file, such as", id="a directory"),
        pytest.param("- use: no_such_module\n", "a file (policy.py)", id="no such module"),
        pytest.param(
            "- use: limit.py\n- use: two.py\n- use: limit.py\n",
            "bayplan.yaml:6: two policies are called 'limit'",
            id="one name twice",
        ),
    ],
)
def test_mistakes_say_where(folder: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        assembled(folder, text)

    assert "bayplan.yaml:" in str(caught.value)
    assert error in str(caught.value)


def test_files_on_the_command_line_get_their_defaults(folder: Path) -> None:
    policies = from_files([str(folder / "limit.py"), str(folder / "two.py")])

    assert [policy.name for policy in policies] == ["limit", "First", "Second"]
    assert policies[0].hooks[0].args.limit == 3


def test_a_file_that_needs_arguments_sends_to_the_configuration(folder: Path) -> None:
    with pytest.raises(
        bayplan.PolicyError, match=r"needs needs arguments: .*`limit`.*give them in a file, --config"
    ):
        from_files([str(folder / "needs.py")])


def test_one_file_twice_on_the_command_line_is_an_error(folder: Path) -> None:
    with pytest.raises(bayplan.PolicyError, match="two policies are called 'limit'"):
        from_files([str(folder / "limit.py")] * 2)
