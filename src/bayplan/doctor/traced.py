"""A text that is changed step by step, and knows which line of the file each of its lines was made of.

Findings about the corrected text are told with the lines of the file that people have before them.
"""

from dataclasses import dataclass, replace

from bayplan.doctor.finding import Finding
from bayplan.kube.yaml import Document, Path


@dataclass(frozen=True)
class Traced:
    """A text, and for each of its lines the line of the file."""

    text: str
    source: str
    """The file: findings about another one stay as they are."""
    lines: tuple[int, ...]

    @classmethod
    def of(cls, text: str, source: str) -> "Traced":
        """The text of the file itself."""
        return cls(text, source, tuple(range(1, len(text.split("\n")) + 1)))

    def changed(self, text: str) -> "Traced":
        """After a change in one place: what is new comes from the line that it replaces or follows."""
        old, new = self.text.split("\n"), text.split("\n")
        shorter = min(len(old), len(new))
        start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
        rest = shorter - start
        end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
        replaced = self.lines[start : len(old) - end] or self.lines[max(start - 1, 0) : max(start, 1)]
        made = len(new) - end - start
        lines = [replaced[min(n, len(replaced) - 1)] for n in range(made)]
        return Traced(text, self.source, (*self.lines[:start], *lines, *self.lines[len(old) - end :]))

    def rewritten(self, text: str, new: Document, old: Document) -> "Traced":
        """After everything was written anew: a value comes from what has its path, or that of a parent."""
        origin = replace(old, lines={_any_case(path): line for path, line in old.lines.items()})
        known: dict[int, int] = {}
        for path, line in new.lines.items():
            known.setdefault(line, origin.line(_any_case(path)))
        numbers = range(1, len(text.split("\n")) + 1)
        return Traced(text, self.source, tuple(known.get(number, 1) for number in numbers))

    def told(self, finding: Finding) -> Finding:
        """The finding about this text with the line of the file."""
        where = finding.where
        if where.source != self.source or not 0 < where.line <= len(self.lines):
            return finding
        return replace(finding, where=replace(where, line=self.lines[where.line - 1]))


def _any_case(path: Path) -> Path:
    """A Policy was read without regard to case."""
    return tuple(step.lower() if isinstance(step, str) else step for step in path)
