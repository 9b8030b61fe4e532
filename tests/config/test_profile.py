"""A KubeSchedulerConfiguration gives the profile that kube-scheduler would have."""

from pathlib import Path
from textwrap import dedent

import pytest

from bayplan import Profile
from bayplan.config.kube_scheduler import Plugin, Plugins, PluginSet, enabled
from bayplan.config.load import ConfigError
from bayplan.config.profile import read_profiles
from bayplan.engine.choose import Choice, choose
from bayplan.policies.default_profile import DEFAULT_PROFILE, WEIGHTS
from bayplan.testing import make_cluster, make_node, make_pod

HEAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""


@pytest.fixture
def read(tmp_path: Path) -> "Read":
    return Read(tmp_path / "scheduler.yaml")


class Read:
    """A configuration as text, and what became of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, text: str, scheduler: str = "default-scheduler") -> Profile:
        self.path.write_text(HEAD + dedent(text))
        return Profile.read(self.path, scheduler)


def weights(profile: Profile) -> dict[str, float]:
    scoring = [policy for policy in profile.policies if policy.of_kind("score")]
    return {policy.name: policy.weight for policy in scoring}


def names(profile: Profile) -> list[str]:
    return [policy.name for policy in profile.policies]


def chosen(profile: Profile, *, cpu: int = 8) -> Choice:
    from datetime import UTC, datetime

    cluster = make_cluster(
        [
            make_node("tainted", taints=[{"key": "gpu", "value": "a", "effect": "NoSchedule"}]),
            make_node("small", cpu=4),
            make_node("large", cpu=64),
        ]
    )
    return choose(profile.policies, make_pod(cpu=cpu), cluster, now=datetime(2026, 11, 15, tzinfo=UTC))


def test_the_default_profile_has_kube_schedulers_order_and_weights() -> None:
    profile = Profile.default()

    assert names(profile) == list(DEFAULT_PROFILE)
    assert weights(profile) == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert chosen(profile).feasible == ["large"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing said"),
        pytest.param("profiles: [{}]", id="an empty profile"),
        pytest.param("profiles: [{schedulerName: default-scheduler}]", id="a name"),
        pytest.param("clientConnection: {qps: 50}\nextenders: []\nparallelism: 16", id="other things"),
    ],
)
def test_a_file_that_changes_nothing_is_the_default_profile(text: str, read: Read) -> None:
    profile = read(text)

    assert names(profile) == names(Profile.default())
    assert weights(profile) == weights(Profile.default())


def test_a_disabled_plugin_does_not_judge(read: Read) -> None:
    profile = read(
        """
        profiles:
        - plugins:
            multiPoint:
              disabled: [{name: NodeResourcesFit}]
        """
    )

    assert "NodeResourcesFit" not in names(profile)
    assert chosen(profile).feasible == ["small", "large"]


def test_a_plugin_may_be_disabled_at_one_point(read: Read) -> None:
    profile = read(
        """
        profiles:
        - plugins:
            filter: {disabled: [{name: TaintToleration}]}
            score: {disabled: [{name: NodeResourcesFit}]}
        """
    )

    assert chosen(profile, cpu=1).feasible == ["tainted", "small", "large"]
    assert "NodeResourcesFit" not in weights(profile)
    assert chosen(profile).feasible == ["large"]


@pytest.mark.parametrize(
    ("plugins", "evicts"),
    [
        pytest.param("{}", True, id="as it is"),
        pytest.param("{multiPoint: {disabled: [{name: DefaultPreemption}]}}", False, id="disabled"),
        pytest.param("{postFilter: {disabled: [{name: DefaultPreemption}]}}", False, id="at its point"),
        pytest.param("{postFilter: {disabled: [{name: '*'}]}}", False, id="with all others at its point"),
        pytest.param("{multiPoint: {disabled: [{name: '*'}]}}", False, id="with everything"),
        pytest.param(
            "{multiPoint: {disabled: [{name: '*'}]}, postFilter: {enabled: [{name: DefaultPreemption}]}}",
            True,
            id="named again",
        ),
        pytest.param("{preFilter: {disabled: [{name: '*'}]}}", True, id="another point"),
    ],
)
def test_a_profile_says_whether_pods_may_be_evicted(plugins: str, evicts: bool, read: Read) -> None:
    assert (read(f"profiles: [{{plugins: {plugins}}}]").preemption is not None) is evicts


def test_how_many_candidates_are_looked_for_may_be_changed(read: Read) -> None:
    profile = read(
        """
        profiles:
        - pluginConfig:
          - name: DefaultPreemption
            args: {minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 5}
        """
    )

    assert profile.preemption is not None
    assert [profile.preemption.enough(nodes) for nodes in (3, 10, 1000)] == [3, 5, 200]
    default = Profile.default().preemption
    assert default is not None
    assert [default.enough(nodes) for nodes in (3, 500, 5000)] == [3, 100, 500]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{minCandidates: 3}", "minCandidates: unknown key; did you mean"),
        ("{minCandidateNodesPercentage: 101}", "minCandidateNodesPercentage"),
        ("{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}", "are both 0"),
    ],
)
def test_mistakes_in_the_arguments_of_preemption_are_told(args: str, message: str, read: Read) -> None:
    with pytest.raises(ConfigError, match=message):
        read(f"profiles: [{{pluginConfig: [{{name: DefaultPreemption, args: {args}}}]}}]")


def test_a_weight_may_be_changed_at_the_point_or_everywhere(read: Read) -> None:
    profile = read(
        """
        profiles:
        - plugins:
            score: {enabled: [{name: ImageLocality, weight: 7}]}
            multiPoint: {enabled: [{name: NodeAffinity, weight: 9}, {name: TaintToleration}]}
        """
    )

    found = weights(profile)
    assert (found["ImageLocality"], found["NodeAffinity"]) == (7, 9)
    # Named anew without a weight, it counts once: kube-scheduler forgets the default of 3 there, too.
    assert found["TaintToleration"] == 1


def test_everything_may_be_disabled_but_what_is_named(read: Read) -> None:
    profile = read(
        """
        profiles:
        - plugins:
            multiPoint: {disabled: [{name: "*"}], enabled: [{name: NodeName}, {name: NodeResourcesFit}]}
            score: {disabled: [{name: "*"}]}
        """
    )

    assert names(profile) == ["NodeName", "NodeResourcesFit"]
    assert weights(profile) == {}


def test_the_arguments_of_a_plugin_are_its_policys(read: Read) -> None:
    text = """
        profiles:
        - pluginConfig:
          - name: NodeResourcesFit
            args:
              apiVersion: kubescheduler.config.k8s.io/v1
              kind: NodeResourcesFitArgs
              scoringStrategy:
                type: {type}
                resources: [{{name: cpu, weight: 1}}]
        """

    least, most = (read(text.format(type=kind)) for kind in ("LeastAllocated", "MostAllocated"))

    assert (chosen(least, cpu=1).best, chosen(most, cpu=1).best) == (["large"], ["small"])


def test_each_profile_has_its_own_name(read: Read) -> None:
    text = """
        percentageOfNodesToScore: 50
        profiles:
        - schedulerName: default-scheduler
        - schedulerName: no-scores
          percentageOfNodesToScore: 100
          plugins: {score: {disabled: [{name: "*"}]}}
        """

    assert weights(read(text, "no-scores")) == {}
    assert [
        (profile.scheduler_name, profile.percentage_of_nodes_to_score) for profile in read_profiles(read.path)
    ] == [("default-scheduler", 50), ("no-scores", 100)]


def test_plugins_that_nobody_here_knows_are_named(read: Read) -> None:
    profile = read("profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}}]")

    assert profile.left_out == ("Coscheduling",)
    assert names(profile) == names(Profile.default())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "profiles: [{plugins: {scores: {}}}]",
            "scheduler.yaml:3: profiles[0].plugins.scores: unknown key; did you mean 'score'?",
            id="a point that is none",
        ),
        pytest.param(
            "profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: {hardPodAffinityWeigth: 3}",
            "scheduler.yaml:6: profiles[0].pluginConfig[0].args.hardPodAffinityWeigth: unknown key;"
            " did you mean 'hardPodAffinityWeight'?",
            id="an argument that is none",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {}]",
            "scheduler.yaml:3: profiles[1].schedulerName: each of several profiles needs a schedulerName",
            id="a profile without a name",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "scheduler.yaml:3: profiles[1].schedulerName: two profiles for scheduler 'a'",
            id="two of one name",
        ),
        pytest.param(
            "profiles: [{schedulerName: default-schedular}]",
            "scheduler.yaml: no profile for scheduler 'default-scheduler'; did you mean 'default-schedular'?",
            id="another scheduler's file",
        ),
    ],
)
def test_a_mistake_is_an_error_with_its_line(text: str, message: str, read: Read) -> None:
    with pytest.raises(ConfigError) as found:
        read(text)

    assert str(found.value) == str(read.path.parent / message)


def test_another_file_is_told_from_this_one(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\n")

    with pytest.raises(ConfigError, match="no KubeSchedulerConfiguration in it"):
        Profile.read(path)


def test_what_a_point_overrides_goes_before_what_is_enabled_everywhere() -> None:
    plugins = Plugins(
        multi_point=PluginSet(disabled=(Plugin("B"),)),
        filter=PluginSet(enabled=(Plugin("New"), Plugin("C"))),
    )

    found = enabled(plugins, {"A": 1, "B": 1, "C": 1, "D": 1})

    assert found.names[:4] == ("C", "A", "D", "New")
    assert found.points["New"] == {"filter"}


def test_weights_are_those_of_names_that_exist() -> None:
    assert set(WEIGHTS) <= set(DEFAULT_PROFILE)
