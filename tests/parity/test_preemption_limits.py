"""What kube-scheduler does when it evicts and Bayplan does not copy: the test fails when that is over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.parity.budgets import lonely_claims
from tests.parity.crowded import rank_class
from tests.parity.draw import HOST
from tests.parity.preemption import both
from tests.parity.world import HOLD, Json, World


def _node(name: str) -> Json:
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod(name: str, *, rank: int = 0, cpu: str = "0", port: int | None = None, **spec: Any) -> Json:
    ports = [{"containerPort": port, "hostPort": port}] if port else []
    container = {"name": "main", "image": "registry.example/none", "ports": ports}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "priorityClassName": rank_class(rank),
            "containers": [{**container, "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }


def _on(node: str, pod: Json, day: int) -> Json:
    status = {"phase": "Running", "startTime": f"2026-11-0{day}T08:00:00Z"}
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _terminating(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "finalizers": [HOLD]}}


def _unlabelled(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "labels": {}}}


def _in(namespace: str, pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}


def _mounting(pod: Json) -> Json:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "one-name"}}
    return {**pod, "spec": {**pod["spec"], "volumes": [volume]}}


def _renamed(one: Json) -> Json:
    """Claims of all namespaces, and what refers to them, under one name."""
    if one["kind"] == "PersistentVolumeClaim":
        return {**one, "metadata": {**one["metadata"], "name": "one-name"}}
    claim = {**one["spec"]["claimRef"], "name": "one-name"}
    return {**one, "spec": {**one["spec"], "claimRef": claim}}


_EVEN = {
    "topologyKey": HOST,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
_LIMITS = {
    "a terminating pod that leaves is taken off a count in which it never was": (
        World(
            (
                _node("ahead"),
                _node("full"),
                _on("ahead", _pod("first"), 1),
                _on("ahead", _pod("second"), 2),
                _terminating(_on("ahead", _pod("leaving"), 3)),
                _on("full", _unlabelled(_pod("big", rank=1000, cpu="4")), 1),
            )
        ),
        _pod("incoming", rank=1000, cpu="1", topologySpreadConstraints=[_EVEN]),
    ),
    "a port that two pods have is free when one of them leaves": (
        World(
            (
                _node("crowded"),
                _on("crowded", _pod("stays", rank=1000, port=80), 1),
                _on("crowded", _pod("leaves", port=80), 2),
            )
        ),
        _pod("incoming", rank=1000, port=80),
    ),
    "a claim is free when a pod of another namespace leaves whose claim has the same name": (
        World(
            (
                *(_renamed(one) for one in lonely_claims(("default", "team-a"))),
                _node("of-the-other"),
                _node("of-the-user"),
                _on("of-the-other", _in("team-a", _mounting(_pod("other"))), 1),
                _on("of-the-user", _mounting(_pod("user", rank=1000)), 1),
            )
        ),
        _mounting(_pod("incoming", rank=1000)),
    ),
    "of a pod that is refused as such it is told that something was not found": (
        World((_node("any"),)),
        _pod(
            "incoming",
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}],
        ),
    ),
}


@pytest.mark.e2e
def test_kube_scheduler_still_has_its_peculiarities(cluster: ControlPlane) -> None:
    with both(cluster, seed=0) as run:
        for what, (world, pod) in _LIMITS.items():
            kube, ours = run.judge(world, pod)
            assert kube not in ours.answers, f"no longer: {what}"
