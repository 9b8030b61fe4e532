"""Policies by name: those that come with Bayplan, and those of other packages that are installed.

A package offers a policy under a name with an entry point of the group ``bayplan.policies``. Nothing is
imported but what a configuration names.
"""

import importlib
from importlib.metadata import EntryPoint, entry_points

from bayplan.authoring.hooks import PolicyError

GROUP = "bayplan.policies"


def built_ins() -> dict[str, str]:
    """Module of each policy that comes with Bayplan, by name."""
    # Looked up by name: the built-ins use what authors use, and so stand above this room.
    names: dict[str, str] = importlib.import_module("bayplan.policies").BUILT_INS
    return names


def profile_policies() -> dict[str, str]:
    """Module of each policy of kube-scheduler's default profile, by its name there and in its order."""
    names: dict[str, str] = importlib.import_module("bayplan.policies.default_profile").DEFAULT_PROFILE
    return names


def known_names() -> set[str]:
    """Every name that a configuration may use: built-ins, those of the default profile, entry points."""
    return {*built_ins(), *profile_policies(), *entry_points(group=GROUP).names}


def find_named(name: str) -> str | None:
    """``module:Class`` of the policy of that name; ``None`` where nobody offers one.

    `PolicyError` where two do: which of them decides about pods must not depend on what is installed.
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
