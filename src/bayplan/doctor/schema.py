"""The keys that kube-scheduler knows: it decodes strictly, and does not start with another one."""

from collections.abc import Mapping
from typing import Any

Keys = Mapping[str, Any]
"""By name: the kind of a plain value, the keys of a mapping, or, in a list, those of each element."""

TEXT, BOOL, INT, NUMBER, DURATION, BYTES, ANY = "text", "bool", "int", "number", "duration", "bytes", "any"

TLS: Keys = {
    "insecure": BOOL,
    "serverName": TEXT,
    "certFile": TEXT,
    "keyFile": TEXT,
    "caFile": TEXT,
    "certData": BYTES,
    "keyData": BYTES,
    "caData": BYTES,
}
MANAGED: Keys = {"name": TEXT, "ignoredByScheduler": BOOL}
EXTENDER: Keys = {
    "urlPrefix": TEXT,
    "filterVerb": TEXT,
    "preemptVerb": TEXT,
    "prioritizeVerb": TEXT,
    "weight": INT,
    "bindVerb": TEXT,
    "enableHTTPS": BOOL,
    "tlsConfig": TLS,
    "httpTimeout": DURATION,
    "nodeCacheCapable": BOOL,
    "managedResources": [MANAGED],
    "ignorable": BOOL,
}
_PLUGIN: Keys = {"name": TEXT, "weight": INT}
_PLUGIN_SET: Keys = {"enabled": [_PLUGIN], "disabled": [_PLUGIN]}
POINTS = (
    "multiPoint",
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
)
PROFILE: Keys = {
    "schedulerName": TEXT,
    "percentageOfNodesToScore": INT,
    "plugins": dict.fromkeys(POINTS, _PLUGIN_SET),
    "pluginConfig": [{"name": TEXT, "args": ANY}],
}
_LEADER_ELECTION: Keys = {
    "leaderElect": BOOL,
    "leaseDuration": DURATION,
    "renewDeadline": DURATION,
    "retryPeriod": DURATION,
    "resourceLock": TEXT,
    "resourceName": TEXT,
    "resourceNamespace": TEXT,
}
_CLIENT: Keys = {
    "kubeconfig": TEXT,
    "acceptContentTypes": TEXT,
    "contentType": TEXT,
    "qps": NUMBER,
    "burst": INT,
}
CONFIGURATION: Keys = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "parallelism": INT,
    "leaderElection": _LEADER_ELECTION,
    "clientConnection": _CLIENT,
    "enableProfiling": BOOL,
    "enableContentionProfiling": BOOL,
    "percentageOfNodesToScore": INT,
    "podInitialBackoffSeconds": INT,
    "podMaxBackoffSeconds": INT,
    "profiles": [PROFILE],
    "extenders": [EXTENDER],
    "delayCacheUntilActive": BOOL,
}
GONE_WITH_V1 = ("healthzBindAddress", "metricsBindAddress")
"""Keys of the beta versions that `v1` does not have; flags took their place."""


def keys_of(api_version: str) -> Keys:
    """The keys of a KubeSchedulerConfiguration of that version."""
    if api_version.endswith(("/v1beta1", "/v1beta2", "/v1beta3")):
        return {**CONFIGURATION, **dict.fromkeys(GONE_WITH_V1, TEXT)}
    return CONFIGURATION
