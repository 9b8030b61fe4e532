"""Where a generated pod wants to be: node names and labels, and the taints it can stand."""

from __future__ import annotations

from tests.parity.draw import HOST, ZONE, ZONES, Draw, Json
from tests.parity.nodes import TAINTS
from tests.parity.world import World

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def add_selector(draw: Draw, spec: Json) -> None:
    """``nodeSelector``."""
    spec["nodeSelector"] = draw.choice(
        (
            {"disk": "ssd"},
            {"disk": "hdd"},
            {ZONE: draw.choice(ZONES)},
            {"rack": ""},
            {"disk": "ssd", "gen": "2"},
        )
    )


def add_node_affinity(draw: Draw, spec: Json, world: World) -> None:
    """Required terms, preferred terms, or both."""
    affinity: Json = {}
    if draw.chance(65):
        terms = [_term(draw, world) for _ in range(draw.choice((1, 1, 2, 3)))]
        affinity[REQUIRED] = {"nodeSelectorTerms": terms}
    if draw.chance(60) or not affinity:
        affinity[PREFERRED] = [
            {"weight": draw.choice((1, 2, 10, 33, 100)), "preference": _term(draw, world)}
            for _ in range(draw.randint(1, 3))
        ]
    spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def add_tolerations(draw: Draw, spec: Json) -> None:
    """Tolerations: of one taint, of a key, of everything."""
    found: list[Json] = []
    for _ in range(draw.randint(1, 3)):
        taint = draw.choice(TAINTS)
        kind = draw.random()
        if kind < 0.1:
            found.append({"operator": "Exists"})
        elif kind < 0.2:
            found.append({"operator": "Exists", "effect": draw.choice(("NoSchedule", "PreferNoSchedule"))})
        elif kind < 0.5:
            found.append({"key": taint["key"], "operator": "Exists"})
        elif kind < 0.6:
            found.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})
        else:
            exact = {"key": taint["key"], "operator": "Equal", "value": taint.get("value", "")}
            found.append({**exact, **({"effect": taint["effect"]} if draw.chance(60) else {})})
    spec["tolerations"] = found


def _term(draw: Draw, world: World) -> Json:
    kind = draw.random()
    if kind < 0.05:
        return {}
    term: Json = {}
    if kind < 0.2 and world.nodes:
        names = [draw.choice(world.nodes)["metadata"]["name"] if draw.chance(90) else "nowhere"]
        operator = draw.choice(("In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": names}]
    if kind >= 0.15:
        term["matchExpressions"] = [_expression(draw, world) for _ in range(draw.choice((1, 1, 2)))]
    return term


def _expression(draw: Draw, world: World) -> Json:
    operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "gen", "operator": operator, "values": [draw.choice(("0", "1", "2", "9", "100"))]}
    hosts = tuple(one["metadata"]["name"] for one in world.nodes) or ("nowhere",)
    key, values = draw.choice(
        (
            (ZONE, ZONES),
            ("disk", ("ssd", "hdd")),
            ("gen", ("1", "2", "new")),
            (HOST, hosts),
            ("rack", ("a", "")),
        )
    )
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": draw.some(values, 3)}
    return {"key": key, "operator": operator}
