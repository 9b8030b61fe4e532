"""The versions of Kubernetes that we install on, and what is different from one to the next.

Everything that a shape does only on some versions asks for one of the constants below, so that this is the
whole list.
"""

import re
from dataclasses import dataclass

from bayplan.install.errors import InstallError
from bayplan.install.tree import AtLeast

OLDEST, NEWEST = 25, 38

UNHEALTHY_POD_EVICTION = AtLeast(27)
"""``unhealthyPodEvictionPolicy`` of a PodDisruptionBudget."""
MATCH_LABEL_KEYS = AtLeast(27)
"""``matchLabelKeys`` of a spread constraint: the pods of one rollout are spread among themselves."""
NATIVE_SIDECARS = AtLeast(29)
"""Init containers with ``restartPolicy: Always``: they start before the others and end after them."""
SLEEP_BEFORE_STOP = AtLeast(30)
"""``preStop.sleep``: a pause without a program for it."""
SCHEDULER_LIVEZ = AtLeast(31)
"""``/livez`` and ``/readyz`` of kube-scheduler; ``/healthz`` before that."""
KUBEADM_V1BETA4 = 31
"""From here on kubeadm reads ``kubeadm.k8s.io/v1beta4``, where extra arguments are a list."""

SCHEDULER_API = "kubescheduler.config.k8s.io/v1"
"""Of KubeSchedulerConfiguration: v1 came with 1.25, the oldest that we know."""

_VERSION = re.compile(r"v?1\.(\d+)(?:\.(\d+))?(?:[-+].*)?")


class VersionError(InstallError):
    """A version that we cannot install on; the text says which we can."""


@dataclass(frozen=True)
class KubernetesVersion:
    """``1.36`` or ``1.36.4``."""

    minor: int
    patch: int = 0


def parse_version(text: str) -> KubernetesVersion:
    """The version in ``1.36``, ``v1.36.4`` or ``v1.36.4-gke.100``."""
    found = _VERSION.fullmatch(text)
    if not found:
        raise VersionError(f"{text!r} is no version of Kubernetes: write 1.36 or 1.36.4")
    minor = int(found[1])
    if not OLDEST <= minor <= NEWEST:
        raise VersionError(f"Kubernetes 1.{minor} is not known here: 1.{OLDEST} to 1.{NEWEST} are")
    return KubernetesVersion(minor, int(found[2] or 0))
