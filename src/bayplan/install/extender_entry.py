"""The configuration of kube-scheduler with our entry in it: verbs, names only, CA and certificate."""

from bayplan.install.shapes import MUTUAL_TLS, SIDECAR
from bayplan.install.tree import Block, Given, Named, Not, Tree, Value, When
from bayplan.install.versions import SCHEDULER_API

CLIENT_FILES = "/etc/kubernetes/bayplan"
"""Where the files for kube-scheduler go on a host of the control plane."""
HOST_CONFIG = f"{CLIENT_FILES}/kube-scheduler.yaml"
HOST_KUBECONFIG = "/etc/kubernetes/scheduler.conf"

EXTENDER_ENTRY: Tree = {
    "urlPrefix": Named("url"),
    "filterVerb": When(Given("verbs.filter"), "filter"),
    "preemptVerb": When(Given("verbs.preempt"), "preempt"),
    "prioritizeVerb": When(Given("verbs.prioritize"), "prioritize"),
    "weight": When(Given("verbs.prioritize"), Value("extender.weight")),
    "bindVerb": When(Given("verbs.bind"), "bind"),
    # Full nodes make every node look empty to kube-scheduler's own scores, from 1.33 on.
    "nodeCacheCapable": True,
    "httpTimeout": Value("extender.httpTimeout"),
    "ignorable": Value("extender.ignorable"),
    "managedResources": When(Given("extender.managedResources"), Block("extender.managedResources")),
    "enableHTTPS": When(MUTUAL_TLS, True),
    # Without the CA kube-scheduler checks nothing.
    "tlsConfig": When(
        MUTUAL_TLS,
        {
            "caFile": f"{CLIENT_FILES}/ca.crt",
            "certFile": f"{CLIENT_FILES}/tls.crt",
            "keyFile": f"{CLIENT_FILES}/tls.key",
        },
    ),
}

SCHEDULER_CONFIGURATION: Tree = {
    "apiVersion": SCHEDULER_API,
    "kind": "KubeSchedulerConfiguration",
    # With --config kube-scheduler does not heed --kubeconfig and --leader-elect any more.
    "clientConnection": When(Not(SIDECAR), {"kubeconfig": HOST_KUBECONFIG}),
    "leaderElection": When(
        SIDECAR,
        {
            "leaderElect": True,
            "resourceName": Named("fullname"),
            "resourceNamespace": Named("namespace"),
        },
        {"leaderElect": True},
    ),
    "percentageOfNodesToScore": When(
        Given("scheduler.percentageOfNodesToScore"), Value("scheduler.percentageOfNodesToScore")
    ),
    "profiles": When(
        SIDECAR,
        [
            {
                "schedulerName": Value("scheduler.name"),
                "pluginConfig": When(
                    Given("scheduler.ignoredResources"),
                    [
                        {
                            "name": "NodeResourcesFit",
                            "args": {"ignoredResources": Block("scheduler.ignoredResources")},
                        }
                    ],
                ),
            }
        ],
    ),
    "extenders": [EXTENDER_ENTRY],
}
