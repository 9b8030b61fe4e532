"""The Policy of old, converted: the same plugins, and a word about each that is gone."""

import json
from typing import Any

import pytest

from bayplan.config.kube_scheduler import KubeSchedulerConfiguration
from bayplan.config.load import convert
from bayplan.doctor.files import read_text
from bayplan.doctor.legacy import Converted, convert_policy
from bayplan.doctor.legacy_plugins import PREDICATES, PRIORITIES, WITHOUT_SUCCESSOR
from bayplan.doctor.setting import Version
from bayplan.kube.yaml import Document
from bayplan.policies.default_profile import DEFAULT_PROFILE, ELSEWHERE


def converted(version: str = "1.36", **policy: Any) -> Converted:
    (page,) = read_text(json.dumps({"kind": "Policy", **policy}), source="policy.json").policies
    return convert_policy(page, Version.read(version))


def plugins(made: Converted, point: str) -> dict[str, int | None]:
    chosen = made.configuration["profiles"][0]["plugins"][point]
    assert chosen["disabled"] == [{"name": "*"}]
    return {plugin["name"]: plugin.get("weight") for plugin in chosen["enabled"]}


def test_predicates_become_filters_and_those_that_were_always_on_stay() -> None:
    made = converted(predicates=[{"name": "PodFitsResources"}, {"name": "NoDiskConflict"}])

    assert list(plugins(made, "filter")) == [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
        "VolumeRestrictions",
    ]
    assert "score" not in made.configuration["profiles"][0]["plugins"]


def test_priorities_become_scores_and_two_that_are_one_now_add_up() -> None:
    made = converted(
        priorities=[
            {"name": "SelectorSpreadPriority", "weight": 2},
            {"name": "EvenPodsSpreadPriority", "weight": 3},
            {"name": "ImageLocalityPriority"},
        ]
    )

    assert plugins(made, "score") == {"PodTopologySpread": 5, "ImageLocality": 1}


def test_a_policy_that_names_neither_keeps_the_defaults() -> None:
    made = converted(extenders=[])

    assert made.configuration["profiles"] == [{"schedulerName": "default-scheduler"}]


def test_packing_is_a_strategy_now() -> None:
    made = converted(priorities=[{"name": "MostRequestedPriority", "weight": 1}])

    assert made.configuration["profiles"][0]["pluginConfig"] == [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    ]


@pytest.mark.parametrize("name", sorted(set(WITHOUT_SUCCESSOR)))
def test_what_is_gone_is_named_with_what_to_do(name: str) -> None:
    made = converted(priorities=[{"name": name, "weight": 1}])

    (finding,) = made.findings
    assert name in finding.what
    assert WITHOUT_SUCCESSOR[name] in finding.what


def test_every_successor_is_a_plugin_of_today() -> None:
    known = {*DEFAULT_PROFILE, *ELSEWHERE}

    assert {name for names in PREDICATES.values() for name in names} - known == set()
    assert set(PRIORITIES.values()) - known == set()


@pytest.mark.parametrize(
    ("nanoseconds", "text", "told"),
    [
        pytest.param(5_000_000_000, "5s", False, id="seconds, as they were meant"),
        pytest.param(100_000_000, "100ms", False, id="a tenth of one"),
        pytest.param(5, "5s", True, id="five nanoseconds, which nobody means"),
        pytest.param(5000, "5s", True, id="five microseconds, which nobody means either"),
    ],
)
def test_a_timeout_counted_nanoseconds(nanoseconds: int, text: str, told: bool) -> None:
    made = converted(extenders=[{"urlPrefix": "http://x", "HTTPTimeout": nanoseconds}])

    assert made.configuration["extenders"] == [{"urlPrefix": "http://x", "httpTimeout": text}]
    assert [finding.id for finding in made.findings] == (["timeout-unit"] if told else [])


@pytest.mark.parametrize(
    ("version", "api_version"),
    [("1.36", "v1"), ("1.25", "v1"), ("1.24", "v1beta3"), ("1.22", "v1beta2"), ("1.20", "v1beta1")],
)
def test_it_becomes_the_newest_version_that_is_read(version: str, api_version: str) -> None:
    made = converted(version, extenders=[])

    assert made.configuration["apiVersion"] == f"kubescheduler.config.k8s.io/{api_version}"


def test_the_result_is_read_by_our_own_scheduler() -> None:
    made = converted(
        predicates=[{"name": name} for name in PREDICATES],
        priorities=[{"name": name, "weight": 1} for name in PRIORITIES],
        hardPodAffinitySymmetricWeight=10,
    )

    read = convert(Document("made", made.configuration, {}), KubeSchedulerConfiguration)

    assert read.profiles is not None
    assert read.profiles[0].scheduler_name == "default-scheduler"
