"""The Dockerfile as data, so that tests run and check its own lines and not a copy of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "image" / "Dockerfile"


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``RUN``, and what follows it."""

    keyword: str
    text: str

    @property
    def words(self) -> list[str]:
        """The list of an exec form; what is no list of texts is an error."""
        found = json.loads(self.text)
        assert isinstance(found, list)
        return found


@dataclass(frozen=True)
class Stage:
    """What stands between one ``FROM`` and the next."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, keyword: str) -> list[Instruction]:
        """Every instruction of a kind, in order."""
        return [one for one in self.instructions if one.keyword == keyword]

    def one(self, keyword: str) -> Instruction:
        """The only instruction of a kind."""
        (found,) = self.all(keyword)
        return found

    def pairs(self, keyword: str) -> dict[str, str]:
        """The ``NAME=value`` of all instructions of a kind, without quotes."""
        text = " ".join(one.text for one in self.all(keyword))
        return {name: quoted or plain for name, quoted, plain in _PAIR.findall(text)}


_PAIR = re.compile(r'([\w.]+)=(?:"([^"]*)"|(\S*))')


def stages(text: str) -> tuple[list[Instruction], list[Stage]]:
    """What stands before the first stage, and the stages."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parsed = [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]
    starts = [index for index, one in enumerate(parsed) if one.keyword == "FROM"]
    ends = [*starts[1:], len(parsed)]
    found = []
    for start, end in zip(starts, ends, strict=True):
        base, _, name = parsed[start].text.partition(" AS ")
        found.append(Stage(base, name, tuple(parsed[start + 1 : end])))
    return parsed[: starts[0]], found
