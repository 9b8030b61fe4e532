"""``bayplan serve --record``, ``replay``, ``compare`` and ``export-test``, as somebody runs them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import commands
from bayplan.testing import make_node, make_pod
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.caller import make_node as full_node
from tests.runtimes.extender.caller import make_pod as sent_pod
from tests.runtimes.extender.caller import names_request, nodes_request
from tests.runtimes.extender.served import served
from tests.runtimes.simulator.desk import POLICY, Desk, sent, write_config

NODES = ["node-0", "node-1", "node-2"]


def bayplan(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(write_config(tmp_path), tmp_path / "r.jsonl")
    for number, name in enumerate(NODES):
        made.cache.put_node(make_node(name, cpu=number + 1).object)
    for number in range(3):
        made.ask("filter", sent(make_pod(f"web-{number}", uid=f"w{number}", cpu="1500m"), NODES))
    made.recorder.close()
    return made


def test_an_unchanged_configuration_is_replayed_without_naming_it(desk: Desk) -> None:
    ended = bayplan("replay", desk.file)

    assert ended.exit_code == 0, ended.output
    assert "ok: 3 of 3 answers are the same, byte for byte (3 filter)" in ended.output


def test_of_a_recording_that_is_damaged_it_is_not_said_that_all_is_well(desk: Desk) -> None:
    desk.file.write_text(desk.file.read_text()[:-20])

    ended = bayplan("replay", desk.file)

    assert "as far as it can be read, 2 of 2 answers are the same, byte for byte (2 filter)" in ended.output
    assert "ok: " not in ended.output


def test_a_file_that_changed_since_is_not_run_in_place_of_the_one_recorded(desk: Desk) -> None:
    policy = desk.file.parent / "policy.py"
    policy.write_text(POLICY + "\n")

    ended = bayplan("replay", desk.file)

    assert ended.exit_code == 1
    assert f"{policy} has changed since: say with which policies, as policy files or" in ended.output


def test_a_report_is_not_written_over_what_is_compared(desk: Desk, tmp_path: Path) -> None:
    config, before = tmp_path / "bayplan.yaml", desk.file.read_bytes()

    for target in (desk.file, tmp_path / "." / desk.file.name, config):
        ended = bayplan("compare", desk.file, "-c", config, "--html", target)
        assert ended.exit_code == 2
        assert "is one of the files that are compared" in ended.output

    assert desk.file.read_bytes() == before
    assert config.read_text().startswith("apiVersion")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["compare", "FILE", "-c", "CONFIG", "--html", "MISSING/x.html"], id="a report"),
        pytest.param(["export-test", "FILE", "--pod", "web-0", "--out", "FILE/tests"], id="a test"),
        pytest.param(["init", "FILE/new"], id="a first policy"),
    ],
)
def test_where_nothing_can_be_written_is_said_in_one_line(
    desk: Desk, tmp_path: Path, arguments: list[str]
) -> None:
    places = {"FILE": desk.file, "CONFIG": tmp_path / "bayplan.yaml", "MISSING": tmp_path / "missing"}
    for name, path in places.items():
        arguments = [each.replace(name, str(path)) for each in arguments]

    ended = bayplan(*arguments)

    assert ended.exit_code == 1
    assert isinstance(ended.exception, SystemExit)
    assert "Error: " in ended.output


def test_of_a_decision_that_is_damaged_there_is_no_test(desk: Desk, tmp_path: Path) -> None:
    desk.file.write_text(desk.file.read_text().replace('"at":"2', '"at":"x'))

    ended = bayplan("export-test", desk.file, "--pod", "default/web-0", "--out", tmp_path / "tests")

    assert isinstance(ended.exception, SystemExit)
    assert "Error: decision 1 of the recording cannot be read: Invalid isoformat" in ended.output


def test_what_a_recording_holds_is_never_run(desk: Desk, tmp_path: Path) -> None:
    desk.file.write_text(desk.file.read_text().replace("import bayplan", "open('/nowhere/x')"))
    (tmp_path / "policy.py").unlink()

    ended = bayplan("replay", desk.file)

    assert ended.exit_code == 1
    assert "policy.py is not here" in ended.output


def test_another_configuration_is_told_apart(desk: Desk, tmp_path: Path) -> None:
    other = write_config(tmp_path / "other", policy=POLICY.replace("too little CPU", "no room"))

    ended = bayplan("replay", desk.file, "--config", other, "-o", "json")

    assert ended.exit_code == 1
    found = json.loads(ended.stdout)
    assert (found["total"], found["equal"]) == (3, {})
    assert "no room" in found["differences"][0]["replayed"]


def test_times_end_as_those_of_other_commands_do(desk: Desk, tmp_path: Path) -> None:
    changed = POLICY.replace("return nodes[", "return -nodes[").replace("too little CPU", "no room")
    other = write_config(tmp_path / "other", policy=changed)

    replayed = bayplan("replay", desk.file, "--config", other).stdout
    compared = json.loads(bayplan("compare", desk.file, "-c", other, "-o", "json").stdout)

    assert re.search(r"^different 1: filter \S+ at [\d-]+T[\d:.]+Z$", replayed, re.MULTILINE)
    assert {pod["at"][-1] for pod in compared["changed"]} == {"Z"}


@pytest.fixture
def observed(tmp_path: Path) -> Desk:
    """A server that only observed: it let every node pass, whatever its policies said."""
    made = Desk(write_config(tmp_path), tmp_path / "r.jsonl", observe=True)
    made.cache.put_node(make_node("node-0", cpu=1).object)
    made.ask("filter", sent(make_pod("web", uid="w", cpu=2), ["node-0"]))
    made.recorder.close()
    return made


def test_with_the_same_policy_file_who_observed_observes_again(observed: Desk) -> None:
    ended = bayplan("replay", observed.file, observed.file.parent / "policy.py")

    assert ended.exit_code == 0, ended.output
    assert "ok: 1 of 1 answers are the same" in ended.output


def test_the_test_of_one_who_observed_does_not_say_that_it_was_decided_so(
    observed: Desk, tmp_path: Path
) -> None:
    ended = bayplan("export-test", observed.file, "--pod", "default/web", "--out", tmp_path / "cases")

    assert ended.exit_code == 0, ended.output
    written = (tmp_path / "cases" / "test_default_web.py").read_text()
    assert written.startswith('"""What the policies said about pod default/web at ')
    assert "def test_default_web_is_judged_so():" in written
    assert "assert result.passed == []" in written


def test_what_is_no_recording_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("hello\n")

    ended = bayplan("replay", tmp_path / "r")

    assert ended.exit_code == 1
    assert "no recording of Bayplan" in ended.output


def test_two_configurations_are_compared_and_a_page_is_written(desk: Desk, tmp_path: Path) -> None:
    other = write_config(tmp_path / "other", policy=POLICY.replace("return nodes[", "return -nodes["))

    ended = bayplan(
        "compare", desk.file, "-c", tmp_path / "bayplan.yaml", "-c", other, "--html", tmp_path / "p.html"
    )

    assert ended.exit_code == 0, ended.output
    assert "3 pods: 3 elsewhere" in ended.output
    assert "default/web-0" in ended.output
    assert "<svg" in (tmp_path / "p.html").read_text()


def test_a_file_with_policies_is_compared_as_a_configuration(desk: Desk, tmp_path: Path) -> None:
    nobody = tmp_path / "nobody.py"
    nobody.write_text('import bayplan\n\n@bayplan.filter\ndef never(pod, node): return "never"\n')

    ended = bayplan("compare", desk.file, "-c", tmp_path / "bayplan.yaml", "-c", nobody, "-o", "json")

    assert ended.exit_code == 0, ended.output
    said = json.loads(ended.output)
    assert said["configurations"] == [str(tmp_path / "bayplan.yaml"), str(nobody)]
    assert {pod["second"]["reason"] for pod in said["changed"]} == {"3 never"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["compare", "policy.py", "-c", "r.jsonl"],
            "is a policy, not a recording: give the recording first",
            id="compare",
        ),
        pytest.param(
            ["replay", "bayplan.yaml", "r.jsonl"],
            "is a YAML file, not a recording: give the recording first",
            id="replay",
        ),
        pytest.param(
            ["export-test", "policy.py", "r.jsonl", "--pod", "a"],
            "first, bayplan export-test RECORDING",
            id="export-test",
        ),
        pytest.param(
            ["compare", "r.jsonl", "policy.py"],
            "say what to compare with: --config policy.py",
            id="a policy without -c",
        ),
        pytest.param(["compare", "r.jsonl"], "compare with: --config FILE.yaml, or FILE.py", id="nothing"),
    ],
)
def test_what_is_given_in_the_wrong_place_is_told(arguments: list[str], said: str) -> None:
    ended = CliRunner().invoke(commands, arguments, prog_name="bayplan")

    assert ended.exit_code == 2
    assert said in ended.output


def test_one_configuration_is_compared_with_the_recorded_one(desk: Desk, tmp_path: Path) -> None:
    ended = bayplan("compare", desk.file, "-c", tmp_path / "bayplan.yaml", "-o", "json")

    assert json.loads(ended.stdout)["changes"] == {"same": 3}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["compare", "-c", "bayplan.yaml", "-c", "other/bayplan.yaml"], id="two are compared"),
        pytest.param(["compare", "-c", "bayplan.yaml"], id="one is compared with the recorded one"),
        pytest.param(["replay"], id="the recorded one is replayed, loaded twice"),
        pytest.param(["replay", "-c", "bayplan.yaml"], id="another one is replayed"),
    ],
)
def test_policies_with_metrics_of_their_own_are_loaded_as_often_as_needed(
    tmp_path: Path, arguments: list[str]
) -> None:
    counting = (
        f"import prometheus_client\n{POLICY}\nSEEN = prometheus_client.Counter('pods_seen', 'How many.')\n"
    )
    desk = Desk(write_config(tmp_path, policy=counting), tmp_path / "r.jsonl")
    write_config(tmp_path / "other", policy=counting)
    desk.cache.put_node(make_node("node-0", cpu=2).object)
    for weight in (1, 2):
        # What differs is told as another configuration, which is loaded by itself.
        desk.told = msgspec.structs.replace(desk.told, text=f"weight {weight}")
        desk.ask("filter", sent(make_pod(f"web-{weight}", uid=f"w{weight}"), ["node-0"]))
    desk.recorder.close()

    # By itself: here, others have imported what keeps such metrics apart.
    command = [str(Path(sys.executable).parent / "bayplan"), arguments[0], str(desk.file), *arguments[1:]]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_incident_becomes_a_test(desk: Desk, tmp_path: Path) -> None:
    ended = bayplan("export-test", desk.file, "--pod", "default/web-1", "--out", tmp_path / "cases")
    test = tmp_path / "cases" / "test_default_web_1.py"

    assert ended.exit_code == 0, ended.output
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in ran.stdout, ran.stdout


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGTERM, id="ended"), pytest.param(signal.SIGKILL, id="killed")]
)
def test_a_server_records_itself_and_is_replayed(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "r.jsonl.gz"
    with served(tmp_path, "--record", str(file), limits={"policyTimeout": "300ms"}) as server:
        nodes = [full_node(name) for name in NODES]
        for number in range(20):
            pod = sent_pod(
                f"web-{number}", refuse=json.dumps({"node-1": f"no {number}"}), score='{"node-2": 50}'
            )
            server.ask("filter", nodes_request(nodes, pod=pod))
            server.ask("prioritize", nodes_request(nodes, pod=pod))
        server.ask("filter", nodes_request(nodes, pod=sent_pod("loops", do="loop")))
        server.ask("filter", nodes_request(nodes, pod=sent_pod("raises", do="raise", text="oh")))
        server.ask("filter", names_request(NODES))
        told = 'bayplan_recorded_total{result="written"} 42.0'
        wait_until(lambda: told in server.look("/metrics")[1], 10, what="all is written")
        os.kill(server.child.pid, how)
        server.child.wait_ended(20)

    ended = bayplan("replay", file)

    assert ended.exit_code == 0, ended.output
    assert "42 of 42 answers are the same, byte for byte (22 filter, 20 prioritize)" in ended.output
    assert "1 request was answered without the policies" in ended.output
    assert ("the file has no end" in ended.output) == (how == signal.SIGKILL)
