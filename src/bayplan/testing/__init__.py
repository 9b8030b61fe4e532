"""For people who write policies: build pods, nodes and clusters in a line, run a policy, look."""

from bayplan.snapshot.files import load_snapshot
from bayplan.testing.build import make_cluster, make_node, make_pod
from bayplan.testing.place import Placed, place
from bayplan.testing.policies import load_policies
from bayplan.testing.queue import Queued, queue_up
from bayplan.testing.run import Bound, Result, bind, run_policy

__all__ = [
    "Bound",
    "Placed",
    "Queued",
    "Result",
    "bind",
    "load_policies",
    "load_snapshot",
    "make_cluster",
    "make_node",
    "make_pod",
    "place",
    "queue_up",
    "run_policy",
]
