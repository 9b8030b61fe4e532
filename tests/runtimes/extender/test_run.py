"""What `bayplan serve` says at its start."""

import json
from pathlib import Path

import pytest

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.served import BAYPLAN

FAILING = """
import bayplan

@bayplan.filter
def rack(pod, node):
    return node.labels["rack"] == "a" or "not in rack a"
"""
NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "3"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.py").write_text(FAILING)
    for name, count in (("one.json", 1), ("two.json", 2)):
        nodes = [NODE | {"metadata": {"name": f"n{number}"}} for number in range(count)]
        (tmp_path / name).write_text(json.dumps({"kind": "List", "items": nodes}))
    return tmp_path


def first_lines(folder: Path, *flags: str) -> str:
    """The log until everything of the start is said."""
    ports = ["--listen", f"127.0.0.1:{free_port()}", "--ops-listen", f"127.0.0.1:{free_port()}"]
    command: list[str | Path] = [BAYPLAN, "serve", folder / "policy.py", "--page-listen=off", *ports, *flags]
    child = Child("bayplan serve", command, log=folder / "log")
    try:
        wait_until(lambda: "cluster: " in child.log(), 20, what="the start is told")
        return child.log()
    finally:
        child.stop()


def test_a_problem_of_the_dry_run_is_called_so(folder: Path) -> None:
    said = first_lines(folder)

    problem = "KeyError: 'rack'; write .get('rack') where it may be missing (on node rehearsal-0)"
    assert f"dry run: policy.py:6 rack: {problem}; serving all the same," in said
    assert "serving all the same, its failurePolicy will answer\n" in said


def test_without_an_api_server_bind_is_not_announced(folder: Path) -> None:
    said = first_lines(folder)

    assert "serving filter, prioritize, preempt at http://127.0.0.1:" in said
    assert "cluster: only the nodes that requests bring" in said


@pytest.mark.parametrize(("name", "count"), [("one.json", "1 node"), ("two.json", "2 nodes")])
def test_a_snapshot_is_named(folder: Path, name: str, count: str) -> None:
    said = first_lines(folder, "--snapshot", str(folder / name))

    assert f"cluster: {count}, from the file {folder / name} (it does not change)\n" in said
    assert "serving filter, prioritize, preempt at http://127.0.0.1:" in said


def test_with_an_api_server_bind_is_announced(folder: Path) -> None:
    kubeconfig = folder / "kubeconfig.yaml"
    kubeconfig.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{free_port()}"}}}}]
users: [{{name: u, user: {{}}}}]
"""
    )

    assert "serving filter, prioritize, preempt, bind at" in first_lines(
        folder, "--kubeconfig", str(kubeconfig)
    )


def test_hooks_about_a_queue_are_told_to_have_no_effect(folder: Path) -> None:
    (folder / "policy.py").write_text(
        FAILING
        + "\n@bayplan.gate\ndef g(pod):\n    return None\n\n@bayplan.order\ndef o(pod):\n    return 1\n"
    )

    said = first_lines(folder)

    assert "policy.py:8 g: `gate` is of `bayplan schedule` alone" in said
    assert "policy.py:12 o: `order` is of `bayplan schedule` alone" in said
