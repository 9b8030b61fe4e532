"""ImageLocality: a pod starts sooner where its images are.

Score    bytes of the pod's images that are on the node, each by how many nodes have it: 0 up to 23 MiB, 100
         from 1000 MiB a container on. What is on few nodes counts less, so that not all pods crowd there.
Reads    ``status.images`` of the nodes; a node without that list has none of them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Snapshot

_MIB = 1024**2
_LEAST = 23 * _MIB
_MOST_A_CONTAINER = 1000 * _MIB
_BEST = 100
_NOT_THERE = -1
_NO_IMAGES: dict[str, int] = {}
_IMAGES_KEPT = 1_000
_bytes = dict[str, int].get


@dataclass(frozen=True)
class ImageLists:
    """What images each node has: a mapping of name to bytes."""

    @property
    def title(self) -> str:
        """How errors call it."""
        return "ImageLists"

    @property
    def meaning(self) -> str:
        """What it is, in a line."""
        return "bytes of each image on the node, by name"

    def read(self, nodes: list[Any]) -> NDArray[np.object_]:
        """One mapping a node."""
        lists = np.empty(len(nodes), dtype=np.object_)
        lists[:] = [getattr(node, "images", _NO_IMAGES) for node in nodes]
        return lists


IMAGE_LISTS = ImageLists()


@dataclass(frozen=True)
class _Spread:
    """Where an image is, among all nodes with these lists, and what it is worth there."""

    lists: NDArray[np.object_]
    there: NDArray[np.bool_]
    worth: int


@bayplan.policy
class ImageLocality:
    """A pod starts sooner where its images are."""

    def __init__(self) -> None:
        # The pods of a controller have the same images; a column for each image of a cluster would be kept up
        # with every change of a node.
        self._spreads: dict[str, _Spread] = {}

    @bayplan.score(range=(0, 100))
    def there(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> NDArray[np.int64] | int:
        """How much of the pod's images is on the node."""
        total = np.zeros(len(cluster.nodes), dtype=np.int64)
        for image, times in Counter(_images(pod)).items():
            spread = self._spread(image, cluster.nodes)
            if spread.worth:
                total += times * spread.worth * spread.there
        if not total.any():
            return 0
        if len(nodes) != len(total):
            total = total[nodes.origin[1]]
        # A pod has one container at least; whoever builds one without must not divide by less than nothing.
        most = _MOST_A_CONTAINER * max(len(pod.containers) + len(pod.init_containers), 1)
        return _BEST * (total.clip(_LEAST, most) - _LEAST) // (most - _LEAST)

    def _spread(self, image: str, every_node: NodeTable) -> _Spread:
        lists = every_node[IMAGE_LISTS]
        known = self._spreads.get(image)
        if known is None or known.lists is not lists:
            if len(self._spreads) >= _IMAGES_KEPT:
                # Anew from time to time: what is used comes back at once.
                self._spreads = {}
            known = self._spreads[image] = _spread(image, lists)
        return known


def _spread(image: str, lists: NDArray[np.object_]) -> _Spread:
    """Where the image is; worth its size, by the share of all nodes that have it."""
    found = map(_bytes, lists.tolist(), repeat(image), repeat(_NOT_THERE))
    sizes = np.fromiter(found, dtype=np.int64, count=len(lists))
    there = sizes != _NOT_THERE
    count = int(there.sum())
    # kube-scheduler keeps one size an image, that of the node which it saw first.
    worth = int(float(sizes[there.argmax()]) * (count / len(lists))) if count else 0
    return _Spread(lists, there, worth)


def _images(pod: Pod) -> Iterator[str]:
    for container in (*pod.init_containers, *pod.containers):
        yield _full_name(container.image or "")
    for volume in pod.volumes:
        if volume.image is not None:
            yield _full_name(volume.image.reference)


def _full_name(image: str) -> str:
    """With the tag ``latest`` where it has none; a colon before the last slash is that of a port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
