"""Arguments of the built-ins in a configuration file: what is mistyped is found, with its line."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args

import msgspec
import pytest

from bayplan.authoring.args import Args
from bayplan.authoring.installed import built_ins
from bayplan.authoring.load import load
from bayplan.config.assemble import assemble
from bayplan.config.load import ConfigError, load_config
from bayplan.config.rehearse import rehearse

PAGES = Path(__file__).parents[2] / "docs" / "policies"
HEAD = """\
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
policies:
"""


def assembled(policies: str, folder: Path) -> list[object]:
    path = folder / "bayplan.yaml"
    path.write_text(HEAD + dedent(policies))
    policy = assemble(*load_config(path))
    assert rehearse(policy, pods_known=True) == []
    return list(policy)


@pytest.mark.parametrize(
    ("policies", "line", "message"),
    [
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                - notWith:
                    podSelector:
                      matchLabel: {app: db}
            """,
            11,
            "policies[0].args.rules[1].notWith.podSelector.matchLabel: unknown key; did you mean",
            id="a key deep in a rule",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - notwith: {sameLabel: customer}
            """,
            8,
            "policies[0].args.rules[0].notwith: unknown key; did you mean 'notWith'?",
            id="a key of a rule",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                  onMissing:
                    node: Pass
            """,
            10,
            "policies[0].args.rules[0].onMissing.node: 'Pass' is not allowed; did you mean 'pass'?",
            id="a value of a rule",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                  operator: Equals
            """,
            9,
            "policies[0].args.rules[0].operator: 'Equals' is not allowed; did you mean 'Equal'?",
            id="an operator",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                  with: {sameOwner: true}
            """,
            8,
            "policies[0].args.rules[0]: a rule has one of `podLabel`, `with`, `notWith`, `near`;",
            id="two rules in one",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - with: {sameOwner: true}
                  operator: NotIn
            """,
            8,
            "policies[0].args.rules[0]: `nodeLabel`, `nodeAnnotation`, `operator`, `separator` and ",
            id="a rule between pods with a key of another",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                  by: rack
            """,
            8,
            "policies[0].args.rules[0]: `by` and `symmetric` are for rules between pods",
            id="a rule between labels with a key of another",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                  nodeLabel: teams
                  operator: In
            """,
            8,
            "policies[0].args.rules[0]: no label can hold a comma",
            id="a list that cannot be",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - podLabel: team
                  nodeLabel: team
                  nodeAnnotation: team
            """,
            8,
            "policies[0].args.rules[0]: give `nodeLabel` or `nodeAnnotation`, not both",
            id="a label that is an annotation",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - with: {sameOwner: true}
                  symmetric: true
            """,
            8,
            "policies[0].args.rules[0]: `with` cannot be symmetric",
            id="a rule that nobody could be first to keep",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules: []
            """,
            7,
            "policies[0].args.rules: want a list of length >= 1",
            id="no rules",
        ),
        pytest.param(
            """
            - use: Spread
              args:
                maxPerDomain: 3
                pods:
                  sameOwners: true
            """,
            9,
            "policies[0].args.pods.sameOwners: unknown key; did you mean 'sameOwner'?",
            id="a key of a group",
        ),
        pytest.param(
            """
            - use: Spread
              args:
                maxPerDomain: 3
                pods:
                  differentLabel: customer
            """,
            9,
            "policies[0].args.pods.differentLabel: unknown key",
            id="a group of strangers",
        ),
        pytest.param(
            """
            - use: Spread
              args: {maxPerDomain: 3}
            """,
            6,
            "policies[0].args: `pods` is missing",
            id="nobody to spread",
        ),
        pytest.param(
            """
            - use: Spread
              args:
                pods: {}
                maxPerDomain: 0
            """,
            8,
            "policies[0].args.maxPerDomain: want a whole number >= 1",
            id="a limit of none",
        ),
        pytest.param(
            """
            - use: Spread
              args: {pods: {}}
            """,
            6,
            "policies[0].args: give `maxPerDomain`, `preferAtMost`, `maxSkew` or several",
            id="no limit",
        ),
        pytest.param(
            """
            - use: Spread
              args: {pods: {}, max: 2}
            """,
            6,
            "policies[0].args.max: unknown key; did you mean 'maxSkew' or 'maxPerDomain'?",
            id="a limit that could be one of two",
        ),
        pytest.param(
            """
            - use: Spread
              args: {pods: {}, maxPerDomain: 1, whenUnsatisfiable: ScheduleAnyway}
            """,
            6,
            "policies[0].args: `whenUnsatisfiable` says how `maxSkew` is meant; `maxPerDomain` is always a",
            id="a wish that is none",
        ),
        pytest.param(
            """
            - use: Spread
              args: {pods: {}, maxSkew: 1, minDomains: 2, whenUnsatisfiable: ScheduleAnyway}
            """,
            6,
            "policies[0].args: `minDomains` is for `whenUnsatisfiable: DoNotSchedule`",
            id="a wish for domains",
        ),
        pytest.param(
            """
            - use: LeastAllocated
              args:
                resources:
                - {name: cpu, wieght: 2}
            """,
            8,
            "policies[0].args.resources[0].wieght: unknown key; did you mean 'weight'?",
            id="a key of a resource",
        ),
        pytest.param(
            """
            - use: MostAllocated
              args:
                resources:
                - name: cpu
                - name: memroy
            """,
            9,
            "policies[0].args.resources[1]: no resource 'memroy'; did you mean 'memory'?",
            id="a resource",
        ),
        pytest.param(
            """
            - use: MostAllocated
              args:
                resources:
                - name: gpu
            """,
            8,
            "policies[0].args.resources[0]: no resource 'gpu'; extended resources are written as vendor/name,"
            " such as 'nvidia.com/gpu'; the others are cpu, memory, ephemeral-storage, pods",
            id="an extended resource without its vendor",
        ),
        pytest.param(
            """
            - use: BalancedAllocation
              args:
                resources: [{name: cpu}, {name: cpu}]
            """,
            6,
            "policies[0].args: resource 'cpu' is there twice",
            id="a resource that is there twice",
        ),
        pytest.param(
            """
            - use: SharedResource
              args:
                resource: example.com/gpu-milli
                capacity: example.com/gpus
                deviceCount:
                  anotation: example.com/gpu-count
            """,
            10,
            "policies[0].args.deviceCount.anotation: unknown key; did you mean 'annotation'?",
            id="where the number of devices stands",
        ),
        pytest.param(
            """
            - use: Preemption
              args:
                cost: [victims, evictioncost]
            """,
            7,
            "policies[0].args.cost[1]: 'evictioncost' is not allowed; did you mean 'eviction-cost'?",
            id="a cost that is none",
        ),
        pytest.param(
            """
            - use: Preemption
              args:
                protect:
                - priority: {min: 5}
                - ownerKinds: [Deployment]
            """,
            9,
            "policies[0].args.protect[1]: ownerKinds: the pods of a Deployment belong to its ReplicaSet",
            id="who is protected",
        ),
        pytest.param(
            """
            - use: Preemption
              for:
                priority: {mim: 5}
            """,
            7,
            "policies[0].for.priority.mim: unknown key; did you mean 'min'?",
            id="a priority in the scope",
        ),
        pytest.param(
            """
            - use: MostAvailableCPU
              args: {headroomMilli: -1}
            """,
            6,
            "policies[0].args.headroomMilli: want a whole number >= 0",
            id="less than no headroom",
        ),
    ],
)
def test_a_mistake_is_an_error_with_its_line(policies: str, line: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as found:
        assembled(policies, tmp_path)

    assert str(found.value).startswith(f"{tmp_path / 'bayplan.yaml'}:{line}: {message}")


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - notWith: {differentLabel: customer}
            """,
            id="customers never share a node",
        ),
        pytest.param(
            """
            - use: Affinity
              args:
                rules:
                - {podLabel: team, nodeLabel: team}
            """,
            id="pods of a team only on the team's nodes",
        ),
        pytest.param(
            """
            - use: Spread
              args:
                pods: {sameOwner: true}
                by: rack
                maxPerDomain: 3
            """,
            id="at most 3 replicas in a rack",
        ),
    ],
)
def test_what_people_want_takes_five_lines(policy: str, tmp_path: Path) -> None:
    assert len(dedent(policy).strip().splitlines()) <= 5
    assert len(assembled(policy, tmp_path)) == 1


@pytest.mark.parametrize(
    ("use", "args"),
    [
        pytest.param("Spread", {"pods": {"sameOwner": True}, "maxPerDomain": 1}, id="a limit"),
        pytest.param(
            "Spread",
            {"pods": {"sameOwner": True}, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            id="a wish for evenness",
        ),
        pytest.param("Affinity", {"rules": [{"with": {"sameLabel": "job"}}]}, id="a rule between pods"),
        pytest.param("Affinity", {"rules": [{"near": {"sameLabel": "job"}}]}, id="a wish between pods"),
    ],
)
def test_a_rule_about_pods_is_refused_at_load_where_pods_are_not_known(
    use: str, args: dict[str, Any]
) -> None:
    (found,) = load(use)

    problems = rehearse([found.make(args=args)], pods_known=False)

    assert problems
    assert all("counting pods needs the placed pods" in problem for problem in problems)


@pytest.mark.parametrize("name", sorted(built_ins()))
def test_every_argument_is_on_the_page_and_what_the_page_shows_works(name: str, tmp_path: Path) -> None:
    page = (PAGES / f"{built_ins()[name].rpartition('.')[2].replace('_', '-')}.md").read_text()
    shown = [
        text
        for text in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
        if text.startswith("apiVersion: bayplan.dev")
    ]
    (found,) = load(name)

    assert found.name == name
    assert found.schema is not None
    assert [key for key in _keys(found.schema) if not re.search(rf"[`.]{key}[`.]", page)] == []
    assert shown
    for number, text in enumerate(shown):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert rehearse(assemble(*load_config(path)), pods_known=True) == []


def _keys(kind: Any) -> Iterator[str]:
    """The keys of a struct and, where they are rules of our own, of the structs in it."""
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for inner in (field.type, *get_args(field.type)):
            rule = inner if isinstance(inner, type) else next(iter(get_args(inner)), None)
            if isinstance(rule, type) and issubclass(rule, Args):
                yield from _keys(rule)
