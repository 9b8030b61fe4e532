"""``bayplan why``: what it prints, in 80 columns, and how it exits."""

import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from bayplan.cli import why_render
from bayplan.cli.main import commands
from bayplan.cli.why_render import show_evaluated, show_reply
from bayplan.cli.why_words import headline, outcome
from bayplan.engine.ranking import Contribution, Ranked
from bayplan.engine.why import HookRun, LeftOut, RefusedGroup, Told, Why
from bayplan.runtimes.extender.ask_why import Other, Reply
from bayplan.runtimes.simulator.evaluate import Evaluated
from tests.controlplane.ports import free_port

ROOT = Path(__file__).parents[2]
PASSED = Why(
    pod="shop/web-1",
    uid="u",
    decision=12,
    at="2026-01-01T00:00:00.000Z",
    generation=2,
    offered=4,
    passed=2,
    refused=[
        RefusedGroup(
            "cost", "dear", "too dear", 2, ["a", "b"], ["9 dollars", "8 dollars"], "a change", False
        ),
        RefusedGroup("next", "slow", "too slow", 1, ["d"], [""], "", True),
    ],
    not_in_view=[],
    never_offered=1,
    never_offered_nodes=["cordoned"],
    ranking=[
        Ranked("c", 90.0, 9, 90.0, [Contribution("cost", "cheap", 90.0, 1.0, 90.0)], 1),
        Ranked("d", 40.0, 4, 40.0, [Contribution("cost", "cheap", 40.0, 1.0, 40.0)], 2),
    ],
    chosen="c",
    error="",
    observe=False,
    weight=1.0,
    history=[Told(12, "2026-01-01T00:00:00.000Z", "filter", "2 of 4 nodes passed")],
    hooks=[HookRun("cost", "dear", "filter", 0.5), HookRun("cost", "cheap", "score", 0.25)],
)
WAITS = msgspec.structs.replace(
    PASSED,
    passed=0,
    ranking=[],
    chosen="",
    refused=[RefusedGroup("cost", "dear", "too dear", 4, ["a", "b"], ["", ""], "", False)],
    event="0/5 nodes are available: 4 too dear, and 1 more in kube-scheduler's own words.",
)


def changed(why: Why, **changes: Any) -> Why:
    return msgspec.structs.replace(why, **changes)


def printed(why: Why, capfdbinary: Any, others: list[Other] | None = None) -> str:
    show_reply(Reply(why, "http://one:8890", others or []), output="table")
    text: str = capfdbinary.readouterr().out.decode()
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert "\x1b" not in text, "no colours where nobody looks"
    return text


def test_the_numbers_behind_a_score_are_shown_with_it(capfdbinary: Any) -> None:
    parts = [
        Contribution("cost", "cheap", 90.0, 1.0, 45.0, "0.2 an hour"),
        Contribution("cpu", "h", 9, 1, 4.5),
    ]
    why = changed(PASSED, ranking=[Ranked("c", 90.0, 9, 90.0, parts, 1)])

    assert "cost 45.0 (0.2 an hour) + cpu 4.5" in printed(why, capfdbinary)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, ["why", *map(str, arguments)])


def test_a_placed_pod_has_counts_ranking_and_the_choice(capfdbinary: Any) -> None:
    text = printed(PASSED, capfdbinary)

    assert text.startswith("pod shop/web-1  on c\n")
    assert "decision 12, generation 2\ntold by http://one:8890\n" in text
    assert re.search(r"^  offered +4 ", text, re.MULTILINE)
    assert re.search(r"^  refused +2$", text, re.MULTILINE), "what a shadow would refuse is not refused"
    assert re.search(r"^  never offered +1  not asked about: ", text, re.MULTILINE)
    assert "2 too dear  by cost, dear\n    a  9 dollars\n    b  8 dollars\n    to pass: a change\n" in text
    assert re.search(r"^  1  c +90.0 +9 +90  cost 90.0$", text, re.MULTILINE)
    assert "kube-scheduler's own plugins can add up to 1200" in " ".join(text.split())
    assert "kube-scheduler chose c: our best." in text
    assert "Shadow policies would have refused\n  1 too slow  by next, slow" in text
    assert "Time of policies, ms\n  cost 0.75" in text
    assert "12  2026-01-01T00:00:00.000Z  filter  2 of 4 nodes passed" in text


def test_of_many_policies_those_are_told_that_took_longest(capfdbinary: Any) -> None:
    runs = [msgspec.structs.replace(PASSED.hooks[0], policy=f"p{n}", milliseconds=n) for n in range(8)]

    show_reply(Reply(changed(PASSED, hooks=runs), "http://one:8890", []), output="table")

    text = capfdbinary.readouterr().out.decode()
    assert "  p7 7.00, p6 6.00, p5 5.00, p4 4.00, p3 3.00, 3 more 3.00\n" in text


def test_a_waiting_pod_has_the_words_of_the_event(capfdbinary: Any) -> None:
    text = printed(WAITS, capfdbinary)

    assert text.startswith("pod shop/web-1  waits\n")
    assert "\n0/5 nodes are available: 4 too dear, and 1 more in kube-scheduler's own words.\n" in text
    assert "and 2 more\n    to pass: the policy does not say" in text
    assert "No node passed: the pod waits until something changes." in text


def test_what_failed_is_told(capfdbinary: Any) -> None:
    broken = HookRun("load", "busy", "filter", 1.0, failure="policy.py:3 busy: ValueError", ignored=True)
    void = HookRun("cost", "cheap", "prefer", 1.0, void=True)
    why = changed(
        WAITS,
        hooks=[broken, void],
        bind_error="node c: too dear, just now",
        left_out=[
            LeftOut("keep", "victim is protected", 2, ["a", "b"]),
            LeftOut("candidate", "victim is dear", 1, ["c"], shadow=True),
        ],
    )

    text = " ".join(printed(why, capfdbinary).split())

    assert "load.busy: policy.py:3 busy: ValueError (ignored: the policy abstained)" in text
    assert "Soft rules that did not count cost.cheap: it would have left no node" in text
    assert "bind: node c: too dear, just now" in text
    assert "Kept out of preemption 2 victim is protected: keep: a, b" in text
    assert "Shadow policies would have kept out of preemption 1 victim is dear: candidate: c" in text


def test_who_else_was_asked_is_named(capfdbinary: Any) -> None:
    text = printed(PASSED, capfdbinary, [Other("http://two:8890", "no answer: refused")])

    assert "Also asked\n  http://two:8890: no answer: refused\n" in text


def test_long_names_stay_within_the_lines(capfdbinary: Any) -> None:
    name = "ip-10-0-0-1." + "very-long-" * 20 + "internal"
    long = RefusedGroup("p" * 70, "h" * 70, "r" * 200, 1, [name], ["d" * 200], "c" * 200)
    ranked = Ranked(name, 1.0, 1, 1.0, [Contribution("p" * 90, "h", 1.0, 1.0, 1.0)] * 3, 1)

    printed(changed(PASSED, refused=[long], ranking=[ranked], never_offered_nodes=[name]), capfdbinary)


def test_times_stay_whole_in_a_narrow_terminal() -> None:
    paper = io.StringIO()
    long = msgspec.structs.replace(PASSED.history[0], text="2 of 4 nodes passed " * 4)

    Console(width=60, file=paper).print(why_render._history(changed(PASSED, history=[long])))

    assert "12  2026-01-01T00:00:00.000Z  filter  " in paper.getvalue()


def test_a_terminal_is_not_given_orders(capfdbinary: Any) -> None:
    sly = RefusedGroup("cost", "dear", "too dear", 1, ["a"], ["\x1b[2J[red]gone"], "")

    text = printed(changed(PASSED, refused=[sly]), capfdbinary)

    assert "�[2J[red]gone" in text


@pytest.mark.parametrize(
    ("why", "said"),
    [
        pytest.param(
            changed(PASSED, chosen="d"),
            "kube-scheduler chose d, our number 2. Our best, c, has 50 points more from us;"
            " kube-scheduler's own plugins can add up to 1200, and other extenders theirs."
            " From `weight: 25` on its plugins could not outweigh such a difference.",
            id="outweighed by plugins",
        ),
        pytest.param(
            changed(PASSED, chosen="elsewhere"), "was not among the nodes that were scored", id="not scored"
        ),
        pytest.param(
            changed(PASSED, ranking=[], passed=1),
            "the only node that passed: it asks for no scores",
            id="only one",
        ),
        pytest.param(changed(PASSED, ranking=[]), "No policy scored the nodes", id="no scores"),
        pytest.param(changed(PASSED, observe=True), "Bayplan only observes", id="observing"),
        pytest.param(
            changed(PASSED, observe=True, chosen="", passed=0),
            "Bayplan only observes: kube-scheduler was told that every node passes. By its policies 0 of",
            id="observing, and would have refused",
        ),
        pytest.param(
            changed(PASSED, chosen=""), "2 nodes passed here, and the pod is on none", id="on its way"
        ),
        pytest.param(changed(PASSED, chosen="", never_offered=None), "without a cluster", id="no cluster"),
        pytest.param(changed(PASSED, chosen="", bind_error="x"), "refused at bind", id="refused at bind"),
        pytest.param(
            changed(PASSED, chosen="", pods_seen=False),
            "Where the pod went is not in the journal",
            id="on disk",
        ),
        pytest.param(
            changed(PASSED, chosen="", pods_followed=False),
            "it follows no pods (cluster.nodesOnly)",
            id="no pods",
        ),
        pytest.param(changed(WAITS, error="broken"), "There was no answer", id="an error"),
        pytest.param(changed(PASSED, decision=0), "Bayplan's scores alone would choose c. ", id="a manifest"),
        pytest.param(changed(WAITS, decision=0), "the pod would wait", id="a manifest without a place"),
        pytest.param(
            changed(PASSED, decision=0, hooks=[]),
            "No policy is for this pod",
            id="a manifest without policies",
        ),
    ],
)
def test_the_outcome_says_why_that_can_be(why: Why, said: str) -> None:
    assert said in outcome(why)


@pytest.mark.parametrize(
    ("evicted_for", "said"),
    [
        ("", "kube-scheduler chose c: our best. It is not there any more: it has ended, or was deleted."),
        ("shop/hi", "kube-scheduler chose c: our best. It had to leave for shop/hi, and is gone."),
    ],
)
def test_a_pod_that_is_gone_is_not_told_to_be_on_its_node(evicted_for: str, said: str) -> None:
    why = changed(PASSED, gone=True, evicted_for=evicted_for)

    assert headline(why) == "gone, was on c"
    assert outcome(why) == said


def test_a_score_that_failed_does_not_hide_who_was_refused(capfdbinary: Any) -> None:
    show_reply(Reply(changed(PASSED, error="policy 'cost' failed"), "http://one:8890", []), output="table")

    assert re.search(r"^  refused +2$", capfdbinary.readouterr().out.decode(), re.MULTILINE)


def test_a_tie_on_the_wire_is_told() -> None:
    equal = [msgspec.structs.replace(node, wire=9) for node in PASSED.ranking]

    assert "told to be as good as our best, c" in outcome(changed(PASSED, ranking=equal, chosen="d"))
    assert "or one of 1 that are told to be as good" in outcome(changed(PASSED, ranking=equal, decision=0))


def test_json_has_all_of_it_and_the_server(capfdbinary: Any) -> None:
    show_reply(Reply(PASSED, "http://one:8890", [Other("http://two:8890", "older")]), output="json")

    said = json.loads(capfdbinary.readouterr().out)

    assert msgspec.convert(said, Why) == PASSED
    assert (said["server"], said["others"]) == (
        "http://one:8890",
        [{"server": "http://two:8890", "problem": "older"}],
    )


def test_sources_that_do_not_answer_are_told(capfdbinary: Any) -> None:
    found = Evaluated(changed(PASSED, decision=0), {"p95": "no answer yet"})

    show_evaluated(found, output="table")
    assert "Sources that do not answer\n  p95: no answer yet\n" in capfdbinary.readouterr().out.decode()
    show_evaluated(found, output="json")
    assert json.loads(capfdbinary.readouterr().out)["sourceProblems"] == {"p95": "no answer yet"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "name one pod", id="no pod"),
        pytest.param(["a", "b"], "name one pod", id="two pods"),
        pytest.param(["deploy/a"], "'deploy/a': want pod/NAME", id="another kind"),
        pytest.param(["shop/a", "-n", "web"], "in namespace shop, and -n says web", id="two namespaces"),
        pytest.param(["pod/shop/a"], "want pod/NAME or NAMESPACE/NAME", id="three parts"),
        pytest.param(["a", "--snapshot", "x"], "--snapshot goes with -f", id="a snapshot without -f"),
        pytest.param(
            ["a", "--kubeconfig", "x"], "--kubeconfig goes with -f or", id="no use for a kubeconfig"
        ),
        pytest.param(["-f", "x", "--server", "http://x"], "--server asks a server, and -f", id="both"),
        pytest.param(["a", "--from-cluster", "--server", "http://x"], "does not go with", id="two ways"),
        pytest.param(
            ["a", "--journal", "x", "--server", "http://x"], "asks nobody", id="a journal and a server"
        ),
        pytest.param(["-f", "x", "--journal", "j"], "--journal asks a server, and -f", id="a journal and -f"),
        pytest.param(["pod/a", "-f", "x"], "'pod/a': -f tries the pod of the manifest", id="a pod and -f"),
        pytest.param(["a", "--weight", "0"], "0 is not in the range", id="a weight of nothing"),
    ],
)
def test_misuse_exits_with_2(arguments: list[str], said: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert said in result.output


def test_where_nobody_answers_it_exits_with_1_and_says_what_to_do() -> None:
    result = run("pod/web", "-n", "shop", "--server", f"http://127.0.0.1:{free_port()}")

    assert result.exit_code == 1
    assert "no server can say why about pod shop/web" in result.output
    assert "Is `bayplan serve` running there" in result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    subprocess.run(
        [Path(sys.executable).parent / "bayplan", "init", tmp_path / "x"], check=True, capture_output=True
    )
    return tmp_path / "x"


def manifest(disk: str) -> str:
    metadata = {"name": "web", "labels": {"disk": disk}}
    return json.dumps({"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main"}]}})


def test_a_manifest_is_tried_on_a_snapshot(folder: Path) -> None:
    (folder / "pod.yaml").write_text(manifest("ssd"))

    result = run("-f", folder / "pod.yaml", "--config", folder / "bayplan.yaml", "-o", "json")

    assert result.exit_code == 0, result.output
    said = json.loads(result.output)
    assert (said["pod"], said["decision"], said["chosen"], said["passed"]) == ("default/web", 0, "node-2", 2)


def test_a_manifest_comes_from_standard_input_and_policies_from_files(folder: Path) -> None:
    arguments = [
        "why",
        "-f",
        "-",
        str(folder / "policy.py"),
        "--snapshot",
        str(folder / "cluster.json"),
        "-n",
        "shop",
    ]

    result = CliRunner().invoke(commands, arguments, input=manifest("ssd"))

    assert result.exit_code == 0, result.output
    assert result.output.startswith("pod shop/web  not created\n")
    assert "Bayplan's scores alone would choose node-2" in result.output


def test_a_manifest_without_a_place_exits_with_1(folder: Path) -> None:
    (folder / "policy.py").write_text('import bayplan\n\n@bayplan.filter\ndef f(pod, node): return "no"\n')
    (folder / "pod.yaml").write_text(manifest("ssd"))

    result = run("-f", folder / "pod.yaml", "--config", folder / "bayplan.yaml")

    assert result.exit_code == 1
    assert "0/3 nodes are available: 3 no." in result.output


def test_a_mistake_in_a_manifest_exits_with_1_and_has_its_line(folder: Path) -> None:
    (folder / "pod.yaml").write_text("kind: Pod\nmetadata: {name: web}\nspec:\n  contaners: []\n")

    result = run("-f", folder / "pod.yaml", "--config", folder / "bayplan.yaml")

    assert result.exit_code == 1
    assert "pod.yaml:4: spec.contaners: unknown key; did you mean 'containers'?" in result.output


def test_kubectl_finds_it_and_its_help_says_so() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-bayplan"] == scripts["bayplan"]
    run_it = "from bayplan.cli.main import main; main()"
    code = f"import sys; sys.argv = ['/bin/kubectl-bayplan', 'why', '-h']; {run_it}"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.startswith("Usage: kubectl bayplan why [OPTIONS]")


def test_scores_that_failed_keep_nobody_waiting() -> None:
    """kube-scheduler had its answer: every node that passed, with the score 0."""
    failed = changed(PASSED, chosen="", ranking=[], error="policy cost failed: exception")

    assert "There was no answer" not in outcome(failed)
    assert outcome(failed).startswith("2 nodes passed here")
    assert "There was no answer" in outcome(changed(failed, passed=0))
