"""For people who write policies: build pods, nodes and clusters in a line, run a policy, look."""

from bayplan.testing.build import make_cluster, make_node, make_pod
from bayplan.testing.run import Bound, Result, bind, run_policy

__all__ = ["Bound", "Result", "bind", "make_cluster", "make_node", "make_pod", "run_policy"]
