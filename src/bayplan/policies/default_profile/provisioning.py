"""Where a volume for a claim could be made: the class' topologies, and the room that its driver reports."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from bayplan import NodeTable
from bayplan.blocks import (
    Expression,
    NodeSelector,
    NodeSelectorTerm,
    Objects,
    PersistentVolumeClaim,
    amount,
    matching,
)
from bayplan.policies.default_profile.claims import class_of
from bayplan.policies.default_profile.reach import Bools, Places, affinity_of
from bayplan.policies.default_profile.volume_offers import storage_of

_NO_PROVISIONER = frozenset({"", "kubernetes.io/no-provisioner"})


class Rooms:
    """The largest volume that each class has room for, by the nodes that reach the pool."""

    def __init__(self, pools: Iterable[Any]) -> None:
        largest: dict[str, dict[NodeSelector | None, int]] = {}
        for pool in pools:
            # The largest volume says more than what is free: free space may be in pieces.
            said = pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size
            # A pool that names no nodes is for none of them.
            if said is not None and pool.node_topology is not None:
                of_class = largest.setdefault(pool.storage_class_name, {})
                where = affinity_of(pool.node_topology)
                of_class[where] = max(amount("storage", said), of_class.get(where, 0))
        self._by_class = {
            name: (Places(pools), np.array(list(pools.values()), dtype=np.int64))
            for name, pools in largest.items()
        }

    def for_claim(self, nodes: NodeTable, claim: PersistentVolumeClaim) -> Bools:
        """Nodes that reach a pool of the claim's class which can hold it."""
        roomy = np.zeros(len(nodes), dtype=np.bool_)
        if class_of(claim) in self._by_class:
            places, largest = self._by_class[class_of(claim)]
            rows, which = places.pairs(nodes)
            roomy[rows[largest[which] >= storage_of(claim)]] = True
        return roomy


def makes_volumes(claim: PersistentVolumeClaim, objects: Objects) -> bool:
    """Whether the claim's class can make volumes at all."""
    storage = objects.storage_classes.get(class_of(claim))
    return storage is not None and storage.provisioner not in _NO_PROVISIONER


def provisionable(
    nodes: NodeTable, claim: PersistentVolumeClaim, objects: Objects, *, rooms: Rooms
) -> tuple[Bools, Bools]:
    """Where the claim's class makes volumes, and where there is room for this one."""
    everywhere = np.ones(len(nodes), dtype=np.bool_)
    if not makes_volumes(claim, objects):
        return ~everywhere, everywhere
    storage = objects.storage_classes[class_of(claim)]
    allowed = everywhere if not storage.allowed_topologies else ~everywhere
    for term in storage.allowed_topologies or ():
        labels = tuple(Expression(one.key, "In", one.values) for one in term.match_label_expressions or ())
        allowed = allowed | matching(nodes, NodeSelectorTerm(labels))
    driver = objects.of_kind("CSIDriver").get(storage.provisioner)
    reports = driver is not None and driver.spec.storage_capacity
    if not reports or not _asks_for_space(claim):
        return allowed, everywhere
    return allowed, rooms.for_claim(nodes, claim)


def _asks_for_space(claim: PersistentVolumeClaim) -> bool:
    resources = claim.spec.resources
    return resources is not None and "storage" in (resources.requests or {})
