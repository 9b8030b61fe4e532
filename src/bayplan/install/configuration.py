"""ConfigMaps: our configuration with the policies beside it, and that of kube-scheduler.

The user's configuration says what is judged; where we listen, which certificates we use and where the cluster
is follow from the shape, and win over it.
"""

from bayplan.install.extender_entry import SCHEDULER_CONFIGURATION
from bayplan.install.labels import metadata
from bayplan.install.names import EXTENDER_PORT, OPS_PORT, SCHEDULER_OPS_PORT
from bayplan.install.shapes import CONTROL_PLANE, LEASED, MUTUAL_TLS, SERVICE, STANDALONE
from bayplan.install.tree import (
    AsText,
    Block,
    Configured,
    Merged,
    Named,
    Not,
    Shared,
    Spread,
    Tree,
    Value,
    When,
)

CONFIG_DIRECTORY = "/etc/bayplan"
TLS_DIRECTORY = "/etc/bayplan-tls"
CONFIG_FILE = "bayplan.yaml"
SCHEDULER_CONFIG_FILE = "kube-scheduler.yaml"

# Without a host it is every address, of IPv4 and of IPv6: a pod may have the one, the other or both.
_LOOPBACK, _EVERYWHERE = "127.0.0.1", ""

DEFAULTS = Shared(
    "configDefaults",
    {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "page": When(CONTROL_PLANE, {"listen": "off"}),
    },
)
"""What the user's configuration may change."""

SETTLED = Shared(
    "configSettled",
    {
        "cluster": {"source": "in-cluster"},
        "extender": When(
            Not(STANDALONE),
            {
                "listen": When(SERVICE, f"{_EVERYWHERE}:{EXTENDER_PORT}", f"{_LOOPBACK}:{EXTENDER_PORT}"),
                # The kubelet asks for health at the pod's address, which on the host's network is the host's.
                "opsListen": When(CONTROL_PLANE, f"{_LOOPBACK}:{OPS_PORT}", f"{_EVERYWHERE}:{OPS_PORT}"),
                "path": "/",
                "kubeSchedulerVersion": Named("kubernetesVersion"),
                # Beside kube-scheduler there is one caller, the one that leads.
                "lease": {"use": When(LEASED, "auto", "never"), "name": Named("fullname")},
                "tls": When(
                    MUTUAL_TLS,
                    {
                        "certFile": f"{TLS_DIRECTORY}/tls.crt",
                        "keyFile": f"{TLS_DIRECTORY}/tls.key",
                        "clientCAFile": f"{TLS_DIRECTORY}/ca.crt",
                        "requireClientCert": True,
                        "allowedNames": Block("tls.allowedNames"),
                    },
                ),
            },
        ),
        "scheduler": When(
            STANDALONE,
            {
                "profiles": When(
                    Not(Configured("scheduler.profiles")), [{"schedulerName": Value("scheduler.name")}]
                ),
                "opsListen": f"{_EVERYWHERE}:{SCHEDULER_OPS_PORT}",
                "leaderElection": {"leaderElect": True, "resourceName": Named("fullname")},
            },
        ),
    },
)
"""What follows from the shape."""

CONFIGURATION = Merged([DEFAULTS, Block("config"), SETTLED])

CONFIG_MAP: Tree = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": metadata("config"),
    "data": {CONFIG_FILE: AsText(CONFIGURATION), Spread("files"): None},
}

SCHEDULER_CONFIG_MAP: Tree = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": metadata("scheduler-config"),
    "data": {SCHEDULER_CONFIG_FILE: AsText(SCHEDULER_CONFIGURATION)},
}
