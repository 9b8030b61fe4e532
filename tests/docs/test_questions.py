"""What people ask: their own words are on the page, its commands run, and its rules are good ones."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.main import commands
from bayplan.cli.starter import first_files
from bayplan.testing import make_node, make_pod
from tests.runtimes.simulator.desk import Desk, sent, write_config

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "questions.md").read_text()
COMMANDS = re.findall(r"^\$ bayplan (.*)$", PAGE, re.MULTILINE)
NAMED = re.findall(r"`bayplan ([a-z][^`]*)`", PAGE)
RULES = [
    text
    for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "use:" in text or "filter:" in text
]
BAYPLAN = Path(sys.executable).parent / "bayplan"
NODES = ["node-0", "node-1", "node-2"]
POLICY_OF_OLD = {
    "kind": "Policy",
    "apiVersion": "v1",
    "predicates": [{"name": "PodFitsResources"}],
    "extenders": [{"urlPrefix": "http://localhost:8888", "filterVerb": "filter", "nodeCacheCapable": True}],
}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: registry.example/web}]
"""


def goes_on(command: str) -> bool:
    """Whether it serves until somebody ends it, or asks somebody who is not there."""
    return command.startswith(("serve", "schedule", "why pod/")) or "--live" in command


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Type a command in a folder that has all files of the page, a recording too."""
    config = write_config(tmp_path)
    config.write_text(config.read_text() + "cluster: {source: kubeconfig}\n")
    (tmp_path / "next.yaml").write_text(config.read_text())
    (tmp_path / "web.yaml").write_text(POD)
    (tmp_path / "cluster.json").write_text(first_files()["cluster.json"])
    (tmp_path / "policy.json").write_text(json.dumps(POLICY_OF_OLD))
    desk = Desk(config, tmp_path / "recording.jsonl.gz")
    for name in NODES:
        desk.cache.put_node(make_node(name, cpu=2).object)
    desk.ask("filter", sent(make_pod("web", uid="u", cpu="1"), NODES))
    desk.recorder.close()

    def typed(command: str) -> subprocess.CompletedProcess[str]:
        line, _, target = command.partition(" > ")
        ended = subprocess.run(
            [BAYPLAN, *shlex.split(line)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if target:
            (tmp_path / target).write_text(ended.stdout)
        return ended

    return typed


@pytest.mark.parametrize(
    "word",
    [
        *("bin packing", "load-aware", "hot spot", "spread over racks", "dedicated nodes", "quota", "budget"),
        *("spot nodes", "GPU sharing", "fractional GPU", "gang", "coscheduling", "PDB", "preemption"),
        *("why is my pod Pending", "what if", "simulate", "troubleshoot", "never asked about"),
        *("EKS", "GKE", "AKS", "control plane", "Helm", "mTLS", "RBAC", "high availability", "failover"),
        *("extender is down", "uninstall", "metrics", "performance at 5,000 nodes", "ImagePullBackOff"),
        *("Policy API", "scheduler framework"),
    ],
)
def test_people_find_a_question_by_their_own_words(word: str) -> None:
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)

    assert any(re.search(rf"\b{re.escape(word)}", heading, re.IGNORECASE) for heading in headings)


def test_every_answer_leads_on_and_is_short() -> None:
    answers = re.findall(r"^### ([^\n]*)\n\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    prose = {
        question: re.sub(r"^```.*?^```|^\|[^\n]*$", "", text, flags=re.M | re.S) for question, text in answers
    }

    assert len(prose) > 30
    assert [question for question, text in prose.items() if "](" not in text] == []
    assert {question: len(text.split()) for question, text in prose.items() if len(text.split()) > 90} == {}


def test_commands_of_the_page_run(run: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    done = [command for command in COMMANDS if not goes_on(command)]
    assert len(done) > len(COMMANDS) / 2
    # Its file is printed by another answer.
    assert run("render sidecar policy.py --part scheduler-config > scheduler.yaml").returncode == 0

    for command in done:
        ended = run(command)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"


@pytest.mark.parametrize("command", sorted({*COMMANDS, *NAMED}))
def test_commands_and_options_that_the_page_names_are_there(command: str) -> None:
    name, *options = command.split()
    path = [name, options[0]] if name == "certs" and options else [name]
    helped = CliRunner().invoke(commands, [*path, "--help"])

    assert helped.exit_code == 0, command
    assert [option for option in options if option.startswith("-") and option not in helped.output] == []


@pytest.mark.parametrize("text", RULES, ids=lambda text: text.splitlines()[1].removeprefix("- "))
def test_rules_of_the_page_pass_the_check(text: str, tmp_path: Path) -> None:
    file = tmp_path / "bayplan.yaml"
    file.write_text(
        f"apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n{text}cluster: {{source: kubeconfig}}\n"
    )
    (tmp_path / "cluster.json").write_text(first_files()["cluster.json"])

    checked = CliRunner().invoke(
        commands, ["check", "--config", str(file), "--snapshot", str(tmp_path / "cluster.json")]
    )

    assert checked.exit_code == 0, checked.output
    assert "ok: 1 policy" in checked.output
