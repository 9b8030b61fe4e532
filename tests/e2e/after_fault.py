"""What is true after every fault of a scheduler: each pod is bound once or told why not, and none is stuck.

Nodes are compared with what their pods ask for by sums of its own, not by those of the scheduler.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tests.controlplane.client import Client, Json
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.second_scheduler import NAME, SecondScheduler

SETTLE_SECONDS = 90.0

_SUFFIXES = {"m": 1, "Ki": 2**10 * 1000, "Mi": 2**20 * 1000, "Gi": 2**30 * 1000}
_COUNTED = ("cpu", "memory", "pods")


@dataclass(frozen=True)
class Outcome:
    """How it ended: UIDs are not told, names are."""

    bound: dict[str, str]
    """The node of each pod that has one."""
    waiting: dict[str, str]
    """The reason of each pod that has none."""


def wait_settled(
    cluster: ControlPlane, *bayplans: SecondScheduler, overfull: Collection[str] = ()
) -> Outcome:
    """Wait until every pod of ours is bound, or fits nowhere and says so; then check the rest.

    ``overfull`` are nodes that are smaller than what was on them, which is nobody's mistake.
    """

    def calm() -> bool:
        for child in cluster.api.watched:
            child.check()
        return not _unsettled(cluster.api)

    def explain() -> str:
        logs = [child.log_tail(60) for child in cluster.api.watched]
        return "\n".join([*_unsettled(cluster.api)[:20], *logs])

    wait_until(calm, SETTLE_SECONDS, what="no pod is stuck", explain=explain, poll_seconds=0.1)
    outcome = _outcome(cluster.api)
    for bayplan in bayplans:
        wait_until(
            lambda each=bayplan: _queue(each) == (0, 0, len(outcome.waiting)),  # type: ignore[misc]
            30,
            what="the scheduler knows: unsettled binds, assumed pods, waiting pods are as they should be",
            explain=lambda each=bayplan: f"{_queue(each)}\n{each.child.log_tail()}",  # type: ignore[misc]
        )
    check_sizes(cluster.api, besides=overfull)
    check_events(cluster.api)
    return outcome


def used(api: Client, *, by: Callable[[Json], bool] = lambda _: True) -> dict[str, Counter[str]]:
    """What the pods on each node ask for, in thousandths."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in api.items("pods"):
        node = pod["spec"].get("nodeName")
        if node and by(pod):
            sums[node].update(_asked(pod))
    return sums


def sizes(api: Client) -> dict[str, dict[str, int]]:
    """What each node has, in thousandths."""
    return {
        node["metadata"]["name"]: {key: _milli(node["status"]["allocatable"][key]) for key in _COUNTED}
        for node in api.items("nodes")
    }


def overfilled(api: Client, *, by: Callable[[Json], bool] = lambda _: True) -> set[str]:
    """The nodes with more on them, of these pods, than they have."""
    there = used(api, by=by)
    return {
        node
        for node, size in sizes(api).items()
        if any(there.get(node, Counter())[key] > amount for key, amount in size.items())
    }


def check_sizes(api: Client, *, besides: Collection[str] = ()) -> None:
    """No node has more on it than it has."""
    assert overfilled(api) <= set(besides)


def check_events(api: Client) -> None:
    """No pod was said to be on two nodes, or on another than it is on."""
    nodes = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in api.items("pods")}
    for event in api.items("events"):
        uid = event["involvedObject"].get("uid")
        if event["reason"] == "Scheduled" and uid in nodes:
            assert event["message"].endswith(f" to {nodes[uid]}"), event["message"]


def is_ours(pod: Json) -> bool:
    """Whether the pod asks for Bayplan."""
    asks_for: str = pod["spec"]["schedulerName"]
    return asks_for == NAME


def _queue(bayplan: SecondScheduler) -> tuple[int, int, int]:
    names = ("bayplan_unsettled_binds", "bayplan_assumed_pods", "bayplan_pending_pods")
    unsettled, assumed, pending = (int(bayplan.metric(name)) for name in names)
    return unsettled, assumed, pending


def _outcome(api: Client) -> Outcome:
    ours = {pod["metadata"]["name"]: pod for pod in api.items("pods") if is_ours(pod)}
    bound = {name: pod["spec"]["nodeName"] for name, pod in ours.items() if pod["spec"].get("nodeName")}
    waiting = {name: _condition(pod).get("message", "") for name, pod in ours.items() if name not in bound}
    return Outcome(bound, waiting)


def _unsettled(api: Client) -> list[str]:
    """What is not as it should be in the end, one line each."""
    pods, there, has = api.items("pods"), used(api), sizes(api)
    found = []
    for pod in filter(is_ours, pods):
        name, condition = pod["metadata"]["name"], _condition(pod)
        if pod["spec"].get("nodeName"):
            if condition.get("status") != "True":
                found.append(f"{name} is bound, and its condition says {condition}")
        elif condition.get("status") != "False" or not condition.get("message"):
            found.append(f"{name} has no node and no reason")
        elif room := [node for node in has if _fits(pod, there.get(node, Counter()), has[node])]:
            found.append(f"{name} could be on {room[0]}, and says {condition['message']}")
    return found


def _condition(pod: Json) -> Json:
    conditions: list[Json] = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def _fits(pod: Json, there: Counter[str], size: dict[str, int]) -> bool:
    return all(there[key] + amount <= size[key] for key, amount in _asked(pod).items())


def _asked(pod: Json) -> Counter[str]:
    requests = pod["spec"]["containers"][0]["resources"].get("requests", {})
    return Counter(pods=1000, **{key: _milli(amount) for key, amount in requests.items() if key in _COUNTED})


def _milli(amount: str) -> int:
    """A quantity in thousandths: ``100m``, ``4``, ``64Mi``."""
    for suffix, factor in _SUFFIXES.items():
        if amount.endswith(suffix):
            return int(amount.removesuffix(suffix)) * factor
    return int(amount) * 1000
