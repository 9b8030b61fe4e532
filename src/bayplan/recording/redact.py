"""Removes what may be secret from recorded requests; only what policies can read is kept.

Policies see a pod through `bayplan.kube.pod.Pod`, which has no environment, arguments or commands, and of
its volumes only claims and disks.
A request that is encoded again from these structs has lost all the rest, and still gets the same answer.
"""

import hashlib
from typing import Any

import msgspec

from bayplan.kube.meta import NamedObject, ObjectMeta
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.wire import v1

# kubectl apply stores the whole manifest here, including the environment.
_MANIFEST = "kubectl.kubernetes.io/last-applied-configuration"


class _Told(v1.Envelope, frozen=True, forbid_unknown_fields=False):
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


_TOLD = msgspec.json.Decoder(_Told)
_ENCODER = msgspec.json.Encoder()


def kept_pod(pod: Pod) -> Pod:
    """The pod without the annotation of its last applied manifest."""
    metadata = _without_manifest(pod.metadata)
    return pod if metadata is pod.metadata else msgspec.structs.replace(pod, metadata=metadata)


def kept_node(node: NodeObject) -> NodeObject:
    """The node without the annotation of its last applied manifest."""
    metadata = _without_manifest(node.metadata)
    return node if metadata is node.metadata else msgspec.structs.replace(node, metadata=metadata)


def kept_object(one: NamedObject) -> NamedObject:
    """Another object without the annotation of its last applied manifest."""
    metadata = _without_manifest(one.metadata)
    return one if metadata is one.metadata else msgspec.structs.replace(one, metadata=metadata)


def _without_manifest(metadata: ObjectMeta | None) -> ObjectMeta | None:
    if metadata is None or not metadata.annotations or _MANIFEST not in metadata.annotations:
        return metadata
    kept = {key: value for key, value in metadata.annotations.items() if key != _MANIFEST}
    return msgspec.structs.replace(metadata, annotations=kept)


def kept_args(args: v1.ExtenderArgs) -> bytes:
    """A filter or prioritize request with only the readable parts of its pod, and without full nodes."""
    pod = kept_pod(args.pod) if args.pod else None
    return _ENCODER.encode(v1.ExtenderArgs(pod, None, args.node_names))


def kept_preemption(args: v1.ExtenderPreemptionArgs) -> bytes:
    """A preempt request with only the readable parts of its pods."""
    pod = kept_pod(args.pod) if args.pod else None
    victims = args.node_name_to_victims
    if victims is not None:
        victims = {node: _kept_victims(sent) for node, sent in victims.items()}
    return _ENCODER.encode(v1.ExtenderPreemptionArgs(pod, victims, args.node_name_to_meta_victims))


def _kept_victims(sent: v1.SentVictims | None) -> v1.SentVictims | None:
    if sent is None or sent.pods is None:
        return sent
    pods = [kept_pod(pod) if pod else None for pod in sent.pods]
    return msgspec.structs.replace(sent, pods=pods)


def without_nodes(answer: bytes) -> tuple[bytes, str]:
    """A filter's answer without its full nodes, and the hash of the whole answer."""
    told = _TOLD.decode(answer)
    brief = v1.FilterResult(None, None, told.failed_nodes, told.failed_and_unresolvable_nodes, told.error)
    return _ENCODER.encode(brief), hashlib.sha256(answer).hexdigest()


def without_secrets(config: Any) -> Any:
    """A configuration as plain data, without HTTP headers and without passwords in URLs."""
    if isinstance(config, dict):
        return {
            key: "(not recorded)" if key == "headers" and value else without_secrets(value)
            for key, value in config.items()
        }
    if isinstance(config, list | tuple):
        return [without_secrets(value) for value in config]
    if isinstance(config, str) and "://" in config and "@" in config:
        scheme, _, rest = config.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return config
