"""Resources that policies read and that the nodes at hand do not have: a column of zeros, and no error."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bayplan.authoring.fractions import ResourceWeight
from bayplan.authoring.registry import Policy
from bayplan.kube.yaml import did_you_mean
from bayplan.snapshot.table import NodeTable


def resource_hints(policies: Sequence[Policy], nodes: NodeTable) -> list[str]:
    """What is odd about the resources that policies have in their arguments, or have read of these nodes."""
    if not len(nodes):
        return []
    readers: dict[str, str] = {}
    for policy in policies:
        for hook in policy.hooks:
            for name in _named(hook.args):
                readers.setdefault(name, f"policy {policy.name!r}")
    for name in nodes.resources_read:
        readers.setdefault(name, "a policy")
    there = nodes.resources
    missing = {name: who for name, who in readers.items() if name not in there}
    return [
        f"{who} reads resource {name!r}: no node of {len(nodes)} has it{did_you_mean(name, there)}"
        for name, who in missing.items()
    ]


def _named(value: Any) -> Iterator[str]:
    """The resources with weights in arguments: they are read only for pods that ask for them."""
    if isinstance(value, ResourceWeight):
        yield value.name
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _named(getattr(value, field))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _named(part)
