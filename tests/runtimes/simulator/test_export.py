"""A recorded decision as a test, which passes as it is written."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.recording.lines import Configuration, RecordingError
from bayplan.runtimes.extender.again import verbs_as_recorded
from bayplan.runtimes.simulator.cases import Case
from bayplan.runtimes.simulator.export import ExportedTest, export_test, last_filter
from bayplan.snapshot.sources import Reading, Readings
from bayplan.testing import load_snapshot, make_node, make_pod
from tests.runtimes.simulator.desk import POLICY, Desk, sent, write_config

NAMES = ["roomy", "full", "twin"]


def recorded(tmp_path: Path, policy: str = POLICY) -> Desk:
    """Three nodes that are asked about, and one that is not."""
    desk = Desk(write_config(tmp_path, policy=policy), tmp_path / "r.jsonl")
    for name in [*NAMES, "elsewhere"]:
        desk.cache.put_node(make_node(name, zone="a").object)
    desk.cache.put_pod(make_pod("big", node="full", cpu="4"))
    desk.cache.put_pod(make_pod("web-0", node="twin", labels={"app": "web"}))
    desk.cache.put_pod(make_pod("far", node="elsewhere", labels={"app": "far"}))
    return desk


def exported(desk: Desk, folder: Path, pod: str) -> ExportedTest:
    desk.recorder.close()
    return export(last_filter(desk.file, pod), desk.loaded, folder, desk.told)


def export(case: Case, loaded: Loaded, folder: Path, told: Configuration) -> ExportedTest:
    respondent = verbs_as_recorded(case.configuration, loaded.policies)
    return export_test(case, loaded.policies, folder, configuration=told, respondent=respondent)


def run(test: Path) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(test.parent),
        str(test),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def test_the_test_passes_and_holds_only_what_was_asked_about(tmp_path: Path) -> None:
    desk = recorded(tmp_path)
    pod = make_pod("web-1", uid="w1", cpu="100m", labels={"app": "web"})
    desk.ask("filter", sent(pod, NAMES))

    found = exported(desk, tmp_path / "cases", "default/web-1")

    assert "1 passed" in run(found.test)
    assert not found.whole_cluster
    assert list(load_snapshot(found.data).nodes.names) == NAMES
    assert '"full": "too little CPU", "twin": "a twin is there"' in found.test.read_text()
    assert "hunter2" not in found.data.read_text()


def test_the_test_fails_when_the_policy_is_another_one(tmp_path: Path) -> None:
    desk = recorded(tmp_path)
    desk.ask("filter", sent(make_pod("web-1", uid="w1", cpu="100m"), NAMES))
    found = exported(desk, tmp_path / "cases", "default/web-1")

    (tmp_path / "policy.py").write_text(POLICY.replace("free < pod.cpu_milli", "free < 0"))

    assert "1 failed" in run(found.test)


ZONES = """
import bayplan

FAR = bayplan.Reason("far is in this zone")

@bayplan.filter
def apart(pod, nodes):
    return FAR.where(nodes.count(bayplan.PodLabel("app") == "far", by="zone") > 0)
"""


def test_all_nodes_are_kept_where_a_rule_looks_at_them(tmp_path: Path) -> None:
    desk = recorded(tmp_path, ZONES)
    desk.ask("filter", sent(make_pod("web-1", uid="w1"), NAMES))

    found = exported(desk, tmp_path / "cases", "default/web-1")

    assert found.whole_cluster
    assert "1 passed" in run(found.test)


READS = """
import bayplan

P95 = bayplan.Source("load.p95")

@bayplan.filter
def fast(pod, nodes):
    return bayplan.Reason("slow").where(nodes[P95] > 0.5)
"""


def test_sources_go_with_it(tmp_path: Path) -> None:
    config = write_config(tmp_path, policy=READS)
    config.write_text(config.read_text() + "sources:\n- {name: load, file: {path: p95.json}}\n")
    desk = Desk(config, tmp_path / "r.jsonl")
    for name in NAMES:
        desk.cache.put_node(make_node(name).object)
    said = Readings({"load": Reading({"p95": {"roomy": 0.1, "full": 0.9}, "x": {"full": 1}})})
    desk.ask("filter", sent(make_pod("web-1", uid="w1"), NAMES), readings=said)

    found = exported(desk, tmp_path / "cases", "default/web-1")

    assert "1 passed" in run(found.test)
    assert '{"full": "slow"}' in found.test.read_text()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param('"""\nraise SystemExit(1)\n"""', id="one that ends the docstring"),
        pytest.param("../../up", id="one that leads elsewhere"),
    ],
)
def test_a_hostile_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    desk = recorded(tmp_path)
    desk.ask("filter", sent(make_pod(name, uid="w1", cpu="100m"), NAMES))

    found = exported(desk, tmp_path / "cases", f"default/{name}")

    assert found.test.parent == tmp_path / "cases"
    assert "1 passed" in run(found.test)


def test_a_pod_that_was_never_filtered_is_named_with_some_that_were(tmp_path: Path) -> None:
    desk = recorded(tmp_path)
    desk.ask("filter", sent(make_pod("web-1", uid="w1"), NAMES))

    with pytest.raises(RecordingError, match="default/web-2 was never filtered; recorded are default/web-1"):
        exported(desk, tmp_path, "default/web-2")


def test_policies_that_say_something_else_are_refused(tmp_path: Path) -> None:
    desk = recorded(tmp_path)
    desk.ask("filter", sent(make_pod("web-1", uid="w1", cpu="100m"), NAMES))
    desk.recorder.close()
    other = load_all((), Flags(config=write_config(tmp_path / "other", policy=ZONES)))

    with pytest.raises(RecordingError, match="do not say what was recorded"):
        export(last_filter(desk.file, "default/web-1"), other, tmp_path, desk.told)


@pytest.mark.parametrize("answer", [{"refusals": "again"}, {"keep": 1, "refusals": "whenNonePass"}])
def test_an_answer_that_did_not_tell_why_is_as_good(tmp_path: Path, answer: dict[str, Any]) -> None:
    desk = recorded(tmp_path)
    desk.verbs = replace(desk.verbs, **answer)
    desk.told = msgspec.structs.replace(desk.told, **answer)
    said = desk.ask("filter", sent(make_pod("web-1", uid="w1", cpu="100m"), NAMES))
    assert b'FailedAndUnresolvableNodes":{}' in said

    found = exported(desk, tmp_path / "cases", "default/web-1")

    assert "too little" in found.test.read_text()
    assert "1 passed" in run(found.test)


def test_a_policy_that_failed_has_no_verdict_to_test(tmp_path: Path) -> None:
    broken = "import bayplan\n\n@bayplan.filter\ndef broken(pod, node):\n    return 1 // 0\n"
    desk = recorded(tmp_path, broken)
    desk.ask("filter", sent(make_pod("web-1", uid="w1"), NAMES))

    with pytest.raises(RecordingError, match=r"ZeroDivisionError.*no verdict"):
        exported(desk, tmp_path, "default/web-1")
