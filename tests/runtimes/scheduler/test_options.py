"""Whose pods, which policies, which Lease: from flags and the configuration."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.config.unchangeable import scheduler_needs_restart
from bayplan.runtimes.scheduler.options import Options, cautions, options_from
from bayplan.runtimes.scheduler.profiles import profiles_from
from tests.client.serving import write_kubeconfig

ONE = {"profiles": [{"schedulerName": "one"}]}
TWO = {"profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}]}


def write(folder: Path, **sections: Any) -> Path:
    document = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", **sections}
    path = folder / "bayplan.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def options(folder: Path, sections: dict[str, Any] | None = None, **flags: Any) -> Options:
    kubeconfig = write_kubeconfig(folder, cluster={"server": "https://127.0.0.1:1"})
    config = write(folder, **sections) if sections else None
    return options_from(load_all([], Flags(config=config, kubeconfig=kubeconfig, **flags)), version="0")


def names(policies: Any) -> list[str]:
    return [policy.name for policy in policies]


def test_without_a_word_it_is_the_default_profile_for_pods_of_bayplan_scheduler(tmp_path: Path) -> None:
    found = options(tmp_path)

    assert list(found.profiles) == ["bayplan-scheduler"]
    assert "NodeResourcesFit" in names(found.profiles["bayplan-scheduler"])
    assert found.lease is not None
    assert (found.lease.name, found.lease.namespace) == ("bayplan-scheduler", "default")


def test_how_long_volumes_may_take_is_the_profiles_matter_unless_it_is_said(tmp_path: Path) -> None:
    assert options(tmp_path).volume_bind_seconds is None
    assert options(tmp_path, {"scheduler": {"volumeBindSeconds": 30}}).volume_bind_seconds == 30


def test_a_scheduler_has_to_follow_pods(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nodesOnly: a scheduler places pods, and has to follow them"):
        options(tmp_path, {"cluster": {"source": "kubeconfig", "nodesOnly": True}})


def test_flags_win_over_the_profiles_of_the_file(tmp_path: Path) -> None:
    assert list(options(tmp_path, {"scheduler": TWO}).profiles) == ["one", "two"]
    assert list(options(tmp_path, {"scheduler": TWO}, scheduler_name=("three",)).profiles) == ["three"]


def test_policies_of_the_user_come_after_those_of_the_profile(tmp_path: Path) -> None:
    found = options(tmp_path, {"policies": [{"use": "MostAvailableCPU"}]})

    assert names(found.profiles["bayplan-scheduler"])[-1] == "MostAvailableCPU"


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        pytest.param("mine", "mine", id="the profile of that name"),
        pytest.param("default-scheduler", "mine", id="the only one, under our name"),
    ],
)
def test_a_profile_of_kube_scheduler_is_followed(tmp_path: Path, name: str, flag: str) -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name, "plugins": plugins}],
    }
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(document))

    found = options(tmp_path, profile=file, scheduler_name=(flag,))

    assert "ImageLocality" not in names(found.profiles[flag])
    assert "NodeResourcesFit" in names(found.profiles[flag])
    assert found.preemption[flag] is not None


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        pytest.param(
            {"scheduler": {"profiles": [{"schedulerName": "a"}] * 2}}, "two profiles", id="a name twice"
        ),
        pytest.param(
            {"scheduler": {"bindTimeout": "20s"}}, "leaseDuration: 15s is too short", id="a short lease"
        ),
        pytest.param(
            {"scheduler": {"podInitialBackoff": "20s"}}, "podMaxBackoff: 10s is less", id="pauses that shrink"
        ),
        pytest.param(
            {"policies": [{"use": "MostAvailableCPU", "name": "NodeName"}]}, "'NodeName'", id="a taken name"
        ),
        pytest.param(
            {"scheduler": {"opsListen": "here"}}, "scheduler.opsListen: 'here' is not HOST:PORT", id="no port"
        ),
    ],
)
def test_what_cannot_work_is_told(tmp_path: Path, section: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        options(tmp_path, section)


def test_a_mistyped_key_is_told_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scheduler.paralelBinds: unknown key.*parallelBinds"):
        options(tmp_path, {"scheduler": {"paralelBinds": 3}})


def test_without_a_cluster_there_is_nothing_to_schedule() -> None:
    with pytest.raises(ConfigError, match="--kubeconfig or --in-cluster"):
        options_from(load_all([], Flags()), version="0")


def test_leader_election_can_be_left_out(tmp_path: Path) -> None:
    assert options(tmp_path, leader_elect=False).lease is None


def test_the_name_of_the_clusters_own_scheduler_is_warned_of(tmp_path: Path) -> None:
    config = write(tmp_path, scheduler={"profiles": [{"schedulerName": "default-scheduler"}]})

    (text,) = cautions(load_all([], Flags(config=config)))

    assert text.startswith("default-scheduler is the name of the cluster's own scheduler")


def test_extenders_that_only_kube_scheduler_asks_are_told_of_once(tmp_path: Path) -> None:
    text = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles: [{schedulerName: one}, {schedulerName: two}]
        extenders:
        - {urlPrefix: "http://user:secret@gpus.example:80/v1", filterVerb: filter}
        - {urlPrefix: "https://[::1]:8888", prioritizeVerb: prioritize, weight: 1}
        - {urlPrefix: "https://[::1", filterVerb: filter}
        """
    (tmp_path / "scheduler.yaml").write_text(dedent(text).lstrip())
    two = {"profiles": [{**one, "kubeSchedulerConfig": "scheduler.yaml"} for one in TWO["profiles"]]}

    (text,) = cautions(load_all([], Flags(config=write(tmp_path, scheduler=two))))

    assert text.startswith(
        f"{tmp_path}/scheduler.yaml:4: extenders: `bayplan schedule` asks no extenders"
        " (gpus.example:80, [::1]:8888, one without an address): what they refuse, prefer or hand out"
    )


def test_a_profile_without_extenders_is_nothing_to_warn_of(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}")

    assert cautions(load_all([], Flags(profile=file))) == []


SHARED = {"use": "SharedResource", "args": {"resource": "a.example/gpu", "capacity": "a.example/gpus"}}


def test_a_resource_that_policies_hand_out_is_said_to_be_counted_by_the_profile_too(tmp_path: Path) -> None:
    (text,) = cautions(load_all([], Flags(config=write(tmp_path, policies=[SHARED]))))

    assert text.startswith("a.example/gpu: policies hand it out, and NodeResourcesFit counts it too")
    assert "(Insufficient a.example/gpu)" in text


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(
            "pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.example/gpu]}}]",
            id="by name",
        ),
        pytest.param(
            "pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a.example]}}]",
            id="a group",
        ),
        pytest.param("plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}", id="nobody counts"),
    ],
)
def test_a_profile_that_leaves_the_resource_to_the_policies_is_nothing_to_warn_of(
    tmp_path: Path, profile: str
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: bayplan-scheduler, {profile}}}]\n"
    )

    assert cautions(load_all([], Flags(config=write(tmp_path, policies=[SHARED]), profile=file))) == []


def test_an_empty_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a schedulerName is empty"):
        options(tmp_path, scheduler_name=("",), leader_elect=False)


@pytest.mark.parametrize("name", ["Foo Bar", "x" * 254, "a_b"])
def test_a_name_that_no_lease_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="which the API server refuses: small letters"):
        options(tmp_path, scheduler_name=(name,))

    options(tmp_path, {"scheduler": {"leaderElection": {"resourceName": "mine"}}}, scheduler_name=(name,))


def test_a_nudge_is_told_to_do_nothing_here(tmp_path: Path) -> None:
    config = write(tmp_path, cluster={"nudge": {"enabled": True}})

    (text,) = cautions(load_all([], Flags(config=config)))

    assert text.startswith("cluster.nudge is enabled and does nothing here")
    assert cautions(load_all([], Flags())) == []


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        pytest.param({"policies": [{"use": "MostAvailableCPU"}]}, [], id="policies"),
        pytest.param({"scheduler": TWO}, [], id="another name behind the first"),
        pytest.param({"extender": {"listen": "127.0.0.1:1"}}, [], id="what is an extender's"),
        pytest.param({"shadow": {"config": "next.yaml"}}, [], id="the candidate"),
        pytest.param(
            {"scheduler": {**ONE, "opsListen": "127.0.0.1:1"}}, ["scheduler.opsListen"], id="an address"
        ),
        pytest.param(
            {"scheduler": {**ONE, "leaderElection": {"leaderElect": False}}},
            ["scheduler.leaderElection"],
            id="the Lease",
        ),
        pytest.param({"cluster": {"source": "in-cluster"}}, ["cluster.source"], id="the cluster"),
        pytest.param({"record": {"file": "r.jsonl"}}, ["record.file"], id="a recording"),
        pytest.param({"tracing": {"sampleRatio": 1.0}}, ["tracing.sampleRatio"], id="tracing"),
    ],
)
def test_what_cannot_change_while_it_runs_is_known(
    tmp_path: Path, changed: dict[str, Any], keys: list[str]
) -> None:
    first = load_all([], Flags(config=write(tmp_path, scheduler=ONE)))
    second = load_all([], Flags(config=write(tmp_path, **{"scheduler": ONE, **changed})))

    assert scheduler_needs_restart(first, second) == keys


def test_the_name_that_the_lease_is_called_by_stays_the_first(tmp_path: Path) -> None:
    reversed_names = {"profiles": TWO["profiles"][::-1]}
    named = {"leaderElection": {"resourceName": "lease"}}
    first, second, third, fourth = (
        load_all([], Flags(config=write(tmp_path, scheduler=section)))
        for section in (TWO, reversed_names, {**TWO, **named}, {**reversed_names, **named})
    )

    (text,) = scheduler_needs_restart(first, second)
    assert text.startswith("scheduler.profiles, so that another schedulerName is the first")
    assert scheduler_needs_restart(third, fourth) == []


def test_a_profile_that_is_not_in_the_file_is_told(tmp_path: Path) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}],
    }
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    loaded = load_all([], Flags(profile=file, scheduler_name=("oen",)))

    with pytest.raises(ConfigError, match=r"no profile for scheduler 'oen'.*one"):
        profiles_from(loaded)


def test_a_queue_has_one_order(tmp_path: Path) -> None:
    for name in ("mine", "yours"):
        code = f"import bayplan\n\n@bayplan.order\ndef {name}(pod):\n    return 1\n"
        (tmp_path / f"{name}.py").write_text(code)
    one, other = {"use": "mine.py"}, {"use": "yours.py"}

    with pytest.raises(ConfigError, match=r"mine\.py:3 mine .* and yours\.py:3 yours"):
        options(tmp_path, {"policies": [one, other], "scheduler": ONE})
    options(tmp_path, {"policies": [one, {**other, "shadow": True}], "scheduler": ONE})
