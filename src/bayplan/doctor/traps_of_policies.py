"""The traps between kube-scheduler's configuration and ours: what the policies need and do not get."""

from bayplan.doctor.finding import Trap

CONFIG_REFUSED = Trap(
    "config-refused",
    "error",
    "Bayplan does not start with this configuration.",
    "all",
    "Do what is said; `bayplan check --config FILE` says it too.",
)
NAMES_WITHOUT_CLUSTER = Trap(
    "names-without-cluster",
    "error",
    "kube-scheduler sends names of nodes (nodeCacheCapable: true), and Bayplan knows no cluster to look"
    " them up in: every request fails.",
    "all",
    "Set `cluster: {source: in-cluster}` or `kubeconfig` in Bayplan's configuration.",
)
BIND_WITHOUT_CLUSTER = Trap(
    "bind-without-cluster",
    "error",
    "To bind, Bayplan must reach the API server and follow pods; with cluster.source request or snapshot, or"
    " with cluster.nodesOnly, every bind fails.",
    "1.7 and later",
    "Set `cluster: {source: in-cluster}` or `kubeconfig`, without nodesOnly, or take bindVerb away.",
)
RULE_WITHOUT_BIND = Trap(
    "rule-without-bind",
    "warning",
    "Pods that kube-scheduler has placed but not yet bound are invisible to a filter. Rules between pods"
    " hold only when they are checked again at bind; without bindVerb they are best effort. Seen on 1.36:"
    " one pod a node, 60 pods, 3 nodes with two. A policy that hands something out hands out nothing"
    " without bindVerb.",
    "all",
    "Add `bindVerb: bind`; Bayplan then needs the rights to bind.",
)
RULE_WITHOUT_RECHECK = Trap(
    "rule-without-recheck",
    "warning",
    "The filter looks at other pods and is not run again at bind: two pods that are placed at once do not see"
    " each other.",
    "all",
    "Write @bayplan.filter(recheck=True), and use bindVerb.",
)
MANAGED_RESOURCE_NARROW = Trap(
    "managed-resource-narrow",
    "warning",
    "With managedResources kube-scheduler asks only about pods that request one of them, in containers or"
    " initContainers: to all other pods the policies do not apply.",
    "1.10 and later",
    "Take managedResources away where policies are for other pods too, or serve those apart.",
)
MANAGED_RESOURCE_OTHER = Trap(
    "managed-resource-other",
    "error",
    "A policy hands out a resource that managedResources does not list: pods that ask for it never get here,"
    " and nothing is handed out.",
    "1.10 and later",
    "Add the resource to managedResources.",
)
RESOURCE_NOT_ADVERTISED = Trap(
    "resource-not-advertised",
    "note",
    "A policy counts the resource by device, as annotations or labels of nodes say. kube-scheduler counts it"
    " too, in the status of nodes, and refuses every node that does not advertise it there.",
    "all",
    "Where nodes do not advertise it, leave it to Bayplan: with ignoredResources of NodeResourcesFit in the"
    " profile, or with managedResources and `ignoredByScheduler: true`, by which Bayplan is asked about no"
    " other pods.",
)
SOURCE_WITHOUT_NUDGE = Trap(
    "source-without-nudge",
    "note",
    "A filter reads numbers from outside. When they change, that is no event of the cluster: a refused pod"
    " waits for another event, or for 5 minutes.",
    "all",
    "Switch `cluster.nudge` on; it needs the right to patch pods.",
)
VERSION_SKEW = Trap(
    "version-skew",
    "error",
    "extender.kubeSchedulerVersion says what the caller makes of FailedNodes. Told 1.38 or later, Bayplan"
    " answers with FailedNodes, which makes an older kube-scheduler's preemption fail on every attempt.",
    "kube-scheduler up to 1.37",
    "Set extender.kubeSchedulerVersion to the oldest kube-scheduler that calls.",
)

ALL = tuple(value for value in vars().values() if isinstance(value, Trap))
