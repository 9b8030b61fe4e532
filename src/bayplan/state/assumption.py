"""An assumption: a pod that we count on a node before the watch reports it there."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from bayplan.kube.meta import NO_META
from bayplan.kube.pod import NO_SPEC, Pod


@dataclass(frozen=True)
class Assumption:
    """A pod that we count on a node, with its allocation, before the watch reports it there."""

    uid: str
    node: str
    annotations: Mapping[str, str]
    told: bool
    """Whether the watch has reported this UID: a report of another UID is then a newer pod."""
    plain: Pod
    """The pod without the assumed node and annotations."""
    bound_at: float = math.inf
    """When the API server confirmed the bind, by the monotonic clock."""

    def shown(self) -> Pod:
        """The pod with the assumed node and annotations."""
        pod = self.plain
        annotations = {**pod.annotations, **self.annotations}
        metadata = msgspec.structs.replace(pod.metadata or NO_META, annotations=annotations)
        spec = msgspec.structs.replace(pod.spec or NO_SPEC, node_name=self.node)
        shown = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
        # The pod's cached properties depend neither on its node nor on its annotations.
        shown.__dict__.update(pod.__dict__)
        return shown
