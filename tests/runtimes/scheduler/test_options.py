"""Whose pods, which policies, which Lease: from flags and the configuration."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.runtimes.scheduler.options import Options, options_from
from bayplan.runtimes.scheduler.profiles import profiles_from
from tests.client.serving import write_kubeconfig

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


def test_flags_win_over_the_profiles_of_the_file(tmp_path: Path) -> None:
    assert list(options(tmp_path, {"scheduler": TWO}).profiles) == ["one", "two"]
    assert list(options(tmp_path, {"scheduler": TWO}, scheduler_name=("three",)).profiles) == ["three"]


def test_policies_of_the_user_come_after_those_of_the_profile(tmp_path: Path) -> None:
    found = options(tmp_path, {"policies": [{"use": "MostAvailableCPU"}]})

    assert names(found.profiles["bayplan-scheduler"])[-2:] == ["MostAvailableCPU", "UnboundClaims"]


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
