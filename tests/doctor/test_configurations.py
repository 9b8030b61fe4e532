"""Doctor on files as people have them: each trap is found, and none is invented."""

import re
from pathlib import Path

import pytest

from bayplan.doctor import traps_of_clusters
from bayplan.doctor.traps import TRAPS
from bayplan.doctor.traps_of_clusters import HEN_AND_EGG, SCHEDULER_NAME_ANNOTATION
from tests.doctor.cases import CASES, FOLDER, Case, every_case, read_case

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "doctor.md"
# What only a cluster shows has its tests in test_cluster.py and in tests/e2e/test_doctor.py.
LIVE = {trap.id for trap in traps_of_clusters.ALL} - {HEN_AND_EGG.id, SCHEDULER_NAME_ANNOTATION.id}


@pytest.mark.parametrize("case", every_case())
def test_exactly_what_the_file_says_is_found(case: Case) -> None:
    found = sorted(f"{finding.severity}:{finding.id}" for finding in case.examine())

    assert found == list(case.expected)


def test_there_are_enough_files_of_both_kinds() -> None:
    clean = [case for case in CASES if not case.expected]

    assert len(CASES) >= 25
    assert len(clean) >= 8


def test_every_trap_of_files_has_a_file_with_it_and_a_file_that_is_right_about_it() -> None:
    met = {said.partition(":")[2] for case in CASES for said in case.expected}
    right = {trap for case in CASES for trap in case.clean_of}

    assert set(TRAPS) - LIVE - met == set()
    assert set(TRAPS) - LIVE - right == set()
    assert (met | right) - set(TRAPS) == set()
    assert [case.path.name for case in CASES if case.clean_of and case.expected] == []


def test_every_trap_is_in_the_reference_with_what_it_says_itself() -> None:
    page = PAGE.read_text()
    headings = set(re.findall(r"^### `([a-z-]+)`", page, re.MULTILINE))

    assert headings == set(TRAPS)
    flat = " ".join(page.split())
    for trap in TRAPS.values():
        for text in (trap.why, trap.versions, trap.fix):
            assert " ".join(text.split()) in flat, f"{trap.id}: {text}"


@pytest.mark.parametrize(
    ("name", "trap", "where"),
    [
        pytest.param("tutorial.yaml", "full-nodes", "10: extenders[0].nodeCacheCapable", id="a key"),
        pytest.param("tutorial.yaml", "every-pod-waits", "6: extenders[0]", id="an entry"),
        pytest.param(
            "managed-resources.yaml",
            "managed-resource-ignored",
            "19: extenders[0].managedResources[3].ignoredByScheduler",
            id="a key deep inside",
        ),
        pytest.param(
            "in-a-config-map.yaml",
            "full-nodes",
            "16: extenders[0].nodeCacheCapable",
            id="a text in a ConfigMap",
        ),
        pytest.param(
            "second-document.yaml",
            "scheduler-name-annotation",
            '9: metadata.annotations["scheduler.alpha.kubernetes.io/name"]',
            id="a key with dots",
        ),
        pytest.param("policy.json", "timeout-unit", "27: extenders[0].httpTimeout", id="a Policy in JSON"),
    ],
)
def test_a_finding_names_file_line_and_path(name: str, trap: str, where: str) -> None:
    (finding,) = [f for f in read_case(FOLDER / name).examine() if f.id == trap]

    assert str(finding.where).partition(f"{name}:")[2].startswith(where)


def test_a_mistyped_flag_is_said_to_be_one() -> None:
    (finding,) = read_case(FOLDER / "mistyped-flag.yaml").examine()

    assert finding.what == "want true or false, got the text 'flase'; did you mean false?"
    assert finding.fixable


def test_a_finding_never_repeats_a_password() -> None:
    for name in ("password.yaml", "tutorial.json"):
        told = str([finding.told() for finding in read_case(FOLDER / name).examine()])

        assert "s3cret" not in told
        assert "u:p" not in told
