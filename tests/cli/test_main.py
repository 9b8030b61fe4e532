"""The command line: instant help, errors a person can act on, exit codes 0, 1 and 2."""

import errno
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from bayplan.cli import main as cli
from bayplan.cli import render, showroom
from bayplan.cli.main import commands
from bayplan.demo.caller import Placement
from bayplan.testing import make_cluster, make_node, make_pod

COMMANDS = ["demo", "init", "check", "serve", "schedule", "why", "columns"]
BAYPLAN = Path(sys.executable).parent / "bayplan"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def config(folder: Path, text: str) -> Path:
    return written(folder / "bayplan.yaml", f"apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n{text}")


def policy(folder: Path, code: str = "@bayplan.filter\ndef f(pod, node): ...\n") -> Path:
    return written(folder / "policy.py", f"import bayplan\n\n{code}")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"], ["check", "--help"]])
def test_help_imports_neither_numpy_nor_aiohttp(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from bayplan.cli.main import commands\n"
        f"commands({arguments!r}, standalone_mode=False)\n"
        "heavy = {'numpy', 'aiohttp', 'prometheus_client', 'rich', 'yaml', 'uvloop'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "bayplan" in done.stdout or "Usage" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(command: str, flag: str) -> None:
    result = run(command, flag)

    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_list_of_commands_is_complete() -> None:
    files = {file.stem for file in Path(sys.modules["bayplan.cli.main"].__file__ or "").parent.glob("*.py")}

    listed = run("--help").output

    assert set(COMMANDS) <= files
    assert all(f"  {command} " in listed for command in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["sevre"], "no command 'sevre'; did you mean 'serve'?", id="a typo in the command"),
        pytest.param(["serve", "--lisen", "x"], "--listen", id="a typo in a flag"),
        pytest.param(["columns", "-o", "xml"], "'xml' is not one of", id="a form that is none"),
        pytest.param(["serve", "--log-level", "loud"], "'loud' is not one of", id="a level that is none"),
        pytest.param(["demo", "--pods", "0"], "0 is not in the range", id="a number out of range"),
        pytest.param(["schedule", "--qps", "nan"], "'nan' is not a number above 0", id="no number at all"),
    ],
)
def test_misuse_exits_with_2(arguments: list[str], said: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert said in result.output


def test_init_then_check_then_pytest_works(tmp_path: Path) -> None:
    folder = tmp_path / "mine"

    assert run("init", folder).exit_code == 0
    checked = run("check", "--config", folder / "bayplan.yaml")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.exit_code == 0, checked.output
    assert "ok: 1 policy, every hook ran on 0, 1 and 3 nodes" in checked.output
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_check_asks_about_the_pods_of_manifests(tmp_path: Path) -> None:
    code = "import bayplan\n\n@bayplan.filter\ndef f(pod, node):\n    return pod.labels.get('a') and 1 / 0\n"
    policy = written(tmp_path / "policy.py", code)
    pod = written(
        tmp_path / "pod.yaml",
        "kind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    metadata: {labels: {a: b}}\n"
        "    spec: {containers: [{name: main}]}\n",
    )

    checked = run("check", policy, "--pod", pod)

    assert checked.exit_code == 1
    assert "policy.py:5 f: ZeroDivisionError" in checked.output
    assert "(for pod default/web)" in checked.output
    assert run("check", policy, "--pod", tmp_path / "none.yaml").exit_code == 1


def test_init_keeps_what_is_there_unless_forced(tmp_path: Path) -> None:
    mine = written(tmp_path / "policy.py", "# mine")

    refused = run("init", tmp_path)
    assert refused.exit_code == 1
    assert "policy.py exists already; --force replaces it" in refused.output
    assert mine.read_text() == "# mine"
    assert not (tmp_path / "bayplan.yaml").exists(), "nothing is written by halves"

    assert run("init", tmp_path, "--force").exit_code == 0
    assert mine.read_text() != "# mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "policies:\n- use: policy.py\n  wieght: 2\n",
            "bayplan.yaml:5: policies[0].wieght: unknown key; did you mean 'weight'?",
            id="a typo in the configuration",
        ),
        pytest.param("policies:\n- use: polcy.py\n", "bayplan.yaml:4: ", id="a file that is not there"),
        pytest.param(
            "policies:\n- use: policy.py:g\n",
            "no policy 'g' in that file; known here: f",
            id="a hook that is not there",
        ),
        pytest.param(
            "policies:\n- use: policy.py\nextender:\n  tls: {certFile: a}\n",
            "bayplan.yaml:6: extender.tls: `keyFile` is missing",
            id="half of TLS",
        ),
        pytest.param("policies: []\n", "no policies: list some under `policies:`", id="no policies"),
    ],
)
def test_check_names_file_line_and_suggestion_and_exits_with_1(tmp_path: Path, text: str, said: str) -> None:
    policy(tmp_path)

    result = run("check", "--config", config(tmp_path, text))

    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(
            "@bayplan.filter\ndef f(pod, noed): ...\n",
            "policy.py:3 f: unknown parameter 'noed'; did",
            id="typo",
        ),
        pytest.param("def f(:\n", "policy.py:3: ", id="no Python"),
        pytest.param(
            "@bayplan.filter\nasync def f(pod, node): ...\n", "policy.py:3 f: a hook is a plain", id="async"
        ),
        pytest.param(
            '@bayplan.score(best="lowest")\ndef f(pod, node): ...\n',
            'policy.py:3 f: score: best must be "high" or "low", not \'lowest\'',
            id="an option that does not exist",
        ),
        pytest.param(
            "@bayplan.filtr\ndef f(pod, node): ...\n",
            "policy.py:3: AttributeError: module 'bayplan' has no attribute 'filtr'; did you mean 'filter'?",
            id="a hook that does not exist",
        ),
        pytest.param(
            "@bayplan.filter\ndef f(pod, node):\n    return node.label\n",
            "policy.py:5 f: AttributeError: 'Node' object has no attribute 'label'; did you mean 'labels'?",
            id="an attribute that does not exist",
        ),
        pytest.param("import nonsense_\n", "policy.py:3: ModuleNotFoundError", id="an import that fails"),
    ],
)
def test_check_names_the_line_of_a_policy(tmp_path: Path, code: str, said: str) -> None:
    result = run("check", policy(tmp_path, code))

    assert result.exit_code == 1
    assert said in result.output


def test_check_shows_problems_of_the_dry_run_in_both_forms(tmp_path: Path) -> None:
    broken = policy(tmp_path, "@bayplan.filter\ndef f(pod, node):\n    return node.labels['[rack]']\n")

    table = run("check", broken)
    report = json.loads(run("check", broken, "-o", "json").output)

    assert table.exit_code == 1
    problem = "KeyError: '[rack]'; write .get('[rack]') where it may be missing (on node rehearsal-0)"
    assert f"problem policy.py:5 f: {problem}" in table.output
    assert report["ok"] is False
    assert report["problems"] == [f"policy.py:5 f: {problem}"]


def test_check_shows_every_hook_in_both_forms(tmp_path: Path) -> None:
    table = run("check", policy(tmp_path))
    report = json.loads(run("check", policy(tmp_path), "--output", "json").output)

    assert table.exit_code == 0
    assert "per node" in table.output
    assert report == {
        "ok": True,
        "policies": [
            {
                "name": "policy",
                "weight": 1.0,
                "failurePolicy": "Fail",
                "hooks": [
                    {
                        "name": "f",
                        "kind": "filter",
                        "where": "policy.py:3",
                        "reads": "node",
                        "readsFrom": "shown",
                    }
                ],
            }
        ],
        "problems": [],
        "hints": report["hints"],
    }
    assert len(report["hints"]) == 1
    assert table.output.count("hint policy.py:3 f: ") == 1


READING = """
@bayplan.filter
def shown(pod, node):
    return node.labels.get("disk") == "ssd"

@bayplan.filter(reads="pods")
def declared(pod, nodes):
    return nodes["cpu.allocatable"] > 0

@bayplan.score
def default(pod, nodes, cluster):
    return nodes["cpu.allocatable"] / len(cluster.nodes)

@bayplan.score(reads=lambda pod, cluster: "node")
def told(pod, nodes):
    return nodes["cpu.allocatable"]

@bayplan.prefer
def asked(pod, node):
    return node.name != "n"
"""


def test_check_shows_what_each_hook_reads_and_who_says_so(tmp_path: Path) -> None:
    table = run("check", policy(tmp_path, READING)).output
    (found,) = json.loads(run("check", policy(tmp_path, READING), "-o", "json").output)["policies"]

    assert {hook["name"]: (hook.get("reads"), hook.get("readsFrom")) for hook in found["hooks"]} == {
        "shown": ("node", "shown"),
        "declared": ("pods", "declared"),
        "default": ("cluster", "default"),
        "told": ("by a function", "declared"),
        "asked": (None, None),
    }
    rows = {line.split()[1]: line for line in table.splitlines() if "policy.py:" in line}
    assert "node (shown)" in rows["shown"]
    assert "pods (declared)" in rows["declared"]
    assert "cluster (default)" in rows["default"]
    assert "by a function (declared)" in rows["told"]
    assert "(" not in rows["asked"]


def test_check_shows_what_an_expression_reads(tmp_path: Path) -> None:
    text = "policies: [{name: racks, filter: \"'rack' in node.metadata.labels\"}]"

    (found,) = json.loads(run("check", "--config", config(tmp_path, text), "-o", "json").output)["policies"]

    assert [(hook["reads"], hook["readsFrom"]) for hook in found["hooks"]] == [("node", "shown")]


def test_of_a_built_in_no_file_is_named_that_nobody_has(tmp_path: Path) -> None:
    items = [{"kind": "Node", "metadata": {"name": "a"}}, {"kind": "Pod", "metadata": {"name": "p"}}]
    file = written(tmp_path / "cluster.json", json.dumps({"kind": "List", "items": items}))

    result = run("check", "MostAvailableCPU", "--snapshot", file)

    assert result.exit_code == 0
    assert "built-in" in result.output
    assert ".py:" not in result.output


def test_columns_are_json_for_programs(tmp_path: Path) -> None:
    use = policy(
        tmp_path, "RACK = bayplan.Label('example.com/rack')\n\n@bayplan.filter\ndef f(pod, node): ...\n"
    )

    result = run("columns", use, "-o", "json")

    assert result.exit_code == 0
    rows = {row["column"]: row for row in json.loads(result.output)}
    assert rows["cpu.free"]["unit"] == "milli-CPU"
    assert any("example.com/rack" in name for name in rows)


def test_columns_of_a_snapshot_show_what_is_there(tmp_path: Path) -> None:
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "3"}},
    }
    snapshot = written(
        tmp_path / "cluster.json", json.dumps({"kind": "List", "apiVersion": "v1", "items": [node]})
    )

    rows = {
        row["column"]: row for row in json.loads(run("columns", "--snapshot", snapshot, "-o", "json").output)
    }

    assert rows["cpu.allocatable"]["values"] == "3,000"
    assert "cpu.allocatable" in run("columns", "--snapshot", snapshot).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["serve"], "no policies", id="nothing to serve"),
        pytest.param(
            ["serve", "missing.py"], "no such file; `bayplan init` writes a first policy", id="no file"
        ),
        pytest.param(
            ["serve", "POLICY", "--listen", "nowhere"],
            "--listen: 'nowhere' is not HOST:PORT",
            id="no address",
        ),
        pytest.param(
            ["serve", "POLICY", "--tls-cert", "c"], "both --tls-cert and --tls-key", id="half of TLS"
        ),
        pytest.param(
            ["serve", "POLICY", "--listen", "127.0.0.1:70000"],
            "'127.0.0.1:70000': there is no port above 65535",
            id="no port",
        ),
        pytest.param(
            ["serve", "POLICY", "--tls-cert", "c", "--tls-key", "k"], "certificate", id="no certificate"
        ),
        pytest.param(
            ["serve", "POLICY", "--tls-cert", "policy.py", "--tls-key", "k"], "Error: key ", id="no key"
        ),
        pytest.param(["serve", "bytes.py"], "bytes.py: source code string", id="no text at all"),
        pytest.param(["serve", "."], ". is a directory; give a file, such as policy.py", id="a directory"),
        pytest.param(
            ["serve", "bayplan.yaml"], "did you mean --config bayplan.yaml?", id="a configuration as a policy"
        ),
        pytest.param(["serve", "POLICY", "--kubeconfig", "k"], "kubeconfig", id="no kubeconfig"),
        pytest.param(["serve", "POLICY", "--snapshot", "s"], "No such file", id="no snapshot"),
        pytest.param(
            ["serve", "--config", "c.yaml"], "`bayplan init` writes a first one", id="no configuration"
        ),
    ],
)
def test_serve_says_in_one_line_why_it_does_not_start(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    use = str(policy(tmp_path))
    (tmp_path / "bytes.py").write_bytes(b"\0" * 100)
    ports = ["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]
    given = [use if argument == "POLICY" else argument for argument in arguments]

    done = subprocess.run(
        [BAYPLAN, given[0], *(ports if "--listen" not in given else ports[2:]), *given[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )

    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("Error: ")
    assert said in error
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [BAYPLAN, "columns"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )

    assert done.returncode == 1
    assert done.stderr == "Error: the output cannot be written: No space left on device\n"


def test_a_file_that_finds_no_room_is_not_called_the_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "commands", write)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    assert capfd.readouterr().err == "Error: a file cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        pytest.param(
            "profiles: [{schedulerName: x}, {schedulerName: x}]", "two profiles for scheduler 'x'", id="twice"
        ),
        pytest.param(
            "profiles: [{schedulerName: x, kubeSchedulerConfig: nope.yaml}]",
            "nope.yaml",
            id="no such profile",
        ),
        pytest.param(
            "podInitialBackoff: 20s\n  podMaxBackoff: 1s", "less than podInitialBackoff", id="backoff"
        ),
        pytest.param("leaderElection: {leaseDuration: 3s}", "3s is too short", id="a short Lease"),
        pytest.param("profiles: [{schedulerName: Foo Bar}]", "which the API server refuses", id="a name"),
    ],
)
def test_check_finds_what_schedule_would_refuse(tmp_path: Path, section: str, said: str) -> None:
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: MostAllocated}]\n"
        f"cluster: {{source: snapshot, snapshot: s.json}}\nscheduler:\n  {section}\n"
    )
    node, pod = '{"kind":"Node","metadata":{"name":"n"}}', '{"kind":"Pod","metadata":{"name":"p"}}'
    (tmp_path / "s.json").write_text(f'{{"kind":"List","items":[{node},{pod}]}}')

    result = run("check", "--config", str(config))

    assert result.exit_code == 1
    assert said in result.output


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_has_seen_enough_is_no_error(form: str) -> None:
    """`bayplan columns | head -1`: the pipe is closed while there is more to say."""
    columns = subprocess.Popen(
        [BAYPLAN, "columns", "-o", form], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert columns.stdout is not None
    columns.stdout.close()
    assert columns.stderr is not None
    with columns.stderr:
        said = columns.stderr.read()

    assert columns.wait(30) == 0
    assert said == b""


def snapshot_of(folder: Path, *nodes: dict[str, Any]) -> Path:
    items = [{"kind": "Node", "metadata": {"name": f"node-{n}"}, **node} for n, node in enumerate(nodes)]
    return written(folder / "cluster.json", json.dumps({"kind": "List", "items": items}))


def test_a_quantity_that_is_none_is_said_in_one_line(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path, {"status": {"allocatable": {"cpu": "lots"}}})

    result = run("columns", "--snapshot", snapshot)

    assert result.exit_code == 1
    assert result.output.startswith("Error: node node-0: status.allocatable.cpu: 'lots' is not a quantity")
    assert len(result.output.splitlines()) == 1


def test_a_label_that_cannot_be_read_is_shown_with_its_value(tmp_path: Path) -> None:
    labels = [{"watts": "300"}, {"watts": "450W"}]
    snapshot = snapshot_of(
        tmp_path, *({"metadata": {"name": f"n{n}", "labels": of}} for n, of in enumerate(labels))
    )
    use = policy(tmp_path, "WATTS = bayplan.Label('watts', float)\n\n@bayplan.filter\ndef f(node): ...\n")

    result = run("columns", use, "--snapshot", snapshot)

    said = "'450W' on n1 cannot be read as a number; it counts as missing"
    assert f'warning Label("watts", float): {said}' in result.output
    # In the same words as `check`.
    assert said in " ".join(run("check", use, "--snapshot", snapshot).output.split())


KEY = "a-rather-long-prefix.example.com/watts-that-are-free"


@pytest.mark.parametrize("width", [40, 80, 100, 140, 200])
def test_names_of_columns_are_whole_at_any_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    code = f"WATTS = bayplan.Label('{KEY}', float)\n\n@bayplan.filter\ndef f(node): ...\n"
    rows = json.loads(run("columns", policy(tmp_path, code), "-o", "json").output)
    monkeypatch.setattr(render, "console", lambda: Console(width=width, force_terminal=True))

    shown = run("columns", policy(tmp_path, code)).output

    assert f'Label("{KEY}", float)' in shown
    assert [row["column"] for row in rows if row["column"] not in shown] == []


def test_the_summary_of_each_command_is_whole() -> None:
    listed = run("--help").output

    assert "..." not in listed.partition("Commands:")[2].partition("Start here:")[0]


def test_the_demo_shows_whole_words_and_lines_to_copy() -> None:
    shown = CliRunner().invoke(commands, ["demo", "--once", "--pods", "120"], color=True)

    assert shown.exit_code == 0
    assert "nodes  reason" in shown.output
    assert "Insufficient cpu (kube-scheduler's own judgement)" in shown.output
    assert "its event would say:" in shown.output


def test_the_demo_quotes_what_a_shell_would_expand(capsys: pytest.CaptureFixture[str]) -> None:
    stage = showroom._Stage(Console(width=200), 1)

    cluster = make_cluster([make_node("a"), make_node("memory-1")])
    stage._try_it(cluster, "http://127.0.0.1:8889", make_pod("train-9", namespace="demo"))

    said = capsys.readouterr().out
    assert "  curl -s 'http://127.0.0.1:8889/readyz?verbose'\n" in said
    assert " why -n demo pod/train-9 --server" in said


def test_digits_in_names_are_not_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = make_cluster([make_node("node-1")])
    stage = showroom._Stage(Console(width=200, force_terminal=True, color_system="standard"), 1)
    stage.started("http://127.0.0.1:8888", cluster, page_url="http://127.0.0.1:8890/")
    pod = make_pod("web-1", labels={"app": "web"})
    stage.placed(Placement(pod, "", 1, 0, 0, Counter({"no free GPU 0": 1})))
    stage.finished(cluster, "", serving=False)

    after_the_bar = capsys.readouterr().out.partition("Where pods went")[2]
    assert "web-1\x1b[0m waits; its event" in after_the_bar
    assert set(re.findall(r"\x1b\[[0-9;]*m", after_the_bar)) <= {"\x1b[0m", "\x1b[1m", "\x1b[3m"}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["why", "-f", "pod.json", "policy.py", "--snapshot", "cluster.json"], id="why"),
        pytest.param(["check", "policy.py", "--snapshot", "cluster.json"], id="check"),
        pytest.param(["check", "no-policy-\N{HEAVY CHECK MARK}.py"], id="an error"),
        pytest.param(["columns", "policy.py", "--snapshot", "cluster.json"], id="columns"),
        pytest.param(["demo", "--once", "--pods", "5"], id="demo"),
        pytest.param(["render", "sidecar", "policy.py"], id="render"),
    ],
)
def test_a_locale_that_knows_ascii_alone_is_enough(tmp_path: Path, arguments: list[str]) -> None:
    acute, arrow = "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{RIGHTWARDS ARROW}"
    code = f'@bayplan.filter\ndef f{acute}(pod, node):\n    """{arrow}"""\n    return "no {arrow}"\n'
    (tmp_path / "policy.py").write_text(f"import bayplan\n\n{code}", encoding="utf-8")
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}}
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "labels": {f"caf{acute}": "x"}},
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node]}))
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env.pop("PYTHONIOENCODING", None)

    done = subprocess.run([BAYPLAN, *arguments], cwd=tmp_path, env=env, capture_output=True, check=False)

    said = done.stderr.decode(errors="replace")
    assert "Unicode" not in said, said
    assert "codec" not in said, said
    assert b"Traceback" not in done.stderr
    assert done.stdout or arguments[1].startswith("no-")
