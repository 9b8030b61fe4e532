"""Expressions in the configuration: what an entry may have, and errors with file, line and caret."""

from pathlib import Path

import pytest

from bayplan.authoring.cel.schema import Object, schema_of
from bayplan.authoring.registry import Policy
from bayplan.config.assemble import assemble
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.config.load import ConfigError, parse_config
from bayplan.config.rehearse import rehearse
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

HEAD = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n"
RULES = """\
- name: same-rack
  filter: "node.metadata.labels[?'rack'].orValue('') == pod.metadata.labels[?'rack'].orValue('')"
  reason: rack differs
- name: bigger-is-better
  score: "quantity(node.status.allocatable['cpu']).asApproximateFloat()"
  weight: 2
  failurePolicy: Ignore
  for: {namespaces: ["batch-*"]}
"""


def assembled(text: str) -> list[Policy]:
    return assemble(*parse_config((HEAD + text).encode(), source="conf/bayplan.yaml"))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        assembled(text)
    return str(raised.value)


def test_expressions_become_policies_with_what_the_entry_says() -> None:
    rack, bigger = assembled(RULES)

    assert (rack.name, rack.hooks[0].title) == ("same-rack", "bayplan.yaml:5 filter")
    assert (bigger.weight, bigger.failure_policy) == (2, "Ignore")
    assert bigger.scope.matches(make_pod(namespace="batch-1"))
    assert not bigger.scope.matches(make_pod(namespace="default"))


def test_they_are_run_beside_each_other() -> None:
    cluster = make_cluster(
        [make_node("near", labels={"rack": "a"}), make_node("large", labels={"rack": "a"}, cpu=8), "far"]
    )

    result = run_policy(assembled(RULES), make_pod(namespace="batch-1", labels={"rack": "a"}), cluster)

    assert result.refused == {"far": "rack differs"}
    assert result.best == "large"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "- name: typo\n  weight: 2\n  filter: nod.metadata.name == 'x'\n",
            "conf/bayplan.yaml:6: policies[0].filter: unknown name 'nod'; did you mean 'node'?\n"
            "    nod.metadata.name == 'x'\n"
            "    ^",
            id="an unknown name",
        ),
        pytest.param(
            "- name: folded\n  score: >\n    1 +\n    pod.spec.hostname\n",
            "conf/bayplan.yaml:5: policies[0].score: pod.spec.hostname is not kept by Bayplan; these are: ",
            id="a field that is not kept, in a folded text",
        ),
        pytest.param(
            "- name: kind\n  filter: '1'\n",
            "conf/bayplan.yaml:5: policies[0].filter: want true or false, this is int",
            id="a number for a verdict",
        ),
        pytest.param(
            "- name: blank\n  filter: 'true'\n  reason: ' '\n",
            "conf/bayplan.yaml:6: policies[0].reason: a Reason needs a text",
            id="a blank reason",
        ),
        pytest.param(
            "- filter: 'true'\n", "conf/bayplan.yaml:4: policies[0]: `name` is missing", id="no name"
        ),
        pytest.param(
            "- name: x\n",
            "conf/bayplan.yaml:4: policies[0]: `use` is missing; or write an expression: filter, prefer",
            id="neither use nor an expression",
        ),
        pytest.param(
            "- use: Spread\n  filter: 'true'\n",
            "conf/bayplan.yaml:4: policies[0]: an entry has either `use` or `filter`; make two of them",
            id="both",
        ),
        pytest.param(
            "- use: Spread\n  reason: why\n",
            "has either `use` or `reason`",
            id="a reason for a policy of code",
        ),
        pytest.param(
            "- name: x\n  score: '1'\n  reason: why\n",
            "only `filter` and `prefer` give a `reason`",
            id="a score",
        ),
        pytest.param(
            "- name: x\n  score: '1'\n  args: {a: 1}\n",
            "expressions take no `args`",
            id="args of an expression",
        ),
        pytest.param(
            "- name: x\n  filter: true\n",
            "policies[0].filter: want text or nothing, got true or false; put it in quotes",
            id="no text",
        ),
        pytest.param("- name: x\n  fitler: 'true'\n", "did you mean 'filter'?", id="a key that is mistyped"),
        pytest.param(RULES + RULES, "two policies are called 'same-rack'", id="a name that is given twice"),
    ],
)
def test_an_entry_that_cannot_be_says_where_and_why(text: str, error: str) -> None:
    assert error in refusal(text)


def checked(folder: Path, rule: str, *, in_cluster: bool = True) -> list[str]:
    file = folder / "bayplan.yaml"
    file.write_text(f"{HEAD}- name: rule\n  filter: {rule}\n")
    return load_checked([], Flags(config=file, in_cluster=in_cluster or None))[1]


def test_check_runs_them_on_nodes_without_labels(tmp_path: Path) -> None:
    assert checked(tmp_path, "\"node.metadata.labels[?'rack'].orValue('') == ''\"") == []
    (problem,) = checked(tmp_path, "\"node.metadata.labels['rack'] == 'a'\"")
    assert problem.startswith("bayplan.yaml:5 filter: ExpressionFailed: policy 'rule': \"rack\" is not there")


def test_check_finds_a_column_that_needs_pods_where_there_are_none(tmp_path: Path) -> None:
    rule = "\"column['cpu.free'] > 0\""

    assert checked(tmp_path, rule) == []
    with pytest.raises(ConfigError, match=r"cpu\.free"):
        checked(tmp_path, rule, in_cluster=False)


def test_what_the_page_shows_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policies" / "expressions.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]

    policies = assemble(*parse_config(text.encode(), source="docs.yaml"))

    assert len(policies) == 7
    assert rehearse(policies, pods_known=True) == []


def test_the_page_lists_every_field_that_is_kept() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policies" / "expressions.md").read_text()
    kept = [schema_of(name) for name in ("pod", "node")]
    parts = [f.schema for schema in kept if isinstance(schema, Object) for f in schema.fields.values()]

    assert [
        n for part in parts if isinstance(part, Object) for n in part.fields if f"`{n}`" not in page
    ] == []
