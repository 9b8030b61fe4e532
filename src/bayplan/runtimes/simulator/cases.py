"""Reads a recording as cases: one question at a time, each with everything that its answer needs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Raw

from bayplan.engine.guard import Attempt, Failure
from bayplan.recording.clusters import ClusterReader
from bayplan.recording.lines import (
    AnyLine,
    Asked,
    Bound,
    Cluster,
    Committed,
    Configuration,
    Dropped,
    Header,
    Item,
    ObjectsChanged,
    RecordingError,
    Seen,
    SourceReading,
    Unjudged,
    Whole,
)
from bayplan.recording.reader import Damage, read_lines
from bayplan.recording.readings import ReadingsReader
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings
from bayplan.wire import v1
from bayplan.wire.codec import decode, encode


@dataclass(frozen=True)
class Case:
    """One recorded question to the policies, and the recorded answer."""

    number: int
    """Its place among the questions of the recording, from 1."""
    said: Asked | Committed
    configuration: Configuration
    cluster: Snapshot | None
    readings: Readings
    body: bytes = b""
    """The request, as far as it was kept; the commit of a bind has none."""

    @property
    def pod(self) -> str:
        """``namespace/name``."""
        return self.said.pod if isinstance(self.said, Asked) else self.said.pod.key

    @property
    def verb(self) -> str:
        """The verb; ``commit`` for the recheck before a bind."""
        return self.said.verb if isinstance(self.said, Asked) else "commit"

    def attempt(self) -> Attempt:
        """The attempt as recorded: its time, its turn, and the policies that were given up."""
        failures = {
            policy: Failure(msgspec.convert(given.kind, _KIND), given.text, given.summary)
            for policy, given in self.said.given_up.items()
        }
        return Attempt(given_up=failures, now=self.said.now, turn=self.said.turn)


_KIND = Failure.__annotations__["kind"]


@dataclass
class Recording:
    """A recording, read from its beginning to its end."""

    path: Path
    warnings: list[str] = field(default_factory=list)
    """What is missing from it, or cannot be read."""
    unjudged: int = 0
    """Requests that no policy had a say in."""
    bound: dict[str, str] = field(default_factory=dict)
    """Where pods were bound, by UID."""
    header: Header | None = None

    def __post_init__(self) -> None:
        self._number = 0
        self._forget()

    def _forget(self) -> None:
        self._clusters = ClusterReader()
        self._readings = ReadingsReader()
        self._configuration: Configuration | None = None
        self._items: dict[int, Raw] = {}
        self._lost = False

    def cases(self) -> Iterator[Case]:
        """Every question that can be asked again."""
        skipped = 0
        for line in read_lines(self.path):
            if isinstance(line, Damage):
                self._lose(str(line))
            elif isinstance(line, Header):
                self._forget()
                self.header = line
            elif isinstance(line, Seen):
                self._number += 1
                case = self._case(line)
                if case is None:
                    skipped += 1
                else:
                    yield case
            else:
                self._take(line)
        if skipped:
            self.warnings.append(f"{skipped} decisions after the damage cannot be asked again")

    def configurations(self) -> list[Configuration]:
        """Every configuration that decisions were made with, in order; each once."""
        found: list[Configuration] = []
        for line in read_lines(self.path):
            if isinstance(line, Configuration) and line not in found:
                found.append(line)
        if not found:
            raise RecordingError(f"{self.path}: no decision was recorded")
        return found

    def _take(self, line: AnyLine) -> None:
        if isinstance(line, Configuration):
            self._forget()
            self._configuration = line
        elif isinstance(line, Cluster | Whole | ObjectsChanged):
            self._follow(line)
        elif isinstance(line, SourceReading):
            self._readings.apply(line)
        elif isinstance(line, Item):
            self._items[line.number] = Raw(line.text.encode())
        elif isinstance(line, Bound):
            if not line.error:
                self.bound[line.uid] = line.node
        elif isinstance(line, Unjudged):
            self.unjudged += 1
        elif isinstance(line, Dropped):
            self.warnings.append(f"{line.count} decisions were not recorded: the disk was too slow")

    def _follow(self, line: Cluster | Whole | ObjectsChanged) -> None:
        if self._lost:
            return
        try:
            self._clusters.apply(line)
        except (LookupError, ValueError) as error:
            self._lose(f"a change of the cluster does not follow from what was before: {error}")

    def _lose(self, what: str) -> None:
        """Note a gap; up to the next configuration, which restates everything, no case is certain."""
        if not self._lost:
            self.warnings.append(what)
        self._lost = True

    def _case(self, line: Seen) -> Case | None:
        assert isinstance(line, Asked | Committed)
        if self._configuration is None or self._lost:
            return None
        cluster = None
        try:
            if not line.blind:
                cluster = self._clusters.snapshot().keeping(line.expecting)
            body = self._body(line) if isinstance(line, Asked) else b""
            readings = self._readings.of(line.sources)
        except (LookupError, ValueError) as error:
            self._lose(f"a decision needs what the recording does not have: {error}")
            return None
        return Case(self._number, line, self._configuration, cluster, readings, body)

    def _body(self, line: Asked) -> bytes:
        if line.nodes is None:
            return bytes(line.request)
        args = decode(bytes(line.request), v1.ExtenderArgs)
        items = [self._items[number] for number in line.nodes.items]
        nodes = v1.NodeList(Raw(line.nodes.metadata.encode()), items)
        return encode(msgspec.structs.replace(args, nodes=nodes))
