"""What a test says to a cluster: create this, wait for that, clear everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.controlplane.clearing import clear
from tests.controlplane.client import ApiError, Client, Json, path_of
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until

T = TypeVar("T")

# Long, since it passes only when something is wrong, or the machine is busy.
PATIENCE_SECONDS = 30.0


class Api(Client):
    """A `Client` that knows nodes, pods and events, and whom to blame when a wait fails.

    `watched` are the children that the outcome depends on: every wait ends at once when one of
    them dies, and a wait that fails shows the tail of their logs.
    """

    def __init__(self, server: str, ca: Path, *, token: str) -> None:
        super().__init__(server, ca, token=token)
        self.watched: list[Child] = []

    def create_node(self, name: str, **settings: Any) -> Json:
        """Create a ready node; for the settings see `node_manifest`."""
        return self.create("nodes", node_manifest(name, **settings))

    def create_pod(self, name: str, *, namespace: str = "default", **settings: Any) -> Json:
        """Create a pod; for the settings see `pod_manifest`."""
        manifest = pod_manifest(name, namespace=namespace, **settings)
        return self.create("pods", manifest, namespace=namespace)

    def create_priority_class(self, name: str, value: int, *, preempt: bool = True) -> Json:
        """Create a priority class, which preempts lower ones or does not; pods may have it from now on."""
        manifest = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority" if preempt else "Never",
        }
        made = self.create("priorityclasses", manifest)
        what = f"the API server knows priority class {name}"
        wait_until(lambda: self.admits(name, value), PATIENCE_SECONDS, what=what)
        return made

    def admits(self, priority_class: str, value: int) -> bool:
        """Whether pods may have this class, with this value; the API server follows classes by a watch."""
        pod = pod_manifest("trial", priority_class=priority_class)
        try:
            made = self.request("POST", f"{path_of('pods')}?dryRun=All", body=pod)
        except ApiError as error:
            if error.reason != "Forbidden":
                raise
            return False
        return bool(made["spec"]["priority"] == value)

    def create_namespace(self, name: str, labels: dict[str, str] | None = None) -> Json:
        """Create a namespace."""
        metadata = {"name": name, "labels": labels or {}}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        return self.create("namespaces", manifest)

    def set_phase(self, name: str, phase: str, *, namespace: str = "default") -> Json:
        """Play the kubelet: the pod is now Running, Succeeded or Failed."""
        status = {"status": {"phase": phase}}
        return self.patch("pods", name, status, namespace=namespace, subresource="status")

    def node_of(self, name: str, *, namespace: str = "default") -> str | None:
        """The node that a pod is bound to, if any."""
        node: str | None = self.get("pods", name, namespace=namespace)["spec"].get("nodeName")
        return node

    def wait_bound(
        self, name: str, timeout_seconds: float = PATIENCE_SECONDS, *, namespace: str = "default"
    ) -> str:
        """Wait until a pod is bound; the name of its node."""
        return self._wait(
            lambda: self.node_of(name, namespace=namespace),
            timeout_seconds,
            what=f"pod {namespace}/{name} is bound",
            pod=name,
            namespace=namespace,
        )

    def wait_unschedulable(
        self,
        name: str,
        timeout_seconds: float = PATIENCE_SECONDS,
        *,
        containing: str = "",
        reason: str = "Unschedulable",
        namespace: str = "default",
    ) -> str:
        """Wait until kube-scheduler has given a pod up for now; its message.

        With an extender that fails, `reason` is ``SchedulerError``.
        """

        def message() -> str | None:
            for condition in self.get("pods", name, namespace=namespace)["status"].get("conditions", []):
                said: str = condition.get("message", "")
                refused = condition["type"] == "PodScheduled" and condition["status"] == "False"
                if refused and condition.get("reason") == reason and containing in said:
                    return said or reason
            return None

        return self._wait(
            message,
            timeout_seconds,
            what=f"pod {namespace}/{name} is {reason} with {containing!r}",
            pod=name,
            namespace=namespace,
        )

    def events_of(self, pod: str, *, namespace: str = "default") -> list[Json]:
        """The events about a pod.

        kube-scheduler writes events.k8s.io/v1; the core API serves the same objects, with
        ``message`` where the other says ``note``.
        """
        return self.items("events", namespace, fields=f"involvedObject.name={pod}")

    def wait_event(
        self,
        pod: str,
        reason: str,
        *,
        containing: str = "",
        timeout_seconds: float = PATIENCE_SECONDS,
        namespace: str = "default",
    ) -> str:
        """Wait for an event about a pod, as in ``wait_event("p", "FailedScheduling")``."""

        def message() -> str | None:
            for event in self.events_of(pod, namespace=namespace):
                said: str = event.get("message", "")
                if event["reason"] == reason and containing in said:
                    return said or reason
            return None

        return self._wait(
            message,
            timeout_seconds,
            what=f"pod {namespace}/{pod} has the event {reason} with {containing!r}",
            pod=pod,
            namespace=namespace,
        )

    def wait_gone(
        self, name: str, timeout_seconds: float = PATIENCE_SECONDS, *, namespace: str = "default"
    ) -> None:
        """Wait until a pod does not exist any more, as after its preemption."""
        self._wait(
            lambda: self.find("pods", name, namespace=namespace) is None,
            timeout_seconds,
            what=f"pod {namespace}/{name} is gone",
            pod=name,
            namespace=namespace,
        )

    def clear(self) -> None:
        """Delete everything that tests create; see `clearing`."""
        clear(self)

    def describe(self, pod: str, *, namespace: str = "default") -> str:
        """What is known about a pod, for the message of a failed test."""
        found = self.find("pods", pod, namespace=namespace)
        if found is None:
            return f"there is no pod {namespace}/{pod}"
        lines = [
            f"pod {namespace}/{pod}: nodeName {found['spec'].get('nodeName')}, "
            f"schedulerName {found['spec']['schedulerName']}, status {found['status']}"
        ]
        lines += [
            f"event {event['reason']}: {event.get('message')}"
            for event in self.events_of(pod, namespace=namespace)
        ]
        return "\n".join(lines)

    def _wait(
        self,
        condition: Callable[[], T | None],
        timeout_seconds: float,
        *,
        what: str,
        pod: str,
        namespace: str,
    ) -> T:
        def while_they_live() -> T | None:
            for child in self.watched:
                child.check()
            return condition()

        def explain() -> str:
            logs = [child.log_tail() for child in self.watched]
            return "\n".join([self.describe(pod, namespace=namespace), *logs])

        return wait_until(while_they_live, timeout_seconds, what=what, explain=explain)
