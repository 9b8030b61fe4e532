"""Resources that only we count: policies hand them out by device, and no node has them in its status.

kube-scheduler would refuse every node for them, unless it is told to leave them to us.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.config.v1 import BayplanConfiguration
from bayplan.install.values import Values
from bayplan.snapshot.units import Units

_ATTACHED = ("service", "control-plane")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN_LENGTH, _NAME_LENGTH = 253, 63


def counted(policies: Sequence[Policy], config: BayplanConfiguration) -> tuple[str, ...]:
    """The names of these resources."""
    found = {name for policy in policies if not policy.shadow for name in units_of(policy)}
    for entry in config.policies:
        # Beside what it hands out, a policy may be told in another resource how many devices a pod wants.
        named = set(_resources(entry.args))
        if not entry.shadow and named & found:
            found |= named
    return tuple(sorted(found))


def units_of(policy: Policy) -> set[str]:
    """What one policy counts by device."""
    return {column.resource for column in policy.columns if isinstance(column, Units)}


def left_to_us(values: Values, policies: Sequence[Policy], config: BayplanConfiguration) -> Values:
    """The values with these resources in them, where nothing else is said of them.

    A sidecar has a profile of its own to say it in, so that we are still asked about other pods. Elsewhere it
    stands in our entry, and then we are asked about no other pods: so only where no policy is for those.
    """
    names = counted(policies, config)
    managed = values.extender.managed_resources
    apart = all(units_of(policy) for policy in policies if not policy.shadow)
    if managed or (values.shape in _ATTACHED and apart and not values.extender.ignorable):
        extender = msgspec.structs.replace(values.extender, managed_resources=_completed(managed, names))
        return msgspec.structs.replace(values, extender=extender)
    if values.shape == "sidecar":
        ignored = list(dict.fromkeys([*values.scheduler.ignored_resources, *names]))
        scheduler = msgspec.structs.replace(values.scheduler, ignored_resources=ignored)
        return msgspec.structs.replace(values, scheduler=scheduler)
    return values


def _completed(managed: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Pods that ask for one of them must get to us; what was said of one in so many words stays."""
    said = {str(one.get("name")) for one in managed}
    ignored = {"ignoredByScheduler": True}
    found = [
        {"name": one.get("name"), **ignored, **one} if one.get("name") in names else dict(one)
        for one in managed
    ]
    return found + [{"name": name, **ignored} for name in names if name not in said]


def _resources(args: Any) -> Iterator[str]:
    if isinstance(args, Mapping):
        for key, value in args.items():
            if key == "resource" and isinstance(value, str):
                yield value
            else:
                yield from _resources(value)
    elif isinstance(args, list):
        for item in args:
            yield from _resources(item)


def name_problem(name: str) -> str:
    """Why this is no name of an extended resource; empty where it is one."""
    if not name:
        return "the name is missing"
    domain, slash, last = name.rpartition("/")
    if not slash:
        return f"{name!r} has no domain"
    if "kubernetes.io/" in name:
        return f"{name!r} belongs to Kubernetes itself"
    if domain.startswith("requests."):
        return f"{name!r} begins with requests., which quotas use"
    fits = len(domain) <= _DOMAIN_LENGTH and len(last) <= _NAME_LENGTH
    if not fits or not _DOMAIN.fullmatch(domain) or not _NAME.fullmatch(last):
        return f"{name!r} is no DOMAIN/NAME in letters, digits, '-', '_' and '.'"
    return ""
