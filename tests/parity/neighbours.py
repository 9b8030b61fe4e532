"""Whom a generated pod wants near, whom far, and how evenly its kind is to be spread."""

from __future__ import annotations

from tests.parity.draw import NAMESPACES, Draw, Json
from tests.parity.places import PREFERRED, REQUIRED

_KEYS = ("pod-template-hash", "tier")


def add_pod_affinity(draw: Draw, spec: Json, labels: dict[str, str]) -> None:
    """Terms about other pods: required, preferred, near, far."""
    for side, required, preferred in (("podAffinity", 30, 45), ("podAntiAffinity", 30, 45)):
        terms: Json = {}
        if draw.chance(required):
            terms[REQUIRED] = [_term(draw, labels) for _ in range(draw.choice((1, 1, 2)))]
        if draw.chance(preferred):
            terms[PREFERRED] = [
                {"weight": draw.choice((1, 7, 50, 100)), "podAffinityTerm": _term(draw, labels)}
                for _ in range(draw.choice((1, 1, 2)))
            ]
        if terms:
            spec.setdefault("affinity", {})[side] = terms


def add_spread(draw: Draw, spec: Json, labels: dict[str, str]) -> None:
    """Topology spread constraints, hard and soft."""
    found: dict[tuple[str, str], Json] = {}
    for _ in range(draw.choice((1, 1, 2, 3))):
        one = _constraint(draw, labels)
        found[one["topologyKey"], one["whenUnsatisfiable"]] = one
    spec["topologySpreadConstraints"] = list(found.values())


def _term(draw: Draw, labels: dict[str, str]) -> Json:
    term: Json = {"topologyKey": draw.topology()}
    own = {"matchLabels": {"app": labels["app"]}} if "app" in labels else {}
    selector = own if draw.chance(35) else draw.selector()
    if selector is not None:
        term["labelSelector"] = selector
    where = draw.random()
    if where < 0.2:
        term["namespaces"] = draw.some(NAMESPACES, 2)
    if 0.15 < where < 0.4:
        term["namespaceSelector"] = draw.choice(
            (
                {},
                {"matchLabels": {"env": "prod"}},
                {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
            )
        )
    keys = [key for key in _KEYS if selector is not None and key not in str(selector)]
    if keys and draw.chance(20):
        term[draw.choice(("matchLabelKeys", "mismatchLabelKeys"))] = [draw.choice(keys)]
    return term


def _constraint(draw: Draw, labels: dict[str, str]) -> Json:
    when = draw.choice(("DoNotSchedule", "ScheduleAnyway"))
    one: Json = {
        "maxSkew": draw.choice((1, 1, 2, 5)),
        "topologyKey": draw.topology(),
        "whenUnsatisfiable": when,
    }
    own = {"matchLabels": {"app": labels["app"]}} if "app" in labels else {}
    selector = own if draw.chance(60) else draw.selector()
    if selector is not None:
        one["labelSelector"] = selector
    if when == "DoNotSchedule" and draw.chance(25):
        one["minDomains"] = draw.randint(1, 5)
    if draw.chance(30):
        one["nodeAffinityPolicy"] = draw.choice(("Honor", "Ignore"))
    if draw.chance(30):
        one["nodeTaintsPolicy"] = draw.choice(("Honor", "Ignore"))
    keys = [key for key in _KEYS if selector is not None and key not in str(selector)]
    if keys and draw.chance(20):
        one["matchLabelKeys"] = [draw.choice(keys)]
    return one
