"""ImageLocality: a pod starts sooner where its images are.

Score    bytes of the pod's images that are on the node, each by how many nodes have it: 0 up to 23 MiB, 100
         from 1000 MiB a container on. What is on few nodes counts less, so that not all pods crowd there.
Reads    ``status.images`` of the nodes; a node without that list has none of them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Snapshot
from bayplan.policies.default_profile.image_index import ImageIndex

_MIB = 1024**2
_LEAST = 23 * _MIB
_MOST_A_CONTAINER = 1000 * _MIB
_BEST = 100
_NO_IMAGES: dict[str, int] = {}


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


@bayplan.policy
class ImageLocality:
    """A pod starts sooner where its images are."""

    def __init__(self) -> None:
        self._index = ImageIndex()

    @bayplan.score(range=(0, 100), reads="nodes")
    def there(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> NDArray[np.int64] | int:
        """How much of the pod's images is on the node."""
        total = np.zeros(len(cluster.nodes), dtype=np.int64)
        lists = cluster.nodes[IMAGE_LISTS]
        for image, times in Counter(_images(pod)).items():
            copies = self._index.copies(image, lists)
            # Worth its size, by the share of all nodes that have it. kube-scheduler keeps one size an image,
            # that of the node which it saw first.
            share = len(copies.rows) / max(len(total), 1)
            total[copies.rows] += times * int(float(copies.size_bytes) * share)
        if not total.any():
            return 0
        total = nodes.ours(total)
        # A pod has one container at least; whoever builds one without must not divide by less than nothing.
        most = _MOST_A_CONTAINER * max(len(pod.containers) + len(pod.init_containers), 1)
        return _BEST * (total.clip(_LEAST, most) - _LEAST) // (most - _LEAST)


def _images(pod: Pod) -> Iterator[str]:
    for container in (*pod.init_containers, *pod.containers):
        yield _full_name(container.image or "")
    for volume in pod.volumes:
        if volume.image is not None:
            yield _full_name(volume.image.reference)


def _full_name(image: str) -> str:
    """With the tag ``latest`` where it has none; a colon before the last slash is that of a port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
