"""A candidate beside the live policies: asked after them, compared, contained, and never heeded."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.config.candidate import candidate_path, load_candidate
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.engine.shadowing import NO_SHADOW, ShadowReport
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.shadow import shadow_options
from bayplan.testing import make_cluster, make_node
from tests.runtimes.extender.caller import Caller, ask, make_pod, metric, names_request, nodes_request
from tests.runtimes.extender.caller import make_node as full_node

NODES = ["a", "b", "c"]
PATIENCE_SECONDS = 60.0
LIVE = """
import bayplan

@bayplan.filter
def refuses(pod, node):
    return node.name != "c" or "not c"

@bayplan.score(range=(0, 10))
def likes(pod, node):
    return 10 if node.name == "a" else 0
"""
CANDIDATE = """
import bayplan

@bayplan.filter
def refuses(pod, node):
    return node.name == "a" or "only a"

@bayplan.score(range=(0, 10))
def likes(pod, node):
    return 10 if node.name == "b" else 0
"""
HANGS = (
    "import bayplan, time\n\n@bayplan.filter\ndef hangs(pod, nodes):\n    time.sleep(TIME)\n    return None\n"
)
RAISES = "import bayplan\n\n@bayplan.filter\ndef raises(pod, nodes):\n    raise ValueError('half-baked')\n"
WAITS = """
import bayplan
GATE = None

@bayplan.filter
def waits(pod, nodes):
    if GATE is not None:
        GATE.wait()
    return None
"""


def write(file: Path, *policies: dict[str, Any], **more: Any) -> Path:
    head = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration"}
    file.write_text(yaml.safe_dump({**head, "policies": list(policies), **more}))
    return file


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    *,
    live: dict[str, Any] | None = None,
    candidate: str = CANDIDATE,
    sources: Any = (),
    own: Any = (),
    limits: Limits | None = None,
    **shadow: Any,
) -> AsyncIterator[Server]:
    """A server with the live policy, and a candidate beside it."""
    (folder / "live.py").write_text(LIVE)
    (folder / "next.py").write_text(candidate)
    write(folder / "next.yaml", {"use": "next.py", "name": "p"}, sources=list(own))
    section = {"config": "next.yaml", **shadow}
    entry = {"use": "live.py", "name": "p", **(live or {})}
    config = write(folder / "live.yaml", entry, shadow=section, sources=list(sources))
    loaded, _ = load_checked([], Flags(config=config))
    path = candidate_path(loaded)
    assert path is not None
    options = replace(
        options_from(loaded, version="test"),
        snapshot=make_cluster(map(make_node, NODES)),
        shadow=shadow_options(loaded.config.shadow, load_candidate(path, loaded)),
        listen=("127.0.0.1", 0),
        ops_listen=("127.0.0.1", 0),
        page_listen=None,
        limits=limits or Limits(),
        watch_interpreter=False,
    )
    async with Server(options).running() as server:
        yield server


async def until(server: Server, wanted: Callable[[ShadowReport], bool]) -> ShadowReport:
    """The report, once it is as wanted."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not wanted(report := server.shadow.report()):  # noqa: ASYNC110 - it is counted, not told
            await asyncio.sleep(0.005)
    return report


async def test_the_live_answer_is_given_and_the_candidates_is_compared(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        filtered = (await ask(server, "filter", names_request(NODES))).json
        scored = (await ask(server, "prioritize", names_request(["a", "b"]))).json
        report = await until(server, lambda r: r.compared == 2)
        counted = {
            (verb, result): await metric(server, "bayplan_shadow_decisions_total", verb=verb, result=result)
            for verb, result in (("filter", "refuses_more"), ("prioritize", "other_node"), ("filter", "same"))
        }
        refused = await metric(server, "bayplan_shadow_nodes_total", difference="refuses")

    assert filtered["NodeNames"] == ["a", "b"]
    assert [each["Score"] for each in scored] == [10, 0]
    assert (report.disagreed, report.rate, report.candidate) == (2, 1.0, "next.yaml")
    assert counted == {("filter", "refuses_more"): 1, ("prioritize", "other_node"): 1, ("filter", "same"): 0}
    assert refused == 1
    first, second = report.examples
    assert (first.verb, second.verb, second.pod) == ("prioritize", "filter", "default/web-1")
    assert [(n.node, n.candidate.reason, n.candidate.policy) for n in second.difference.nodes] == [
        ("b", "only a", "p")
    ]
    entry = server.journal.find(second.decision)
    assert entry is not None
    assert entry.verb == "filter"


async def test_nothing_of_the_candidate_is_in_the_journal_or_in_the_metrics_of_policies(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as server:
        await ask(server, "filter", names_request(NODES))
        await until(server, lambda r: r.compared == 1)
        refused = await metric(server, "bayplan_rejections_total", policy="p", reason="only a")
        entries = server.journal.entries()

    assert refused == 0
    assert [len(entry.voices) for entry in entries] == [1]


async def test_pods_that_no_live_policy_is_for_are_compared_too(tmp_path: Path) -> None:
    async with served(tmp_path, live={"for": {"namespaces": ["other"]}}) as server:
        answer = (await ask(server, "filter", names_request(NODES))).json
        report = await until(server, lambda r: r.compared == 1)

    assert answer["NodeNames"] == NODES
    assert (report.examples[0].difference.refused, report.examples[0].decision) == (2, 0)


async def test_nodes_that_came_in_full_are_judged_as_they_came(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        nodes = [full_node(name) for name in ("a", "b", "not-in-the-view")]
        answer = (await ask(server, "filter", nodes_request(nodes))).json
        report = await until(server, lambda r: r.compared == 1)

    assert len(answer["Nodes"]["items"]) == 3
    assert [each.node for each in report.examples[0].difference.nodes] == ["b", "not-in-the-view"]


async def test_a_candidate_that_says_the_same_disagrees_never(tmp_path: Path) -> None:
    async with served(tmp_path, candidate=LIVE) as server:
        await ask(server, "filter", names_request(NODES))
        await ask(server, "prioritize", names_request(NODES))
        report = await until(server, lambda r: r.compared == 2)

    assert (report.rate, report.examples) == (0.0, ())


async def test_a_candidate_that_raises_is_counted_and_disturbs_nobody(tmp_path: Path) -> None:
    async with served(tmp_path, candidate=RAISES) as server:
        answer = (await ask(server, "filter", names_request(NODES))).json
        report = await until(server, lambda r: r.results["failed"] == 1)
        counted = await metric(server, "bayplan_shadow_decisions_total", verb="filter", result="failed")
        of_policies = await metric(server, "bayplan_policy_failures_total", policy="p", kind="exception")

    assert answer["NodeNames"] == ["a", "b"]
    assert (report.compared, report.rate) == (0, None)
    assert "ValueError: half-baked" in report.last_failure
    assert (counted, of_policies) == (1, 0)


@pytest.mark.parametrize(
    "hangs",
    [
        pytest.param(HANGS.replace("TIME", "3600"), id="it sleeps"),
        pytest.param(HANGS.replace("time.sleep(TIME)", "while True: pass"), id="it loops"),
    ],
)
async def test_a_candidate_that_hangs_is_given_up_and_left_alone_for_a_while(
    tmp_path: Path, hangs: str
) -> None:
    # The dry run would hang with it.
    head = "def hangs(pod, nodes):\n"
    quick = hangs.replace(head, f"{head}    if pod.name != 'web-1': return None\n")
    limits = Limits(policy_seconds=0.2)
    async with served(tmp_path, candidate=quick, limits=limits) as server:
        answers = [(await ask(server, "filter", names_request(NODES))).json for _ in range(3)]
        report = await until(server, lambda r: r.results["failed"] == 3)
        healthy = server.workers.check() == "" and not server.workers.unhealthy()
        assert server.shadow._workers is not None
        overruns = server.shadow._workers.overruns()

    assert all(answer["NodeNames"] == ["a", "b"] for answer in answers)
    assert "still running after 0.2 s" in report.last_failure
    assert healthy
    assert overruns == {"p": 1}


async def test_calls_are_skipped_and_counted_where_too_many_wait(tmp_path: Path) -> None:
    async with served(tmp_path, candidate=WAITS, maxWaiting=2) as server:
        understudy = server.shadow._understudy
        assert understudy is not None
        hook = understudy.policies[0].hooks[0]
        gate = threading.Event()
        hook.function.__globals__["GATE"] = gate
        try:
            await ask(server, "filter", names_request(NODES))
            await until(server, lambda r: r.waiting == 0)
            for _ in range(5):
                await ask(server, "filter", names_request(NODES))
            skipped = await until(server, lambda r: r.results["skipped"] == 3)
        finally:
            gate.set()
        report = await until(server, lambda r: r.compared == 3)

    assert skipped.waiting == 2
    assert report.results["skipped"] == 3


async def test_it_is_not_asked_while_an_answer_is_being_given(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        gate = threading.Event()
        hook = server.app.generation.verbs.policies[0].hooks[0]
        plain = hook.function.__code__
        hook.function.__globals__["GATE"] = gate
        hook.function.__code__ = _waiting.__code__
        slow = asyncio.create_task(ask(server, "filter", names_request(NODES, pod=make_pod("slow"))))
        try:
            await until(server, lambda _: server.app.in_flight == 1)
            await ask(server, "filter", names_request(NODES))
            await asyncio.wait({slow}, timeout=0.3)
            meanwhile = server.shadow.report()
        finally:
            gate.set()
        await slow
        hook.function.__code__ = plain
        after = await until(server, lambda r: r.compared == 2)

    assert (meanwhile.compared, meanwhile.waiting) == (0, 1)
    assert after.results["skipped"] == 0


def _waiting(pod: Any, node: Any) -> Any:
    if pod.name == "slow":
        GATE.wait()  # type: ignore[name-defined]  # noqa: F821 - of the policy's file


async def test_where_it_is_never_quiet_it_is_asked_now_and_then(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        asking = asyncio.create_task(_ask_on_and_on(server))
        try:
            report = await until(server, lambda r: r.compared >= 2)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    assert report.results["skipped"] > 0


async def _ask_on_and_on(server: Server) -> None:
    async with await Caller.connect(server) as caller:
        while True:
            await caller.post("filter", names_request(NODES))


async def test_what_it_imported_is_forgotten_when_another_one_takes_its_place(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        options = server.options.shadow
        assert options is not None
        edition = options.candidate.loaded.edition
        assert edition.files()
        server.generations.adopt_candidate(None)
        await until(server, lambda _: edition.files() == [])
        report = server.shadow.report()

    assert report == NO_SHADOW


async def test_a_sample_is_taken_of_the_calls(tmp_path: Path) -> None:
    class Dice:
        def __init__(self) -> None:
            self.thrown = iter([0.05, 0.2, 0.5, 0.09, 0.1])

        def random(self) -> float:
            return next(self.thrown)

    async with served(tmp_path, sampleRatio=0.1) as server:
        server.shadow._dice = Dice()  # type: ignore[assignment]
        for _ in range(5):
            await ask(server, "filter", names_request(NODES))
        report = await until(server, lambda r: r.compared == 2)
        quiet = await until(server, lambda r: r.waiting == 0)

    assert (report.results["skipped"], quiet.compared, quiet.sample_ratio) == (0, 2, 0.1)


async def test_preempt_and_bind_are_never_put_to_a_candidate(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        victims = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}]}}}
        await ask(server, "preempt", {"Pod": make_pod(), **victims})
        await ask(server, "bind", {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "a"})
        await ask(server, "filter", names_request(NODES))
        report = await until(server, lambda r: r.compared == 1)

    assert report.waiting == 0


async def test_a_call_that_the_live_policies_fail_is_not_compared(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        generation = server.app.generation
        (tmp_path / "live.py").write_text(RAISES)
        loaded, _ = load_checked([], Flags(config=tmp_path / "live.yaml"))
        generation.verbs.policies = loaded.policies
        error = (await ask(server, "filter", names_request(NODES))).json["Error"]
        generation.verbs.policies = []
        await ask(server, "filter", names_request(NODES, pod=make_pod("next")))
        # One after the other: the first has had its turn.
        report = await until(server, lambda r: bool(r.examples) and r.examples[0].pod == "default/next")

    assert "half-baked" in error
    assert sum(report.results.values()) == 1


async def test_counting_begins_anew_with_other_live_policies(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await ask(server, "filter", names_request(NODES))
        before = await until(server, lambda r: r.compared == 1)
        loaded, _ = load_checked([], Flags(config=tmp_path / "live.yaml"))
        server.adopt(replace(server.options, policies=loaded.policies, edition=loaded.edition))
        fresh = server.shadow.report()
        await ask(server, "filter", names_request(NODES))
        after = await until(server, lambda r: r.compared == 1)

    assert (before.live_generation, before.generation) == (1, 1)
    assert (fresh.compared, fresh.examples, fresh.live_generation, fresh.generation) == (0, (), 2, 1)
    assert after.disagreed == 1
