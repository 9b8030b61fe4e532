"""Finds policies by name: Bayplan's built-ins, and the entry points of installed packages.

A package registers a policy as an entry point of the group ``bayplan.policies``. Only what a configuration
names is imported.
"""

import importlib
from importlib.metadata import EntryPoint, entry_points

from bayplan.authoring.hooks import PolicyError

GROUP = "bayplan.policies"


def built_ins() -> dict[str, str]:
    """The module of each built-in policy, by name."""
    # Imported by name: built-ins use the public API, so they are in a layer above this one.
    names: dict[str, str] = importlib.import_module("bayplan.policies").BUILT_INS
    return names


def profile_policies() -> dict[str, str]:
    """The module of each policy of kube-scheduler's default profile, by plugin name, in its order."""
    names: dict[str, str] = importlib.import_module("bayplan.policies.default_profile").DEFAULT_PROFILE
    return names


def known_names() -> set[str]:
    """All names that a configuration may use: built-ins, the default profile, entry points."""
    return {*built_ins(), *profile_policies(), *entry_points(group=GROUP).names}


def find_named(name: str) -> str | None:
    """``module:Class`` of the policy of that name; ``None`` if there is none.

    Raises `PolicyError` if there are two: which one is used must not depend on the order of installation.
    """
    offers = list(entry_points(group=GROUP, name=name))
    targets = {f"{offer.module}:{offer.attr}" if offer.attr else offer.module for offer in offers}
    ours = built_ins().get(name) or profile_policies().get(name)
    if ours is not None:
        if offers:
            raise PolicyError(
                f"{name!r} is a built-in and also an entry point of {_packages(offers)};"
                f" say which: {ours}:{name} or {', '.join(sorted(targets))}"
            )
        return f"{ours}:{name}"
    if len(targets) > 1:
        raise PolicyError(
            f"{name!r} is an entry point of {_packages(offers)}; say which: {' or '.join(sorted(targets))}"
        )
    return targets.pop() if targets else None


def _packages(offers: list[EntryPoint]) -> str:
    names = {offer.dist.name for offer in offers if offer.dist is not None}
    return " and ".join(f"package {name}" for name in sorted(names)) or "a package"
