"""One thing that is wrong: which trap, where, what exactly, and the edits that would cure it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from bayplan.kube.yaml import Document, Path

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Trap:
    """A way to go wrong that is known, and is the same wherever it is met."""

    id: str
    severity: Severity
    why: str
    """Why it bites."""
    versions: str
    """In which versions of Kubernetes."""
    fix: str
    """What to do."""


@dataclass(frozen=True)
class Put:
    """Give a key a value; a key that is not there yet comes after ``after``."""

    path: Path
    value: Any
    after: str = ""


@dataclass(frozen=True)
class Rename:
    """Call a key by another name."""

    path: Path
    name: str


@dataclass(frozen=True)
class Remove:
    """Take a key out."""

    path: Path


Repair = Put | Rename | Remove


@dataclass(frozen=True)
class Where:
    """``scheduler.yaml:12: extenders[0].httpTimeout``."""

    source: str
    line: int = 0
    """0 where there are no lines: in a cluster."""
    path: str = ""
    document: int = 0
    """Which document of the file; for repairs."""

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.path}" if self.path else place


@dataclass(frozen=True)
class Finding:
    """A trap that was met."""

    trap: Trap
    where: Where
    what: str
    severity: Severity
    repairs: tuple[Repair, ...] = field(default=(), repr=False)

    @property
    def id(self) -> str:
        """The stable name of the trap."""
        return self.trap.id

    @property
    def fixable(self) -> bool:
        """Whether ``--fix`` cures it; a whole Policy is converted."""
        return bool(self.repairs) or self.id == "policy-api"

    def told(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.id,
            "severity": self.severity,
            "file": self.where.source,
            "line": self.where.line,
            "path": self.where.path,
            "what": self.what,
            "why": self.trap.why,
            "versions": self.trap.versions,
            "fix": self.trap.fix,
            "fixable": self.fixable,
        }


def dotted(path: Path) -> str:
    """``extenders[0].tlsConfig.caFile``; keys with dots in them are put in brackets."""
    steps = []
    for step in path:
        plain = isinstance(step, str) and step.replace("_", "").replace("-", "").isalnum()
        steps.append(f".{step}" if plain else f"[{step}]" if isinstance(step, int) else f'["{step}"]')
    return "".join(steps).removeprefix(".")


@dataclass(frozen=True)
class Page:
    """One document of a file: what findings about it say of its place."""

    document: Document
    number: int = 0
    """Which document of the file."""
    embedded: bool = False
    """Part of a ConfigMap: its text cannot be edited in place."""

    @property
    def data(self) -> Any:
        """What is in it."""
        return self.document.data

    def where(self, path: Path = ()) -> Where:
        """The place of a value."""
        return Where(self.document.source, self.document.line(path), dotted(path), self.number)

    def found(
        self,
        trap: Trap,
        path: Path,
        what: str,
        *,
        severity: Severity | None = None,
        repairs: tuple[Repair, ...] = (),
    ) -> Finding:
        """A finding about a value of this document."""
        usable = () if self.embedded else repairs
        return Finding(trap, self.where(path), what, severity or trap.severity, usable)
