"""What the documents show is true: snippets run, configurations load, and nothing public is left out."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import bayplan
from bayplan import blocks
from bayplan.cli.starter import first_files
from bayplan.config.load import parse_config
from bayplan.config.rehearse import rehearse
from bayplan.config.v1 import BayplanConfiguration
from bayplan.doctor.examine import examine
from bayplan.doctor.files import read_text
from bayplan.doctor.run import DEFAULT_VERSION
from bayplan.doctor.setting import Setting, Version
from bayplan.kube.yaml import read_documents
from bayplan.ops.metrics import Metrics
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.policies import BUILT_INS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(language: str) -> Iterator[Any]:
    for page in PAGES:
        for number, (found, text) in enumerate(FENCE.findall(page.read_text())):
            if found == language:
                yield pytest.param(text, id=f"{page.relative_to(ROOT)}, snippet {number}")


@pytest.mark.parametrize("code", [s for s in snippets("python") if "bayplan.testing" not in s.values[0]])
def test_a_policy_in_the_docs_loads_and_every_hook_of_it_runs(code: str, tmp_path: Path) -> None:
    from bayplan.config.assemble import from_files

    (tmp_path / "policy.py").write_text(code)

    policies = from_files([str(tmp_path / "policy.py")])

    assert rehearse(policies, pods_known=True) == []


@pytest.mark.parametrize("code", [s for s in snippets("python") if "bayplan.testing" in s.values[0]])
def test_a_test_in_the_docs_passes_with_the_policy_above_it(code: str, tmp_path: Path) -> None:
    tutorial = FENCE.findall((ROOT / "docs" / "tutorial.md").read_text())
    policy = next(text for language, text in tutorial if language == "python")
    (tmp_path / "policy.py").write_text(policy)
    (tmp_path / "test_policy.py").write_text(code)
    (tmp_path / "ours.json").write_text(first_files()["cluster.json"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    # One more for each pod of the cluster, in the one that looks at those.
    passed = 3 if "OURS" in code else 2
    assert f"{passed} passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize("text", list(snippets("yaml")))
def test_yaml_in_the_docs_is_read_without_complaint(text: str) -> None:
    documents = list(read_documents(text, source="docs"))

    assert documents
    if "BayplanConfiguration" in text:
        config, _ = parse_config(text.encode(), source="docs")
        assert config.policies


@pytest.mark.parametrize("text", [s for s in snippets("yaml") if "\nextenders:" in s.values[0]])
def test_doctor_has_nothing_against_a_configuration_of_kube_scheduler_in_the_docs(text: str) -> None:
    found = examine(read_text(text, source="docs"), Setting(Version.read(DEFAULT_VERSION)))

    assert [str(finding.id) for finding in found if finding.severity != "note"] == []


def test_every_key_of_the_configuration_is_in_its_reference() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()

    missing = [key for key in _keys(BayplanConfiguration) if not re.search(rf"\b{key}\b", page)]

    assert missing == []


def test_every_public_name_is_in_the_reference_of_the_policy_api() -> None:
    page = (ROOT / "docs" / "reference" / "policy-api.md").read_text()

    assert [name for name in bayplan.__all__ if f"bayplan.{name}" not in page] == []
    assert [name for name in blocks.__all__ if f"blocks.{name}" not in page] == []


def test_every_public_property_of_pod_and_node_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "policy-api.md").read_text()
    names = [n for kind in (bayplan.Pod, bayplan.Node) for n in dir(kind) if not n.startswith("_")]
    known = {"metadata", "spec", "status", "object"}  # the objects as sent, for those who look

    assert [name for name in names if f"`{name}" not in page and name not in known] == []


def test_every_metric_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    registry = Metrics(version="0").registry
    ScheduleMetrics(registry)
    families = {family.name for family in registry.collect()}

    assert [name for name in families if name.startswith("bayplan_") and name not in page] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    links = {page: {target for target, _ in _links(page)} for page in PAGES}
    reached = {ROOT / "README.md"}
    while more := {page for known in reached for page in links.get(known, ())} - reached:
        reached |= more

    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_links_to_headings_lead_to_one() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target.name}#{anchor}"
        for page in PAGES
        for target, anchor in _links(page)
        if anchor and anchor not in _anchors(target)
    ]

    assert broken == []


def test_every_built_in_is_in_the_readme_and_in_the_list_of_policies() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "policies" / "README.md"]

    assert [
        (page.name, name) for page in pages for name in BUILT_INS if f"[{name}]" not in page.read_text()
    ] == []


def _links(page: Path) -> Iterator[tuple[Path, str]]:
    """Where a page leads within the project, with the heading there."""
    for path, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if "://" not in path:
            yield (page.parent / path).resolve() if path else page, anchor


def _anchors(page: Path) -> set[str]:
    """The headings of a page as addresses, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _keys(kind: Any) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for inner in (field.type, *getattr(field.type, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from _keys(inner)
