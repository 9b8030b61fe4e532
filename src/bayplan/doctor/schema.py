"""The keys that kube-scheduler knows: it decodes strictly, and does not start with another one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Keys = Mapping[str, Any]
"""By name: the kind of a plain value, the keys of a mapping, or, in a list, those of each element."""

TEXT, BOOL, NUMBER, DURATION, BYTES, ANY = "text", "bool", "number", "duration", "bytes", "any"


@dataclass(frozen=True)
class Whole:
    """The kind of a whole number that kube-scheduler takes within bounds only."""

    least: int
    most: int


INT32, INT64 = Whole(-(2**31), 2**31 - 1), Whole(-(2**63), 2**63 - 1)
_PERCENT = Whole(0, 100)

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
    "weight": INT64,
    "bindVerb": TEXT,
    "enableHTTPS": BOOL,
    "tlsConfig": TLS,
    "httpTimeout": DURATION,
    "nodeCacheCapable": BOOL,
    "managedResources": [MANAGED],
    "ignorable": BOOL,
}
_PLUGIN: Keys = {"name": TEXT, "weight": INT32}
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
    "percentageOfNodesToScore": _PERCENT,
    "plugins": dict.fromkeys(POINTS, _PLUGIN_SET),
    "pluginConfig": [{"name": TEXT, "args": ANY}],
}
LEADER_ELECTION: Keys = {
    "leaderElect": BOOL,
    "leaseDuration": DURATION,
    "renewDeadline": DURATION,
    "retryPeriod": DURATION,
    "resourceLock": TEXT,
    "resourceName": TEXT,
    "resourceNamespace": TEXT,
}
CLIENT: Keys = {
    "kubeconfig": TEXT,
    "acceptContentTypes": TEXT,
    "contentType": TEXT,
    "qps": NUMBER,
    "burst": Whole(0, INT32.most),
}
CONFIGURATION: Keys = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "parallelism": Whole(1, INT32.most),
    "leaderElection": LEADER_ELECTION,
    "clientConnection": CLIENT,
    "enableProfiling": BOOL,
    "enableContentionProfiling": BOOL,
    "percentageOfNodesToScore": _PERCENT,
    "podInitialBackoffSeconds": Whole(1, INT64.most),
    "podMaxBackoffSeconds": INT64,
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
