"""Compares two configurations on one recording: which pods would be refused or go to other nodes.

Each pod is judged in the cluster as it was recorded. A pod that would go to another node is not moved for the
pods after it: the comparison says what would change, not how the day would have ended.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bayplan.config.labels import oddity
from bayplan.engine.differ import turn
from bayplan.recording.attempts import VERB as SCHEDULE
from bayplan.recording.lines import Asked, RecordingError
from bayplan.runtimes.simulator.cases import Recording
from bayplan.runtimes.simulator.judge import Judgement, Side, judge_with, question_of
from bayplan.snapshot.columns import Label, parse_number
from bayplan.snapshot.table import NodeTable

Change = Literal["same", "elsewhere", "refused", "admitted", "refused otherwise"]
_ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Placement:
    """The node that the policies would choose for a pod."""

    node: str
    """``""`` where every node is refused."""
    reason: str = ""
    """Why none is left."""
    score: float = 0.0
    zone: str = ""
    price: float = math.nan
    """What the node's label says; NaN where it says nothing."""
    cpu_share: float = math.nan
    """CPU that is requested on the node once the pod is there, as a share of what there is."""


@dataclass(frozen=True)
class PodComparison:
    """One pod, placed by both configurations."""

    pod: str
    at: str
    first: Placement
    second: Placement

    @property
    def change(self) -> Change:
        """How the second configuration's placement differs."""
        if self.first.node == self.second.node:
            return "same" if self.first.reason == self.second.reason else "refused otherwise"
        return turn(first=bool(self.first.node), second=bool(self.second.node)) or "elsewhere"


@dataclass(frozen=True)
class Measures:
    """Totals over the placements of one configuration."""

    placed: int
    refused: int
    nodes_used: int
    most_on_a_node: int
    most_in_a_zone: int
    price_of_nodes: float
    """Of the nodes used, each once; NaN where none has a price."""
    price_a_pod: float
    """Of the node that a pod is on, on average."""
    cpu_share_mean: float
    cpu_share_max: float


@dataclass
class Comparison:
    """All pods of a recording, each at its last attempt."""

    names: tuple[str, str]
    pods: list[PodComparison] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def changes(self) -> Counter[Change]:
        """How many pods have each kind of change."""
        return Counter(pod.change for pod in self.pods)

    @property
    def different(self) -> list[PodComparison]:
        """The pods with a change."""
        return [pod for pod in self.pods if pod.change != "same"]

    def measures(self) -> tuple[Measures, Measures]:
        """The totals of both configurations."""
        return measure([pod.first for pod in self.pods]), measure([pod.second for pod in self.pods])


def compare(
    path: Path,
    first: Side,
    second: Side,
    *,
    names: tuple[str, str],
    price_label: str = "",
) -> Comparison:
    """Judge every pod of a recording by both sides; the last attempt of each counts."""
    recording = Recording(path)
    pods: dict[str, PodComparison] = {}
    damaged: list[str] = []
    nodes = None
    for case in recording.cases():
        if not isinstance(case.said, Asked) or case.verb not in ("filter", SCHEDULE):
            continue
        try:
            question = question_of(case)
        except RecordingError as error:
            damaged.append(str(error))
            continue
        judged = judge_with(first, question, case), judge_with(second, question, case)
        # Among equal nodes the second side takes the first side's node: a tie is no change.
        best = judged[0].best
        one, other = (_placement(each, each.best_or(best), price_label) for each in judged)
        nodes = judged[0].cluster.nodes
        key = judged[0].pod.uid or case.pod
        pods.pop(key, None)
        pods[key] = PodComparison(case.pod, case.said.shown_at, one, other)
    if damaged:
        more = f" ({len(damaged)} cannot)" if len(damaged) > 1 else ""
        recording.warnings.append(f"{damaged[0]}{more}")
    if price_label and nodes is not None:
        recording.warnings += _odd_prices(price_label, nodes)
    if not pods:
        said = "".join(f"\n{warning}" for warning in recording.warnings)
        raise RecordingError(f"{path}: no decision was recorded, so there is nothing to compare{said}")
    return Comparison(names, list(pods.values()), recording.warnings)


def _odd_prices(label: str, nodes: NodeTable) -> list[str]:
    """What is wrong with the prices: without them, their figures are left out of the comparison."""
    odd = oddity(Label(label, float), nodes) if len(nodes) else ""
    return [f"price label {label!r}: {odd}"] if odd else []


def measure(placements: Sequence[Placement]) -> Measures:
    """The totals of these placements."""
    placed = [each for each in placements if each.node]
    nodes = Counter(each.node for each in placed)
    zones = Counter(each.zone for each in placed if each.zone)
    shares = [each.cpu_share for each in placed if not math.isnan(each.cpu_share)]
    prices = {each.node: each.price for each in placed if not math.isnan(each.price)}
    each_price = [each.price for each in placed if not math.isnan(each.price)]
    return Measures(
        placed=len(placed),
        refused=len(placements) - len(placed),
        nodes_used=len(nodes),
        most_on_a_node=max(nodes.values(), default=0),
        most_in_a_zone=max(zones.values(), default=0),
        price_of_nodes=sum(prices.values()) if prices else math.nan,
        price_a_pod=_mean(each_price),
        cpu_share_mean=_mean(shares),
        cpu_share_max=max(shares, default=math.nan),
    )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else math.nan


def _placement(judged: Judgement, name: str, price_label: str) -> Placement:
    if not name:
        return Placement("", judged.why_none)
    cluster = judged.cluster
    row = cluster.rows[name]
    node, load = cluster.nodes.objects[row], cluster.nodes.load
    there = node.allocatable.get("cpu", 0)
    share = math.nan
    if load is not None and there:
        # The pod itself may be assumed there already.
        others = sum(pod.cpu_milli for pod in load.pods[row] if pod.uid != judged.pod.uid)
        share = (others + judged.pod.cpu_milli) / there
    price = parse_number(node.labels[price_label], float) if price_label in node.labels else None
    return Placement(
        node=name,
        score=judged.totals[judged.passed.index(name)],
        zone=node.labels.get(_ZONE, ""),
        price=math.nan if price is None else float(price),
        cpu_share=share,
    )
