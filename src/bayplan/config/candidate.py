"""A candidate configuration: its policies and sources, in the cluster of the live one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bayplan.authoring.editions import anew
from bayplan.config.check import dry_run
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError
from bayplan.config.v1 import BayplanConfiguration

COUNTED = frozenset({"apiVersion", "kind", "policies", "sources"})
"""The sections of a candidate's file that an extender uses."""
_CONFIGURATIONS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Candidate:
    """A configuration that is evaluated beside the live one, without effect."""

    file: str
    """Its file as the user wrote it."""
    loaded: Loaded
    problems: Sequence[str] = ()
    """The problems that its dry run found."""
    counted: frozenset[str] = COUNTED
    """The sections of its file that are used."""

    @property
    def ignored(self) -> str:
        """The sections of its file that are ignored, in one line; ``""`` if there are none."""
        fields = msgspec.structs.fields(BayplanConfiguration)
        given = [
            field.encode_name
            for field in fields
            if field.encode_name not in self.counted
            and getattr(self.loaded.config, field.name) != field.default
        ]
        if not given:
            return ""
        return f"shadow: {', '.join(given)} of {self.file} is ignored: only its {self._heeded} count"

    @property
    def _heeded(self) -> str:
        return "policies, sources and profiles" if "scheduler" in self.counted else "policies and sources"


def candidate_path(live: Loaded) -> Path | None:
    """The path of the candidate that a configuration names; ``None`` if it names none."""
    named = live.config.shadow.config
    return live.base / named if named else None


def candidate_source(path: Path) -> tuple[list[str], Flags]:
    """The arguments of `load_all` for the file: as a policy file, or as a configuration."""
    if path.suffix in _CONFIGURATIONS:
        return [], Flags(config=path)
    return [str(path)], Flags()


def load_candidate(
    path: Path,
    live: Loaded,
    *,
    strict: bool = False,
    check: Callable[..., list[str]] = dry_run,
    counted: frozenset[str] = COUNTED,
) -> Candidate:
    """Load the candidate, with a dry run as for the live one; raises `ConfigError` if it can never work.

    With ``strict`` also for what the dry run found. It is imported apart from the live one: both may use the
    same files. ``check`` is that dry run.
    """
    if not path.is_file():
        raise ConfigError(f"shadow: there is no file {path}: name a configuration, or a file with policies")
    files, flags = candidate_source(path)
    with anew():
        loaded = load_all(files, flags)
        # Which calls it gets, and its time limits, are those of the live configuration.
        config = msgspec.structs.replace(
            loaded.config, cluster=live.config.cluster, extender=live.config.extender
        )
        problems = check(replace(loaded, config=config), where=f"{path}: ")
        if strict and problems:
            raise ConfigError("; ".join(problems))
    return Candidate(path.name, loaded, problems, counted)
