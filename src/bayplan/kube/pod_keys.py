"""Finds mistyped keys in a pod's manifest, which would otherwise be ignored since few keys are read."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

Steps = tuple[str | int, ...]

# The keys of Kubernetes 1.36. A key that resembles none of them may be newer, and passes.
_METADATA = (
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName"
    " generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid"
)
_SPEC = (
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy"
    " enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname"
    " hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy"
    " priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName"
    " schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName"
    " setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations"
    " topologySpreadConstraints volumes workloadRef"
)
_CONTAINER = (
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe"
    " resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce"
    " terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
_RESOURCES = "claims limits requests"
_TOLERATION = "effect key operator tolerationSeconds value"
_ALIKE = 0.75


def mistyped_keys(spec: Mapping[str, Any]) -> Iterator[tuple[Steps, str]]:
    """The place of each mistyped key in a pod's spec, and the key that was probably meant."""
    yield from _nearly((), spec, _SPEC)
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(_listed(spec.get(kind))):
            yield from _nearly((kind, number), container, _CONTAINER)
            resources = container.get("resources") if isinstance(container, Mapping) else None
            yield from _nearly((kind, number, "resources"), resources, _RESOURCES)
    for number, toleration in enumerate(_listed(spec.get("tolerations"))):
        yield from _nearly(("tolerations", number), toleration, _TOLERATION)


def mistyped_metadata(metadata: Any) -> Iterator[tuple[Steps, str]]:
    """The same for the metadata of an object, whatever its kind."""
    return _nearly((), metadata, _METADATA)


def _nearly(at: Steps, data: Any, words: str) -> Iterator[tuple[Steps, str]]:
    known = words.split()
    for key in data if isinstance(data, Mapping) else ():
        if key not in known and (meant := get_close_matches(str(key), known, n=1, cutoff=_ALIKE)):
            yield (*at, key), meant[0]


def _listed(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []
