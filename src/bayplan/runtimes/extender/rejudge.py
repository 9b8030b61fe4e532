"""An answered request, for the candidate configuration to judge again."""

from datetime import datetime

import msgspec
from msgspec import Struct

from bayplan.engine.cycle import Question
from bayplan.engine.decision import Decision
from bayplan.engine.differ import ToWire
from bayplan.runtimes.extender.question import question_of
from bayplan.runtimes.extender.verbs import Answer
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings
from bayplan.wire.scale import to_wire


class Call(Struct, frozen=True):
    """A request, the answer to it, and the cluster and readings that the answer is based on."""

    verb: str
    body: bytes
    said: Answer
    cluster: Snapshot | None
    readings: Readings
    now: datetime

    @property
    def live(self) -> Decision | None:
        """The decision; ``None`` if no policy applies to the pod."""
        return self.said.judged.decision if self.said.judged is not None else None

    @property
    def number(self) -> int:
        """The decision's number in the journal; 0 if there is none."""
        return self.said.judged.number if self.said.judged is not None else 0

    @property
    def size_bytes(self) -> int:
        """Size of the request, most of which is nodes where they are sent in full."""
        return len(self.body)

    @property
    def to_wire(self) -> ToWire:
        """Converts scores to those that kube-scheduler gets."""
        return to_wire

    async def question(self, workers: Workers) -> Question:
        """The question; decoded here if no live policy applies to the pod, since no node was decoded then."""
        if self.said.judged is not None:
            # What is known is known of the live policies.
            return msgspec.structs.replace(self.said.judged.question, known=None)
        return await workers.run(lambda _: question_of(self.body, self.cluster, self.readings, self.now))
