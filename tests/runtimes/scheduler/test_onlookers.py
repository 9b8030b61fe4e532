"""Who looks on while pods are judged: recordings that can be replayed, candidates that are asked, spans."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bayplan import Pod
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.engine.guard import Attempt
from bayplan.ops.metrics import Metrics
from bayplan.ops.tracing import Trace, note_api_call
from bayplan.recording.describe import describe, describe_profiles, reload_described
from bayplan.recording.lines import RecordingError
from bayplan.recording.recorder import Recorder, RecordOptions
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.scheduler.again import Again
from bayplan.runtimes.scheduler.candidate import candidate_options, load_scheduler_candidate
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.judge import Judge, Judgement
from bayplan.runtimes.scheduler.nominations import Nomination
from bayplan.runtimes.scheduler.onlookers import Judged, Onlookers
from bayplan.runtimes.scheduler.profiles import profiles_from
from bayplan.runtimes.scheduler.waiting import Waiting
from bayplan.runtimes.shadow import Shadow
from bayplan.runtimes.simulator.replay import replay
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS
from bayplan.state.sources.book import Sources
from bayplan.testing import make_cluster, make_pod

NODES = ["n0", "n1", "n2"]
OURS = {"schedulerName": "bayplan-scheduler"}
PATIENCE_SECONDS = 60.0
LIKES = """
import bayplan

@bayplan.score(range=(0, 10))
def likes(pod, node):
    return 10 if node.name == "{node}" else 0
"""


def write(folder: Path, node: str = "n0", name: str = "bayplan", **sections: Any) -> Path:
    """A configuration that likes one node best."""
    (folder / f"{name}.py").write_text(LIKES.format(node=node))
    document = {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "policies": [{"use": f"{name}.py", "name": "likes", "weight": 100}],
        **sections,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


class Desk:
    """A scheduler's judge with everybody who looks on, and no cluster of its own."""

    def __init__(self, loaded: Loaded, flags: Flags) -> None:
        self.loaded = loaded
        self.metrics = Metrics(version="test")
        self.shadow = Shadow(limits=Limits(), metrics=self.metrics.shadow, idle=_set())
        self.onlookers = Onlookers(self.shadow)
        profiles = profiles_from(loaded)
        told = msgspec.structs.replace(describe((), flags, loaded), profiles=describe_profiles(loaded))
        self.generation = Generation(
            number=3,
            policies=[policy for each in profiles.values() for policy in each],
            judges={
                name: Judge(each, record=lambda _, decision: self.onlookers.noted(decision, 7))
                for name, each in profiles.items()
            },
            sources=Sources(),
            told=told,
        )

    def judge(
        self, pod: Pod, cluster: Snapshot, *, kept: Nomination | None = None, expecting: Any = None
    ) -> Judgement:
        attempt, began, there = Attempt(), time.perf_counter(), expecting or {}
        self.onlookers.begin(Waiting(pod, time.monotonic(), attempts=1), self.generation)
        judge = self.generation.judges[pod.scheduler_name]
        found = judge.judge(pod, cluster.keeping(there), attempt, kept=kept)
        seen = Judged(pod, found, self.generation, cluster, NO_READINGS, attempt, there)
        self.onlookers.judged(seen, began=began)
        return found


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    flags = Flags(config=write(tmp_path))
    return Desk(load_all([], flags), flags)


def test_what_a_scheduler_decided_is_replayed_byte_for_byte(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    recorder = desk.onlookers.recorder = Recorder(RecordOptions(file), version="test")
    cluster = make_cluster(NODES, [make_pod("there", uid="there", cpu=3, node="n0")])
    waits = make_pod("waits", uid="w", cpu=4, spec=OURS, priority=10)

    assert desk.judge(make_pod("fits", cpu=1, spec=OURS), cluster).node == "n0"
    assert desk.judge(make_pod("huge", cpu=64, spec=OURS), cluster).node == ""
    expected = {"n1": [waits], "n2": [waits]}
    assert desk.judge(make_pod("beside", cpu=2, spec=OURS), cluster, expecting=expected).node == ""
    kept = Nomination(waits, "n2")
    assert desk.judge(waits, cluster, kept=kept).node == "n2"
    desk.onlookers.bound(waits, "n2", "")
    recorder.close()

    found = replay(file, lambda told: Again(reload_described(told)))
    assert (found.equal, found.differences, found.warnings) == ({"schedule": 4}, [], [])

    other = load_all([], Flags(config=write(tmp_path, "n2", "other")))
    changed = replay(file, lambda _: Again(other))
    assert [each.pod for each in changed.differences] == ["default/fits"]


def test_a_pod_of_a_scheduler_that_is_not_there_cannot_be_asked_about_again(desk: Desk) -> None:
    with pytest.raises(RecordingError, match="no profile for scheduler 'default-scheduler'"):
        Again(desk.loaded).policies_for(make_pod())


async def test_a_candidate_is_asked_about_both_halves_and_told_the_decisions_number(
    desk: Desk, tmp_path: Path
) -> None:
    candidate = load_scheduler_candidate(write(tmp_path, "n2", "next"), desk.loaded)
    desk.shadow.adopt(candidate_options(desk.loaded, candidate), desk.generation)
    running = asyncio.create_task(desk.shadow.run())

    desk.judge(make_pod("web", cpu=1, spec=OURS), make_cluster(NODES))
    await until(lambda: desk.shadow.report().compared == 2, running)
    report = desk.shadow.report()
    running.cancel()
    await desk.shadow.close()

    (example,) = report.examples
    assert (example.decision, example.difference.candidate.best) == (7, ("n2",))
    decisions = desk.metrics.registry.get_sample_value
    assert decisions("bayplan_shadow_decisions_total", {"verb": "filter", "result": "same"}) == 1
    assert decisions("bayplan_shadow_decisions_total", {"verb": "prioritize", "result": "other_node"}) == 1


async def until(condition: Callable[[], bool], running: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            assert not running.done(), "the candidate is not asked any more"
            await asyncio.sleep(0.005)


def profile_without(plugin: str) -> str:
    """kube-scheduler's default profile without one of its plugins."""
    plugins = {"multiPoint": {"disabled": [{"name": plugin}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "any", "plugins": plugins}],
    }
    return yaml.safe_dump(document)


def test_a_candidate_follows_the_live_profile_unless_it_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "lean.yaml").write_text(profile_without("ImageLocality"))
    lean = {"schedulerName": "lean", "kubeSchedulerConfig": "lean.yaml"}
    plain = {"schedulerName": "plain"}
    live = load_all([], Flags(config=write(tmp_path, scheduler={"profiles": [lean, plain]})))
    folder = tmp_path / "beside"
    folder.mkdir()
    (folder / "own.yaml").write_text(profile_without("NodePorts"))
    own = {**plain, "kubeSchedulerConfig": "own.yaml"}
    path = write(folder, "n1", "next", scheduler={"profiles": [own]}, extender={"path": "/x"})
    candidate = load_scheduler_candidate(path, live)

    found = candidate_options(live, candidate).profiles

    names = {name: [policy.name for policy in policies] for name, policies in found.items()}
    assert ("ImageLocality" in names["lean"], "NodePorts" in names["lean"]) == (False, True)
    assert ("ImageLocality" in names["plain"], "NodePorts" in names["plain"]) == (True, False)
    assert all("likes" in each for each in names.values())
    assert candidate.ignored == (
        "shadow: extender of next.yaml is ignored: only its policies, sources and profiles count"
    )


class Told:
    """Keeps the traces that it is told."""

    def __init__(self) -> None:
        self.traces: list[tuple[Trace, str, str]] = []

    def tell(self, trace: Trace, *, seconds: float, result: str, error: str) -> None:
        trace.ended = True
        assert seconds >= 0
        self.traces.append((trace, result, error))

    def close(self) -> None:
        """Nothing is left."""


def test_an_attempt_is_traced_from_the_queue_to_the_bind(desk: Desk) -> None:
    told = desk.onlookers.tracing = Told()
    pod = make_pod("web", cpu=1, spec=OURS)

    desk.judge(pod, make_cluster(NODES))
    note_api_call("POST", "/binding", began=time.perf_counter(), seconds=0.1, error="")
    desk.onlookers.bound(pod, "n0", "")

    ((trace, result, error),) = told.traces
    assert (trace.verb, trace.pod, trace.node, trace.generation) == ("schedule", "default/web", "n0", 3)
    assert (result, error) == ("scheduled", "")
    assert [step.name for step in trace.steps if not step.within] == ["queue", "judge", "bind"]
    assert trace.steps[0].attributes == {"bayplan.attempt": 1}
    assert "score likes" in [step.name for step in trace.steps if step.within == "judge"]
    assert [step.name for step in trace.steps if step.within == "bind"] == ["API server POST"]


def test_where_nobody_looks_on_pods_may_be_judged_together(desk: Desk) -> None:
    assert not desk.onlookers.closely
    desk.onlookers.tracing = Told()
    assert desk.onlookers.closely
