"""What each right is for, as something that happens: how it begins, how it ends, where it is said why not."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bayplan.state.nudge import ANNOTATION
from tests.controlplane.api import PATIENCE_SECONDS
from tests.controlplane.waiting import wait_until
from tests.e2e.fault_proxy import Decide, Fault, FaultProxy
from tests.e2e.nobodys_lease import leave_lease
from tests.e2e.one_right_less import ISSUING, Stand
from tests.parity import volumes as of
from tests.parity.volumes import SELECTED_NODE

Json = dict[str, Any]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
WAITS, MADE = "waits", "made"
"""Storage classes: of volumes that are there, and of those that are made."""


def _nothing(stand: Stand) -> None:
    """It happens at the start."""


@dataclass(frozen=True)
class Work:
    """Something that takes a right."""

    done: Callable[[Stand], object]
    """Whether it went well."""
    told: Callable[[Stand], str]
    """Where it is said what is missing."""
    begin: Callable[[Stand], None] = _nothing
    before: Callable[[Stand], None] = _nothing
    """What must be there when our process starts."""
    lost: tuple[str, str] = ("", "")
    """Method and part of the path of a request whose reply is lost, once."""

    def alive(self, stand: Stand) -> bool:
        """Whether it is up, ready or not."""
        return stand.installed.ops("/livez")[0] == 200

    @contextmanager
    def under_way(self, stand: Stand) -> Iterator[None]:
        """Our process with this to do."""
        self.before(stand)
        with stand.proxied() as proxy:
            proxy.decide = _once(proxy, *self.lost)
            with stand.running(proxy if self.lost[0] else None):
                self.begin(stand)
                yield


class OfKubeScheduler(Work):
    """Something that the kube-scheduler in our pod does."""

    def alive(self, stand: Stand) -> bool:
        """Whether it runs."""
        return stand.child.alive

    @contextmanager
    def under_way(self, stand: Stand) -> Iterator[None]:
        """Only kube-scheduler: it asks for nothing of ours here."""
        self.before(stand)
        text = (stand.installed.files("bayplan-scheduler-config") / "kube-scheduler.yaml").read_text()
        with ExitStack() as stack:
            with ISSUING:
                scheduler = stack.enter_context(stand.installed.kube_scheduler(stand.kubeconfig(), text))
            stand.child = scheduler.child
            yield


def _once(proxy: FaultProxy, method: str, part: str) -> Decide:
    def decide(seen: str, path: str) -> Fault:
        return "reply lost" if seen == method and part in path and not proxy.faults else ""

    return decide


def _ask(stand: Stand, verb: str, body: Json) -> None:
    """Play kube-scheduler."""
    connection = http.client.HTTPConnection("127.0.0.1", stand.installed.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("POST", f"/{verb}", body=json.dumps(body).encode())
        stand.answer = json.dumps(json.loads(connection.getresponse().read())).replace('\\"', '"')
    finally:
        connection.close()


def _ask_about_an_unknown_node(stand: Stand) -> None:
    stand.wait_ready()
    _ask(stand, "filter", {"Pod": stand.pod("web"), "NodeNames": [f"{stand.name}-unheard-of"]})


def _bind(stand: Stand) -> None:
    stand.wait_ready()
    _ask_to_bind(stand, stand.pod("bound")["metadata"]["uid"])


def _bind_one_that_was_made_anew(stand: Stand) -> None:
    stand.wait_ready()
    stand.pod("bound")
    _ask_to_bind(stand, "another")


def _ask_to_bind(stand: Stand, uid: str) -> None:
    about = {"PodName": f"{stand.name}-bound", "PodNamespace": "default", "PodUID": uid}
    _ask(stand, "bind", {**about, "Node": stand.name})


def _refuse_and_change_something(stand: Stand) -> None:
    stand.wait_ready()
    stand.pod("there", node_name=stand.name)
    waits = stand.pod("waits")

    def refused() -> bool:
        _ask(stand, "filter", {"Pod": waits, "NodeNames": [stand.name]})
        return "taken" in stand.answer

    wait_until(refused, PATIENCE_SECONDS, what="the pod is refused", explain=lambda: stand.answer)
    stand.api.delete("pods", f"{stand.name}-there")


def _nobodys_lease(stand: Stand) -> None:
    leave_lease(stand.api, "bayplan", namespace=stand.lease_namespace)


def _too_large(stand: Stand) -> None:
    stand.pod("large", cpu="1000")


def _too_large_twice(stand: Stand) -> None:
    _too_large(stand)
    stand.api.wait_event(f"{stand.name}-large", "FailedScheduling")
    stand.api.patch("nodes", stand.name, {"metadata": {"labels": {"changed": "yes"}}})


def _more_important(stand: Stand) -> None:
    stand.pod("low", node_name=stand.name, cpu="8")
    stand.pod("high", cpu="8", priority_class="urgent")


def _volume_that_is_there(stand: Stand) -> None:
    within = {of.HOSTNAME: [stand.name]}
    stand.api.request("POST", VOLUMES, body=of.volume(stand.name, storage_class=WAITS, within=within))
    available = {"status": {"phase": "Available"}}
    kind = "application/merge-patch+json"
    stand.api.request("PATCH", f"{VOLUMES}/{stand.name}/status", body=available, content_type=kind)
    stand.api.request("POST", CLAIMS, body=of.claim(f"{stand.name}-there", storage_class=WAITS))
    stand.pod("mounts", spec=of.mounting(f"{stand.name}-there"))


def _volume_to_be_made(stand: Stand) -> None:
    stand.api.request("POST", CLAIMS, body=of.claim(f"{stand.name}-made", storage_class=MADE))
    stand.pod("mounts-another", spec=of.mounting(f"{stand.name}-made"))


def _pod(name: str) -> Callable[[Stand], None]:
    def make(stand: Stand) -> None:
        stand.pod(name)

    return make


def _bound(name: str) -> Callable[[Stand], object]:
    return lambda stand: stand.api.node_of(f"{stand.name}-{name}") == stand.name


def _kept(stand: Stand) -> object:
    volume = stand.api.request("GET", f"{VOLUMES}/{stand.name}")
    return volume["spec"].get("claimRef", {}).get("name") == f"{stand.name}-there"


def _selected(stand: Stand) -> object:
    claim = stand.api.request("GET", f"{CLAIMS}/{stand.name}-made")
    return claim["metadata"].get("annotations", {}).get(SELECTED_NODE) == stand.name


def _waits_for_volumes(stand: Stand) -> bool:
    """Everything is written, and it is a controller's turn."""
    return "\nbayplan_pods_waiting_for_volumes 1.0\n" in stand.installed.ops("/metrics")[1]


def _series(stand: Stand) -> object:
    return any(one.get("series") for one in stand.api.events_of(f"{stand.name}-large"))


def _condition(stand: Stand) -> object:
    return stand.api.get("pods", f"{stand.name}-large")["status"].get("conditions")


VIEW = Work(done=Stand.ready, told=Stand.readyz)
HOLD_LEASE = Work(done=Stand.holder, told=Stand.readyz)
TAKE_LEASE = Work(done=Stand.holder, told=Stand.readyz, before=_nobodys_lease)

EXTENDER: dict[tuple[str, str], Work] = {
    ("nodes", "get"): Work(
        begin=_ask_about_an_unknown_node,
        done=lambda stand: 'nodes "' in stand.log() and '" not found' in stand.log(),
        told=Stand.log,
    ),
    ("pods", "get"): Work(
        begin=_bind_one_that_was_made_anew,
        done=lambda stand: "is another one now" in stand.answer,
        told=lambda stand: stand.answer,
    ),
    ("pods/binding", "create"): Work(begin=_bind, done=_bound("bound"), told=lambda stand: stand.answer),
    ("pods", "patch"): Work(
        begin=_refuse_and_change_something,
        done=lambda stand: (
            ANNOTATION in stand.api.get("pods", f"{stand.name}-waits")["metadata"].get("annotations", {})
        ),
        told=Stand.log,
    ),
}
SCHEDULER: dict[tuple[str, str], Work] = {
    ("pods/binding", "create"): Work(begin=_pod("web"), done=_bound("web"), told=Stand.events),
    ("pods", "get"): Work(
        begin=_pod("lost"),
        done=lambda stand: "Scheduled" in stand.events(),
        told=Stand.log,
        lost=("POST", "/binding"),
    ),
    ("pods", "delete"): Work(
        begin=_more_important,
        done=lambda stand: stand.api.find("pods", f"{stand.name}-low") is None,
        told=Stand.log,
    ),
    ("pods/status", "patch"): Work(begin=_too_large, done=_condition, told=Stand.log),
    ("events", "create"): Work(
        begin=_pod("web"),
        done=lambda stand: "Scheduled" in stand.events(),
        told=Stand.log,
    ),
    ("events", "patch"): Work(begin=_too_large_twice, done=_series, told=Stand.log),
    ("persistentvolumes", "patch"): Work(begin=_volume_that_is_there, done=_kept, told=Stand.events),
    ("persistentvolumeclaims", "patch"): Work(begin=_volume_to_be_made, done=_selected, told=Stand.events),
    ("persistentvolumes", "get"): Work(
        begin=_volume_that_is_there,
        done=lambda stand: _kept(stand) and _waits_for_volumes(stand),
        told=Stand.events,
        lost=("PATCH", "/persistentvolumes/"),
    ),
    ("persistentvolumeclaims", "get"): Work(
        begin=_volume_to_be_made,
        done=lambda stand: _selected(stand) and _waits_for_volumes(stand),
        told=Stand.events,
        lost=("PATCH", "/persistentvolumeclaims/"),
    ),
}
OF_LEASES: dict[str, Work] = {"get": HOLD_LEASE, "create": HOLD_LEASE, "update": TAKE_LEASE}
LEAD: dict[str, Work] = {
    "get": OfKubeScheduler(done=Stand.holder, told=Stand.log),
    "update": OfKubeScheduler(done=Stand.holder, told=Stand.log, before=_nobodys_lease),
}
