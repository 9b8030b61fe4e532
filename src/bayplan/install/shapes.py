"""The four shapes, and what follows from them: the conditions that trees ask.

- ``sidecar``: a second kube-scheduler and the extender in one pod, on loopback. Works on managed clusters.
- ``standalone``: ``bayplan schedule``, a scheduler of its own.
- ``control-plane``: the extender beside every kube-scheduler of the control plane, on the host's network.
- ``service``: the extender behind a Service.
"""

from typing import get_args

from bayplan.install.tree import All, Either, Given, InNamespace, Is, MoreThan, Not
from bayplan.install.values import Shape

SHAPES: tuple[Shape, ...] = get_args(Shape)

SIDECAR = Is("shape", "sidecar")
STANDALONE = Is("shape", "standalone")
CONTROL_PLANE = Is("shape", "control-plane")
SERVICE = Is("shape", "service")

ATTACHED = Either(SERVICE, CONTROL_PLANE)
"""A kube-scheduler calls that is not in our pod."""
MUTUAL_TLS = All(ATTACHED, Not(Is("tls.mode", "none")))
LEASED = All(SERVICE, Given("verbs.bind"))
"""One of our pods may bind, the holder of a Lease; the others are not ready."""
SEVERAL = All(Not(CONTROL_PLANE), MoreThan("replicaCount", 1))
OWN_PRIORITY = All(Not(InNamespace("kube-system")), Not(Given("priorityClassName")))
"""The system's priority classes are for kube-system; elsewhere we bring one along."""
