"""Checks that the source columns which policies read exist."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayplan.authoring.registry import Policy
from bayplan.config.load import ConfigError, place
from bayplan.kube.yaml import Document, suggest
from bayplan.snapshot.sources import Latch, Source

Step = str | int


def read_by(policy: Policy) -> list[Source]:
    """The source columns that a policy declares."""
    named = (c.column if isinstance(c, Latch) else c for c in policy.columns)
    return [column for column in named if isinstance(column, Source)]


def check_reads(
    policies: Sequence[Policy], known: Mapping[str, Collection[str] | None], document: Document | None
) -> None:
    """Raise `ConfigError` for a column that does not exist.

    ``known`` has the fields of each source; ``None`` if only its answers show them.
    """
    for policy in policies:
        for column in read_by(policy):
            if problem := _problem(column, known):
                where = _mentioned(document, policy, column)
                raise ConfigError(f"{where}policy {policy.name!r} reads {column.title}: {problem}")


def _problem(column: Source, known: Mapping[str, Collection[str] | None]) -> str:
    if column.source not in known:
        return f"no such source{suggest(column.source, known) if known else '; add it under `sources:`'}"
    fields = known[column.source]
    if fields is None or column.field in fields:
        return ""
    names = [f"{column.source}.{field}" if field else column.source for field in fields]
    return f"the source has no such column{suggest(column.name, names)}"


def _mentioned(document: Document | None, policy: Policy, column: Source) -> str:
    """``file.yaml:12: policies[0].args.source: ``, where the file names the column; else its policy."""
    if document is None:
        return ""
    entries = document.data.get("policies") or []
    for number, entry in enumerate(entries):
        for wanted in (column.name, column.source):
            for path in _paths(entry.get("args"), wanted):
                return f"{place(document, ('policies', number, 'args', *path))}: "
    for number, entry in enumerate(entries):
        use = entry.get("use") or ""
        if policy.name in (entry.get("name"), use, Path(use).stem, use.rpartition(":")[2]):
            return f"{place(document, ('policies', number))}: "
    return f"{document.source}: "


def _paths(data: Any, wanted: str) -> Iterator[tuple[Step, ...]]:
    """The paths of that text in the data."""
    if data == wanted:
        yield ()
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, part in parts:
        for rest in _paths(part, wanted):
            yield (step, *rest)
