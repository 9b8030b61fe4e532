"""A small cluster for pods whose claims wait for them: an API server, a view of it, and a queue."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.pod import Pod
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import PodQueue
from bayplan.runtimes.scheduler.volumes import Volumes
from bayplan.state.cache import Cache
from bayplan.state.ledger import Ledger
from bayplan.testing import make_node, make_pod
from tests.client.storage_api import StorageApi, path_of
from tests.parity.volumes import (
    BOUND,
    DRIVER,
    HOSTNAME,
    Json,
    claim,
    mounting,
    storage_class,
)
from tests.state.test_ledger import until

MADE = storage_class("made", provisioner=DRIVER)
TO_MAKE = claim("data", storage_class="made")
PLUGIN = 'running PreBind plugin "VolumeBinding": binding volumes: '


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between tries, and a look at everything many times a second."""
    monkeypatch.setattr("bayplan.client.claims._RETRY_SECONDS", (0.0,))
    monkeypatch.setattr("bayplan.runtimes.scheduler.volumes_wait._LOOK_SECONDS", 0.01)


class Stage:
    """Two nodes, an API server whose writes are in view at once, and pods that mount claims."""

    def __init__(self, *manifests: Json, seconds: float = 60.0, at_once: int = 100) -> None:
        self.cache, self.api = Cache(), StorageApi()
        self.why_not, self.term = "", 1
        self.said: list[tuple[str, str]] = []
        self.api.on_write = self.see
        for name in ("n1", "n2"):
            self.cache.put_node(make_node(name, labels={HOSTNAME: name}).object)
        for manifest in (storage_class(), MADE):
            self.see(manifest)
        for manifest in manifests:
            self.api.create(manifest)
        client: Any = self.api
        self.volumes = Volumes(
            self.cache,
            client,
            seconds=lambda name: seconds if name == "ours" else None,
            write_seconds=5.0,
            why_not=lambda: self.why_not,
            term=lambda: self.term,
        )
        ledger = Ledger(self.cache, client, commit=None, timeout_seconds=1.0, why_not=lambda: self.why_not)
        live: Any = SimpleNamespace(view=SimpleNamespace(cache=self.cache), ledger=ledger)
        reporter: Any = SimpleNamespace(
            scheduled=lambda pod, node: self.said.append((pod.name, node)),
            unscheduled=lambda pod, _, message, **__: self.said.append((pod.name, message)),
        )
        self.inbox = Inbox(["ours"], PodQueue(), Nominations())
        metrics = ScheduleMetrics(CollectorRegistry())
        self.placing = Placing(live, self.inbox, reporter, metrics, at_once=at_once, volumes=self.volumes)

    def see(self, manifest: Json) -> None:
        kind = manifest["kind"]
        self.cache.objects.put(kind, msgspec.convert(manifest, OBJECT_KINDS[kind].part))

    def unseen(self) -> None:
        """The watch is late from now on."""
        self.api.on_write = lambda _: None

    async def place(self, name: str, *claims: str, node: str = "n1", scheduler: str = "ours") -> Pod:
        pod = make_pod(name, uid=name, spec={"schedulerName": scheduler, **mounting(*claims)})
        self.cache.put_pod(pod)
        self.inbox.names |= {scheduler}
        self.inbox.pod_is(pod)
        waiting = self.inbox.queue.take()
        assert waiting is not None
        await self.placing.place(waiting, node, {}, began=0.0)
        return pod

    def object(self, manifest: Json) -> Json:
        return self.api.objects[path_of(manifest)]

    def kept_for(self, name: str) -> str:
        """The claim that has a volume, as everybody sees it who judges."""
        keeper = self.cache.snapshot().objects.volumes[name].spec.claim_ref
        return keeper.name if keeper else ""

    def bind(self, claim_name: str, volume_name: str) -> None:
        """The PersistentVolume controller's part."""

        def bound(one: Json) -> None:
            one["spec"]["volumeName"] = volume_name
            one["metadata"]["annotations"][BOUND] = "yes"

        self.api.change(path_of(claim(claim_name)), bound)

    async def done(self) -> None:
        await until(lambda: not self.placing._tasks)

    async def written(self, manifest: Json) -> None:
        """Wait until something was written on it, and the pod waits for the rest."""
        await until(lambda: ("PATCH", path_of(manifest)) in self.api.asked and self.volumes.wait.count > 0)

    @property
    def writes(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path in self.api.asked if method == "PATCH"]
