"""Against the real kube-scheduler: some hundreds of cases, and no disagreement."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.policies.default_profile import DEFAULT_PROFILE
from tests.controlplane.plane import ControlPlane
from tests.parity.features import FEATURES, features_of
from tests.parity.generator import every_case
from tests.parity.run import Disagreement, both, write_down

SEED, CASES = 3, 400

OUT_OF_SIGHT = {"NodeName", "DynamicResources"}
"""A pod that names its node is never scheduled; claims for devices are refused, which is a limit."""


@pytest.mark.e2e
@pytest.mark.timeout(400)
def test_bayplan_judges_every_pod_as_kube_scheduler_does(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(disagreement: Disagreement) -> None:
        print(disagreement.told(), write_down(tmp_path, disagreement), sep="\n")

    with both(cluster, seed=SEED) as run:
        report = run.cases(CASES, tell)

    with capsys.disabled():
        print(f"\nparity with kube-scheduler: {report.figure()}")
    print(report.table())
    assert not report.disagreements
    assert report.cases == CASES
    assert report.noticed.keys() >= DEFAULT_PROFILE.keys() - OUT_OF_SIGHT, "nobody would miss a policy"


def test_the_cases_have_every_feature_of_the_default_profile() -> None:
    seen = {name for case in every_case(SEED, CASES) for name in features_of(case)}

    assert seen == FEATURES.keys()


def test_the_page_has_a_line_for_every_policy_and_the_figure_of_the_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "parity.md").read_text()

    assert [name for name in DEFAULT_PROFILE if f"\n| {name} | " not in page] == []
    assert f"| {CASES} | 0 | {SEED} |" in page


def test_a_case_depends_on_the_seed_and_its_number_alone() -> None:
    again = list(every_case(SEED, 45))

    assert list(every_case(SEED, 45)) == again
    assert list(every_case(SEED + 1, 45)) != again
