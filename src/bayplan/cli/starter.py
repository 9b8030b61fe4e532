"""The files that ``bayplan init`` writes."""

from pathlib import Path

_POLICY = '''"""A first policy: keep pods off nodes without SSDs when they ask for one, and spread load.

Serve it:   bayplan serve --config bayplan.yaml
Test it:    python -m pytest
Check it:   bayplan check --config bayplan.yaml
"""

import bayplan

NO_SSD = bayplan.Reason("node has no SSD")


@bayplan.filter
def has_ssd(pod, node):
    """Called once a node. Return nothing to let it pass, a Reason (or a text) to refuse it."""
    if pod.labels.get("disk") == "ssd" and node.labels.get("disk") != "ssd":
        return NO_SSD


@bayplan.score
def most_cpu(pod, nodes):
    """Called once, with all nodes as columns: the more CPU, the better.

    `bayplan columns` lists what else there is.
    """
    return nodes["cpu.allocatable"]
'''

_TEST = '''"""The policy's tests: plain Python, no cluster, no server."""

from pathlib import Path

from bayplan.testing import make_cluster, make_node, make_pod, run_policy

POLICY = Path(__file__).parent / "policy.py"
CLUSTER = make_cluster(
    [
        make_node("with-ssd", labels={"disk": "ssd"}, cpu=4),
        make_node("large-with-ssd", labels={"disk": "ssd"}, cpu=32),
        make_node("without", cpu=64),
    ]
)


def test_a_pod_that_wants_an_ssd_gets_one():
    result = run_policy(POLICY, make_pod(labels={"disk": "ssd"}), CLUSTER)

    assert result.passed == ["with-ssd", "large-with-ssd"]
    assert result.refused == {"without": "node has no SSD"}
    assert result.best == "large-with-ssd"


def test_other_pods_may_go_anywhere():
    result = run_policy(POLICY, make_pod(), CLUSTER)

    assert result.refused == {}
'''

_CONFIG = """# What `bayplan serve --config bayplan.yaml` runs. Mistyped keys are errors, with the line.
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
policies:
- use: policy.py
  # weight: 2                  # how much its scores count beside other policies
  # failurePolicy: Ignore      # when it fails: abstain, instead of failing the pod's attempt
  # for:                       # which pods it is for; all where this is left out
  #   namespaces: ["batch-*"]
  #   podSelector: {matchLabels: {tier: batch}}
cluster:
  source: snapshot             # snapshot | kubeconfig | in-cluster | request
  snapshot: cluster.json       # a made-up cluster; yours: kubectl get nodes,pods -A -o json
extender:
  listen: 127.0.0.1:8888       # where kube-scheduler calls
  opsListen: 127.0.0.1:8889    # /livez, /readyz, /metrics
"""

_SCHEDULER = """# A second kube-scheduler, beside the one that your cluster has:
#   kube-scheduler --config scheduler.yaml
# It takes only pods with `schedulerName: bayplan`. For it to ask about your own cluster, Bayplan must know
# that too: `source: kubeconfig` in bayplan.yaml.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: kubeconfig.yaml  # yours: a copy of ~/.kube/config will do for a try
leaderElection:
  leaderElect: false           # there is only this one
profiles:
- schedulerName: bayplan
extenders:
- urlPrefix: http://127.0.0.1:8888
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt         # without it, pods are evicted for nodes that the filter then refuses
  weight: 1
  nodeCacheCapable: true       # names only; with `source: request` in bayplan.yaml this must be false
"""

_CLUSTER = """{
  "kind": "List",
  "items": [
    {
      "kind": "Node",
      "metadata": {"name": "node-1", "labels": {"disk": "ssd", "example.com/watts-free": "900"}},
      "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    },
    {
      "kind": "Node",
      "metadata": {"name": "node-2", "labels": {"disk": "ssd", "example.com/watts-free": "100"}},
      "status": {"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"}}
    },
    {
      "kind": "Node",
      "metadata": {"name": "node-3", "labels": {}},
      "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}
    },
    {
      "kind": "Pod",
      "metadata": {"name": "web", "namespace": "default", "uid": "a"},
      "spec": {
        "nodeName": "node-2",
        "containers": [{"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
      },
      "status": {"phase": "Running"}
    }
  ]
}
"""

FILES = {
    "policy.py": _POLICY,
    "test_policy.py": _TEST,
    "cluster.json": _CLUSTER,
    "scheduler.yaml": _SCHEDULER,
    "bayplan.yaml": _CONFIG,
}


def write_starter(directory: Path, *, force: bool) -> list[Path]:
    """Write the files; nothing is written when one of them is there already, unless ``force``."""
    paths = {directory / name: content for name, content in FILES.items()}
    if not force:
        for path in paths:
            if path.exists():
                raise FileExistsError(path)
    directory.mkdir(parents=True, exist_ok=True)
    for path, content in paths.items():
        path.write_text(content)
    return list(paths)
