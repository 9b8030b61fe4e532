"""A cluster for benchmarks: 5,000 nodes, 50,000 pods, and what a server does to them between two calls.

Each pod is another one, of one of many apps. A pod that is bound changes a row of the node table, through the
cache that a server has. A web service answers each question anew, from the bytes of its answer on.
"""

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

import msgspec
import numpy as np

from bayplan.engine.cycle import Question
from bayplan.kube.pod import Pod
from bayplan.snapshot.bynode import by_field
from bayplan.snapshot.sources import Reading, Readings
from bayplan.state.cache import Cache
from bayplan.state.sources.asker import Asked, Asker
from bayplan.state.sources.document import Shape
from bayplan.state.sources.http import SourceHttp
from bayplan.testing import make_node, make_pod

TEAMS, APPS, RACKS = 20, 2_000, 100
ZONES = ("a", "b", "c")
TYPES = ("small", "medium", "large", "huge")
CPUS = ("100m", "250m", "500m", "1")
TEXTS = ("drained tonight", "no licence", "reserved for another team")


def make_one(number: int, *, node: str | None = None) -> Pod:
    """A pod of one of the teams and apps; pods of one app are alike but for their names."""
    app = number % APPS
    return make_pod(
        f"pod-{number}",
        namespace=f"team-{app % TEAMS}",
        labels={"team": f"team-{app % TEAMS}", "app": f"app-{app}", "avoid": f"rack-{app}"},
        owner=("ReplicaSet", f"app-{app}"),
        cpu=CPUS[app % len(CPUS)],
        memory="512Mi",
        requests={"example.com/gpu-memory": "1000", "example.com/gpu-compute": "10"},
        node=node,
    )


class World:
    """The cluster as a server sees it."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._dice = random.Random(1)  # noqa: S311 - the same cluster each time
        self._cache = Cache()
        self._names = [f"node-{number:04}" for number in range(nodes)]
        # kube-scheduler has an order of its own.
        self._rows = np.array(self._dice.sample(range(nodes), nodes), dtype=np.intp)
        self._asked = [self._names[row] for row in self._rows.tolist()]
        self._pods = 1_000_000
        self._runner = asyncio.Runner()
        self._service = _Service(self._asked, self._dice)
        for number, name in enumerate(self._names):
            self._cache.put_node(_node(number, name))
        for number in range(pods):
            self._cache.put_pod(make_one(number, node=self._dice.choice(self._names)))
        before = self._cache.snapshot().nodes.requested_now
        usage = {name: {"cpu": self._dice.random(), "memory": self._dice.random()} for name in self._names}
        self._polled = Readings({"usage": Reading(by_field(usage), before=before)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def next_pod(self) -> Pod:
        """A pod that nobody has asked about yet."""
        self._pods += 1
        return make_one(self._pods)

    def bind(self) -> None:
        """A pod is bound somewhere: a row of the table is another one."""
        self._cache.assume(self.next_pod(), self._dice.choice(self._names))

    def refresh(self) -> None:
        """The snapshot after what happened, as a server makes it before it answers."""
        self._cache.snapshot()

    def prepare_answer(self, *, shuffled: bool = False) -> None:
        """The bytes of the service's next answer; ``shuffled`` tells of nodes in another order each time."""
        self._service.prepare(shuffled=shuffled)

    def ask(self, pod: Pod) -> Readings:
        """What all sources say, with a new answer of the service: what a server does before the engine."""
        said = self._runner.run(self._service.asker.about(pod, self._asked))
        return self._polled.with_readings({"service": said})

    def question(self, pod: Pod, readings: Readings) -> Question:
        """A request that names all nodes."""
        view = self._cache.snapshot().with_readings(readings)
        return Question(pod, view.nodes.take(self._rows, self._asked), view, datetime.now(UTC))


class _Service(SourceHttp):
    """A web service whose answers are there already; decoding them is left to whoever asks."""

    def __init__(self, names: list[str], dice: random.Random) -> None:
        super().__init__()
        self._names = names
        self._dice = dice
        self._content = b"{}"
        self.asker = Asker(Asked("service", _ask), self)

    def prepare(self, *, shuffled: bool) -> None:
        """Another answer: a score for each node, and for some a text."""
        names = self._dice.sample(self._names, len(self._names)) if shuffled else self._names
        said: dict[str, dict[str, Any]] = {name: {"score": self._dice.random() * 10} for name in names}
        for name in self._dice.sample(self._names, len(self._names) // 10):
            said[name]["refuse"] = self._dice.choice(TEXTS)
        self._content = msgspec.json.encode(said)

    async def read(self, url: str, *, params: dict[str, str] | None = None, body: Any = None) -> bytes:
        """The bytes that were made before."""
        del url, params, body
        return self._content


async def _ask(http: SourceHttp, pod: Pod, names: Any) -> Mapping[str, Any]:
    return Shape().values(await http.json("http://service", body={"pod": pod.name, "nodes": names}))


def _node(number: int, name: str) -> Any:
    made = make_node(
        name,
        zone=ZONES[number % len(ZONES)],
        labels={
            "rack": f"rack-{number % RACKS}",
            "example.com/price": f"{0.5 + number % 16 / 10:.2f}",
            "example.com/factor": f"{1 + number % 5 / 10:.1f}",
            "node.kubernetes.io/instance-type": TYPES[number % len(TYPES)],
        },
        annotations={"example.com/gpus": "8x64000", "example.com/gpu-cores": "8x1000"},
        cpu=64,
        memory="256Gi",
    )
    return made.object
