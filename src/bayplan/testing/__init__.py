"""For people who write policies: build pods, nodes and clusters in a line, run a policy, look."""

from bayplan.testing.build import make_cluster, make_node, make_pod
from bayplan.testing.run import Result, run_policy

__all__ = ["Result", "make_cluster", "make_node", "make_pod", "run_policy"]
