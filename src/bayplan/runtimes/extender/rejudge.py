"""A request that was answered, to be put to a candidate once more."""

from datetime import datetime

from msgspec import Struct

from bayplan.engine.cycle import Question
from bayplan.engine.decision import Decision
from bayplan.engine.differ import ToWire
from bayplan.runtimes.extender.verbs import Answer, question_of
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings
from bayplan.wire.scale import to_wire


class Call(Struct, frozen=True):
    """What was asked, seen and said."""

    verb: str
    body: bytes
    said: Answer
    cluster: Snapshot | None
    readings: Readings
    now: datetime

    @property
    def live(self) -> Decision | None:
        """What was decided; ``None`` where no policy was for the pod."""
        return self.said.judged.decision if self.said.judged is not None else None

    @property
    def number(self) -> int:
        """Of the decision in the journal; 0 where there is none."""
        return self.said.judged.number if self.said.judged is not None else 0

    @property
    def size_bytes(self) -> int:
        """The request: with full nodes it has them all."""
        return len(self.body)

    @property
    def to_wire(self) -> ToWire:
        """Scores as kube-scheduler is told them."""
        return to_wire

    async def question(self, workers: Workers) -> Question:
        """What was asked; read again where no live policy was for the pod, and nobody looked at the nodes."""
        if self.said.judged is not None:
            return self.said.judged.question
        return await workers.run(lambda _: question_of(self.body, self.cluster, self.readings, self.now))
