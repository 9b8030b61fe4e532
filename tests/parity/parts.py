"""Parts of a case, and ways to look for something in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.parity.places import PREFERRED, REQUIRED
from tests.parity.world import Case, Json

Test = Callable[[Case], object]


def spec(case: Case) -> Json:
    """``spec`` of the pod."""
    found: Json = case.pod["spec"]
    return found


def has(key: str) -> Test:
    """A field of the spec that says something."""
    return lambda case: spec(case).get(key)


def everything(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key below, with its value."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield key, below
            yield from everything(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from everything(below)


def found(place: Callable[[Case], Any], wanted: str, *values: Any) -> Test:
    """A key anywhere in one part of the case; with values, one of them."""

    def test(case: Case) -> bool:
        return any(
            key == wanted and (not values or value in values) for key, value in everything(place(case))
        )

    return test


def requests(resource: str, *amounts: str) -> Test:
    """A resource that a container asks for; with amounts, one of these."""
    return found(
        lambda case: (spec(case)["containers"], spec(case).get("initContainers")), resource, *amounts
    )


def affinity(side: str, when: str = "") -> Callable[[Case], Any]:
    """One side of the pod's affinity, or its required or preferred terms."""

    def place(case: Case) -> Any:
        terms = spec(case).get("affinity", {}).get(side, {})
        return terms.get(when) if when else terms

    return place


def spread(case: Case) -> Any:
    """The pod's spread constraints."""
    return spec(case).get("topologySpreadConstraints", [])


def volumes(case: Case) -> Any:
    """The pod's volumes."""
    return spec(case).get("volumes", [])


def claims(case: Case) -> list[Json]:
    """The claims that the pod mounts."""
    names = {
        one["persistentVolumeClaim"]["claimName"] for one in volumes(case) if "persistentVolumeClaim" in one
    }
    namespace = case.pod["metadata"]["namespace"]
    return [
        one
        for one in case.world.of_kind("PersistentVolumeClaim")
        if one["metadata"]["name"] in names and one["metadata"]["namespace"] == namespace
    ]


def claimed(case: Case) -> list[Json]:
    """The volumes that these claims are bound to."""
    names = {one["spec"].get("volumeName") for one in claims(case)}
    return [one for one in case.world.of_kind("PersistentVolume") if one["metadata"]["name"] in names]


def drivers(case: Case) -> Any:
    """What CSI drivers the nodes have."""
    return list(case.world.of_kind("CSINode"))


def claim_named(*names: str) -> Test:
    """A claim whose name begins so."""
    return lambda case: any(one["metadata"]["name"].startswith(names) for one in claims(case))


def nodes(case: Case) -> Any:
    """The nodes."""
    return case.world.nodes


def pods(case: Case) -> Any:
    """The placed pods."""
    return case.world.pods


def placed_terms(side: str, when: str) -> Test:
    """A placed pod with such terms."""
    return lambda case: any(one["spec"].get("affinity", {}).get(side, {}).get(when) for one in pods(case))


def selector(place: Callable[[Case], Any], wanted: Any) -> Test:
    """A term whose label selector is empty, or missing."""
    return lambda case: any(
        term.get("labelSelector") == wanted for term in (place(case) or []) if isinstance(term, Mapping)
    )


REQUIRED_NODE, PREFERRED_NODE = affinity("nodeAffinity", REQUIRED), affinity("nodeAffinity", PREFERRED)
NEAR, FAR = affinity("podAffinity", REQUIRED), affinity("podAntiAffinity", REQUIRED)


def between(case: Case) -> Any:
    """All that the pod says about other pods."""
    return [affinity("podAffinity")(case), affinity("podAntiAffinity")(case)]


def services_select(case: Case) -> bool:
    """Whether a Service selects the pod, and the pod has no constraints of its own."""
    labels, namespace = case.pod["metadata"].get("labels", {}), case.pod["metadata"]["namespace"]
    return not spread(case) and any(
        one["metadata"]["namespace"] == namespace
        and one["spec"].get("selector")
        and one["spec"]["selector"].items() <= labels.items()
        for one in case.world.of_kind("Service")
    )
