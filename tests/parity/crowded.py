"""Full clusters, and pods that get in only when somebody leaves: cases out of a seed, as in `generator`."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.kube.quantity import amount
from tests.parity.budgets import EVERY_TIER, budget, lonely_claims, use_claim
from tests.parity.draw import APPS, HOST, ZONE, ZONES, Draw, Json
from tests.parity.places import REQUIRED
from tests.parity.world import HOLD, Case, World

NAMESPACES = ("default", "team-a")
RANKS = (-2147483648, -5, 0, 1, 10, 1000, 1_000_000_000)
"""Priorities, from the lowest that there is to the highest that people may give."""
KINDS = ("cpu", "memory", "pods", "ports", "apart", "kept away", "spread", "gpu", "near", "claim", "mixed")
"""What refuses the pod at first."""
GPU = "example.com/gpu"
_PORTS = (80, 443, 8080)


def rank_class(rank: int, *, never: bool = False) -> str:
    """The name of the priority class of a rank."""
    return f"{'never' if never else 'rank'}-{'minus-' if rank < 0 else ''}{abs(rank)}"


def rank_classes() -> list[Json]:
    """All priority classes: of each rank one that evicts and one that does not."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": rank_class(rank, never=never)},
            "value": rank,
            "preemptionPolicy": "Never" if never else "PreemptLowerPriority",
        }
        for rank in RANKS
        for never in (False, True)
    ]


def crowded_case(seed: int, number: int) -> Case:
    """One full cluster, and the pod that is to get in."""
    draw = Draw(f"crowded/{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    nodes = [_node(draw, index, kind) for index in range(draw.randint(2, 6))]
    # Few ranks in one cluster: nodes are then equal in what counts first, and what counts last decides.
    ranks = draw.some(RANKS[:5], 3)
    if draw.chance(20):
        ranks.append(RANKS[5])
    pods = [pod for node in nodes for pod in _crowd(draw, node, kind, ranks)]
    budgets = [
        budget(draw, index, draw.choice(NAMESPACES), pods) for index in range(draw.choice((0, 1, 1, 2, 2, 3)))
    ]
    claims = lonely_claims(NAMESPACES) if kind == "claim" else []
    for namespace in NAMESPACES if claims else ():
        mine = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
        if mine and draw.chance(80):
            use_claim(draw.choice(mine))
    return Case(number, World((*claims, *nodes, *budgets, *pods)), _incoming(draw, number, kind))


def _node(draw: Draw, number: int, kind: str) -> Json:
    name = f"node-{number}"
    amounts = {"cpu": draw.choice(("2", "4", "4")), "memory": "4Gi", "pods": "110"}
    if kind == "pods":
        amounts["pods"] = draw.choice(("2", "3", "4"))
    if kind == "gpu":
        amounts[GPU] = draw.choice(("2", "4"))
    labels = {HOST: name, "disk": draw.choice(("ssd", "ssd", "hdd"))}
    if not draw.chance(10):
        labels[ZONE] = draw.choice(ZONES[:2])
    spec: Json = {}
    if draw.chance(8):
        spec["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]
    if draw.chance(5):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": dict(amounts)},
    }


@dataclass(frozen=True)
class _Place:
    """What the pods of one node draw from."""

    node: str
    kind: str
    ranks: list[int]
    ports: list[int]
    """Each is given once: kube-scheduler forgets a port when one of two that have it leaves."""
    seconds: list[int]
    """Of start times, so few that some are equal."""


def _crowd(draw: Draw, node: Json, kind: str, ranks: list[int]) -> list[Json]:
    """Who is on a node already: mostly of lower rank than the one who comes, and rarely more than fit."""
    name, capacity = node["metadata"]["name"], node["status"]["capacity"]
    place = _Place(name, kind, ranks, list(_PORTS), [draw.randint(0, 9) for _ in range(2)])
    count = int(capacity["pods"]) if kind == "pods" and draw.chance(85) else draw.randint(1, 5)
    pods = [_placed(draw, f"{name}-{number}", place) for number in range(count)]
    if kind != "pods" and draw.chance(80):
        _fill(capacity, pods, {"gpu": GPU, "memory": "memory"}.get(kind, "cpu"))
    return pods


def _fill(capacity: Json, pods: list[Json], resource: str) -> None:
    """The last one takes what is left."""
    asked = [pod["spec"]["containers"][0]["resources"] for pod in pods]
    others = [one["requests"].get(resource, "0") for one in asked[:-1]]
    left = amount(resource, capacity[resource]) - sum(amount(resource, other) for other in others)
    if left > 0:
        text = f"{left}m" if resource == "cpu" else str(left)
        asked[-1]["requests"][resource] = text
        if resource == GPU:
            asked[-1]["limits"][resource] = text


def _placed(draw: Draw, name: str, place: _Place) -> Json:
    pod = _pod(draw, name, draw.choice(place.ranks))
    spec, kind = pod["spec"], place.kind
    spec["nodeName"] = place.node
    spec["terminationGracePeriodSeconds"] = draw.choice((0, 30, 30, 600))
    container = spec["containers"][0]
    container["resources"] = _amounts(draw, kind, much=False)
    if kind in ("ports", "mixed") and place.ports and draw.chance(60):
        container["ports"] = [_port(place.ports.pop())]
    if kind in ("kept away", "mixed") and draw.chance(50):
        _keep_apart(draw, spec)
    pod["status"] = _status(draw, place)
    # kube-scheduler does not count a terminating pod for spread, and yet takes it off when it leaves.
    if kind not in ("spread", "mixed") and draw.chance(8):
        pod["metadata"]["finalizers"] = [HOLD]
    return pod


def _status(draw: Draw, place: _Place) -> Json:
    status: Json = {"phase": "Running"}
    how = draw.random()
    if how < 0.5:
        day, hour, second = draw.randint(1, 9), draw.randint(0, 23), draw.randint(0, 59)
        status["startTime"] = f"2026-11-0{day}T{hour:02}:00:{second:02}Z"
    elif how < 0.85:
        status["startTime"] = f"2026-11-10T08:00:0{draw.choice(place.seconds)}Z"
    elif how < 0.88:
        status["startTime"] = "2100-01-01T00:00:00Z"
    return status


def _pod(draw: Draw, name: str, rank: int, *, never: bool = False) -> Json:
    labels = {"app": draw.choice(APPS)}
    if draw.chance(40):
        labels["tier"] = draw.choice(("front", "back"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": draw.choice(NAMESPACES),
            "labels": {} if draw.chance(8) else labels,
        },
        "spec": {
            "priorityClassName": rank_class(rank, never=never),
            "containers": [{"name": "main", "image": "registry.example/none"}],
        },
    }


def _incoming(draw: Draw, number: int, kind: str) -> Json:
    pod = _pod(draw, f"incoming-{number}", draw.choice((1, 10, *RANKS[5:], *RANKS[5:])), never=draw.chance(4))
    spec = pod["spec"]
    container = spec["containers"][0]
    container["resources"] = _amounts(draw, kind, much=True)
    if kind in ("ports", "mixed"):
        container["ports"] = [_port(port) for port in draw.some(_PORTS, 2)]
    if kind in ("apart", "mixed") and (kind == "apart" or draw.chance(40)):
        _keep_apart(draw, spec)
    if kind == "claim":
        use_claim(pod)
    if kind == "near":
        _keep_near(draw, spec)
    if kind in ("spread", "mixed"):
        _spread(draw, spec)
    if draw.chance(15):
        spec["nodeSelector"] = {"disk": draw.choice(("ssd", "hdd"))}
    if draw.chance(10):
        spec["tolerations"] = [{"operator": "Exists"}]
    return pod


def _amounts(draw: Draw, kind: str, *, much: bool) -> Json:
    amounts: Json = {}
    if kind in ("cpu", "mixed", "near") or draw.chance(70 if much else 30):
        big = ("1", "1500m", "2", "3", "4", "4", "5")
        amounts["cpu"] = draw.choice(big if much else ("0", "250m", "0.5", "0.5", "1", "1", "1500m", "2"))
    if kind == "memory" or draw.chance(15):
        amounts["memory"] = draw.choice(
            ("1Gi", "2Gi", "4Gi") if much else ("0", "512Mi", "1Gi", "1500M", "2Gi")
        )
    if kind == "gpu":
        amounts[GPU] = draw.choice(("1", "2", "3", "4") if much else ("1", "1", "2"))
    # The API server wants a limit for what cannot be shared.
    return {"requests": amounts, "limits": {GPU: amounts[GPU]} if GPU in amounts else {}}


def _port(number: int) -> Json:
    return {"containerPort": number, "hostPort": number}


def _term(draw: Draw) -> Json:
    if draw.chance(70):
        selector: Json = {"matchLabels": {"app": draw.choice(APPS)}}
    else:
        operator = draw.choice(("Exists", "DoesNotExist"))
        selector = {"matchExpressions": [{"key": "tier", "operator": operator}]}
    term: Json = {"topologyKey": draw.choice((HOST, HOST, ZONE)), "labelSelector": selector}
    if draw.chance(60):
        term["namespaceSelector"] = {}
    return term


def _keep_apart(draw: Draw, spec: Json) -> None:
    spec.setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: [_term(draw)]}


def _keep_near(draw: Draw, spec: Json) -> None:
    spec.setdefault("affinity", {})["podAffinity"] = {REQUIRED: [_term(draw)]}


def _spread(draw: Draw, spec: Json) -> None:
    keys = draw.some((HOST, ZONE))
    spec["topologySpreadConstraints"] = [
        {
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "maxSkew": draw.choice((1, 1, 2)),
            "labelSelector": draw.choice(({"matchLabels": {"app": draw.choice(APPS)}}, EVERY_TIER, {})),
            **({"minDomains": draw.choice((1, 2, 7))} if draw.chance(25) else {}),
        }
        for key in keys
    ]
