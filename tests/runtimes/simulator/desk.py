"""A server without sockets: policies, a cluster that changes, and a recorder that takes notes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.engine.guard import Attempt, Failure
from bayplan.kube.pod import Pod
from bayplan.ops.metrics import Metrics
from bayplan.recording.describe import describe
from bayplan.recording.lines import Configuration
from bayplan.recording.notes import Basis
from bayplan.recording.recorder import Recorder, RecordOptions
from bayplan.runtimes.extender.again import verbs_as_recorded, verbs_of
from bayplan.runtimes.extender.verbs import Answer, Verbs
from bayplan.runtimes.simulator.replay import Replay, replay
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS, Readings
from bayplan.state.cache import Cache

POLICY = """
import bayplan

LATE = bayplan.Reason("not after midnight")
FULL = bayplan.Reason("too little CPU", detail="{free}m free", preemptible=True)
TWIN = bayplan.Reason("a twin is there")
APP = bayplan.PodLabel("app")


@bayplan.filter
def room(pod, nodes):
    free = nodes["cpu.free"]
    return FULL.where(free < pod.cpu_milli, free=free)


@bayplan.filter(recheck=True)
def no_twins(pod, nodes):
    return TWIN.where(nodes.count(APP.same_as(pod)) > 0) if pod.labels.get("app") else None


@bayplan.filter
def daytime(pod, node, now):
    if pod.labels.get("day") == "only" and now.microsecond % 2:
        return LATE


@bayplan.score
def roomy(pod, nodes):
    return nodes["cpu.free"] - pod.cpu_milli


@bayplan.score(weight=2)
def order(pod, nodes, cluster):
    last = len(cluster.pods[-1].name) if cluster.pods else 0
    return [(place + 1) * (len(cluster.pods) + last) % 7 for place in range(len(nodes))]


@bayplan.protect
def dear(pod, victim):
    return victim.labels.get("dear") == "yes"
"""


def write_config(folder: Path, *, policy: str = POLICY, **entry: Any) -> Path:
    """A configuration with one policy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.py").write_text(policy)
    document: dict[str, Any] = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration"}
    # As the verbs of a desk answer.
    document["extender"] = {"answer": {"failedNodes": "always"}}
    path = folder / "bayplan.yaml"
    path.write_text(yaml.safe_dump({**document, "policies": [{"use": "policy.py", **entry}]}))
    return path


class Desk:
    """Answers requests over the cache as it is, and records."""

    def __init__(self, config: Path, file: Path, *, observe: bool = False, **options: Any) -> None:
        self.file = file
        self.cache = Cache()
        self.counted: list[str] = []
        flags = Flags(config=config, observe=observe or None)
        self.loaded = load_all((), flags)
        self.told = describe((), flags, self.loaded)
        self.told = msgspec.structs.replace(self.told, observe=observe)
        self.verbs = Verbs(self.loaded.policies, Metrics(version=""), observe=observe)
        self.recorder = Recorder(RecordOptions(file, **options), version="test", count=self.counted.append)

    def ask(
        self,
        verb: str,
        body: Any,
        *,
        cluster: Snapshot | None = None,
        blind: bool = False,
        readings: Readings = NO_READINGS,
        given_up: Mapping[str, Failure] | None = None,
    ) -> bytes:
        """One request, answered and recorded."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        seen = None if blind else cluster or self.cache.snapshot()
        attempt = Attempt(given_up=dict(given_up or {}))
        said: Answer = getattr(self.verbs, verb)(content, seen, attempt, readings=readings)
        self.recorder.answered(verb, content, said.body, basis=Basis(self.told, seen, readings, attempt))
        return said.body

    def bind(self, pod: Pod, node: str) -> None:
        """The last word about a pod, recorded; where nobody objects, it is assumed on the node."""
        seen, attempt = self.cache.snapshot(), Attempt()
        said = self.verbs.commit(pod, node, seen, attempt)
        basis = Basis(self.told, seen, NO_READINGS, attempt)
        self.recorder.committed(pod, node, refusal=said.refusal, annotations=said.annotations, basis=basis)
        if not said.refusal:
            self.cache.assume(pod, node, said.annotations)

    def replayed(self, loaded: Loaded | None = None) -> Replay:
        """The recording, ended and asked again: by the same policies or by others."""
        self.recorder.close()
        other = verbs_of(loaded) if loaded else None

        def respondent(told: Configuration) -> Verbs:
            return other or verbs_as_recorded(told, self.loaded.policies)

        return replay(self.file, respondent)


def sent(pod: Pod, names: Sequence[str]) -> dict[str, Any]:
    """A request with names, as kube-scheduler sends it."""
    return {"Pod": sent_pod(pod), "Nodes": None, "NodeNames": list(names)}


def sent_pod(pod: Pod) -> dict[str, Any]:
    """A pod with what is nobody's business."""
    body: dict[str, Any] = msgspec.to_builtins(pod)
    body["metadata"]["annotations"] = {
        **body["metadata"].get("annotations", {}),
        "kubectl.kubernetes.io/last-applied-configuration": '{"env":"hunter2"}',
    }
    for container in body["spec"]["containers"]:
        container["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
        container["args"] = ["--password=hunter2"]
    body["spec"]["volumes"] = [{"name": "v", "csi": {"volumeAttributes": {"token": "hunter2"}}}]
    return body
