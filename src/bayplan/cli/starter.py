"""The files that ``bayplan init`` writes: texts from `starters/`, put together.

A starter is a part of a configuration: ``policies``, the ``sources`` they read, and, for kube-scheduler's
side, whether it needs ``bindVerb`` and which ``managedResources``. What all have in common is in `frame/`.
"""

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from bayplan.cli.suggestion import POLICIES_MEANT, nearest
from bayplan.policies import BUILT_INS

_TEXTS = files("bayplan.cli") / "starters"
_FRAME = ("cluster.json", "scheduler.yaml", "bayplan.yaml")
_SECTION = re.compile(r"^(\w+):.*\n", re.MULTILINE)
_TOGETHER = ("gang", "gangs", "coscheduling", "cosched", "podgroup")
_BIND = "  bindVerb: bind               # the commit point: rules are checked again, devices are given out\n"

Sections = dict[str, str]


class UnknownPolicyError(ValueError):
    """Nobody has written a starter of that name; the text says what there is."""


def names() -> list[str]:
    """What ``--policy`` takes: ``most-available-cpu`` for `MostAvailableCPU`, and ``expressions``."""
    kebab = (re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower() for name in BUILT_INS)
    return sorted([*kebab, "expressions"])


def first_files() -> dict[str, str]:
    """A policy of one's own: the policy, its test, and what serves it."""
    first = _TEXTS / "first"
    own = {name: (first / f"{name}.txt").read_text() for name in ("policy.py", "test_policy.py")}
    return own | _framed([_sections((first / "policies.yaml").read_text())])


def policy_files(given: Iterable[str]) -> dict[str, str]:
    """What serves these built-ins, each given as ``Cost`` or ``cost``."""
    found = dict.fromkeys(_known(name) for name in given)
    return _framed([_sections((_TEXTS / f"{name}.yaml").read_text()) for name in found])


def write_files(directory: Path, texts: dict[str, str], *, force: bool) -> list[Path]:
    """Write them; nothing is written when one of them is there already, unless ``force``."""
    paths = {directory / name: text for name, text in texts.items()}
    if not force:
        for path in paths:
            if path.exists():
                raise FileExistsError(path)
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        path.write_text(text)
    return list(paths)


def _known(given: str) -> str:
    plain = re.sub("[-_]", "", given).lower()
    for name in names():
        if name.replace("-", "") == plain:
            return name
    if plain in _TOGETHER:
        raise UnknownPolicyError(
            f"no policy {given!r}: gangs need none; `bayplan schedule` heeds labels of the pods,"
            " see docs/how-to/gangs.md"
        )
    raise UnknownPolicyError(f"no policy {given!r}{nearest(given.lower(), names(), POLICIES_MEANT)}")


def _sections(text: str) -> Sections:
    """The text under each key at the margin; comments before the first key belong to ``policies``."""
    about, *rest = _SECTION.split(text)
    found = dict(zip(rest[::2], rest[1::2], strict=True))
    return found | {"policies": about + found["policies"]}


def _framed(starters: Sequence[Sections]) -> dict[str, str]:
    sources = "".join(starter.get("sources", "") for starter in starters)
    bind = any("bindVerb" in starter for starter in starters)
    # With managedResources, kube-scheduler would not ask about the pods of the other policies.
    managed = starters[0].get("managedResources", "") if len(starters) == 1 else ""
    parts = {
        "sources": f"sources:\n{sources}" if sources else "",
        "policies": "".join(starter["policies"] for starter in starters),
        "bind": _BIND if bind else "",
        "managed": f"  managedResources:\n{managed}" if managed else "",
    }
    frame = {name: (_TEXTS / "frame" / name).read_text() for name in _FRAME}
    return {name: Template(text).substitute(parts) for name, text in frame.items()}
