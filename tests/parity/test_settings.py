"""Settings of plugins that are not the defaults: one file for kube-scheduler and us, no disagreement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayplan import Profile
from tests.controlplane.plane import ControlPlane
from tests.parity.draw import GPU, ZONE, Json
from tests.parity.run import Disagreement, both, write_down

CASES = 120


def args(plugin: str, **given: object) -> Json:
    return {"name": plugin, "args": given}


def fit(**strategy: object) -> Json:
    return args("NodeResourcesFit", scoringStrategy=strategy)


SETTINGS = [
    pytest.param(
        {
            "plugins": {
                "score": {
                    "enabled": [{"name": "ImageLocality", "weight": 5}],
                    "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                },
                "multiPoint": {"disabled": [{"name": "NodePorts"}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "ignoredResources": [GPU],
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
                        },
                    },
                },
                args("InterPodAffinity", hardPodAffinityWeight=70, ignorePreferredTermsOfExistingPods=True),
                args(
                    "NodeAffinity",
                    addedAffinity={
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "gen", "operator": "NotIn", "values": ["10"]}]}
                            ]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 20,
                                "preference": {
                                    "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]
                                },
                            }
                        ],
                    },
                ),
            ],
        },
        id="most allocated, added affinity, other weights",
    ),
    pytest.param(
        {
            "pluginConfig": [
                fit(
                    type="RequestedToCapacityRatio",
                    resources=[{"name": "cpu", "weight": 1}, {"name": GPU, "weight": 4}],
                    requestedToCapacityRatio={
                        "shape": [
                            {"utilization": 0, "score": 2},
                            {"utilization": 40, "score": 10},
                            {"utilization": 100, "score": 0},
                        ]
                    },
                ),
                args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": GPU}]),
                args(
                    "PodTopologySpread",
                    defaultingType="List",
                    defaultConstraints=[
                        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
                    ],
                ),
            ],
        },
        id="requested to capacity ratio, constraints of one's own",
    ),
]


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("settings", SETTINGS)
def test_bayplan_reads_the_same_profile_out_of_the_file(
    settings: Json, cluster: ControlPlane, tmp_path: Path
) -> None:
    profile = {"schedulerName": "default-scheduler", **settings}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = tmp_path / "scheduler.yaml"
    path.write_text(json.dumps({**head, "profiles": [profile]}))

    def tell(disagreement: Disagreement) -> None:
        print(disagreement.told(), write_down(tmp_path, disagreement), sep="\n")

    with both(cluster, seed=5, profile=profile, policies=Profile.read(path).policies) as run:
        report = run.cases(CASES, tell)

    print(report.table())
    assert (report.cases, report.disagreements) == (CASES, [])
