"""A generation of an extender: its policies with their verbs and known answers."""

from dataclasses import dataclass, field

from bayplan.runtimes.extender.at_once import AtOnce
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.runtimes.generation import Generation as Policies
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.sources import Readings


@dataclass(kw_only=True)
class Generation(Policies):
    """One set of policies, and what answers requests by them."""

    verbs: Verbs
    at_once: AtOnce = field(init=False)
    """Answers requests from known verdicts, without asking the policies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_once = AtOnce(self.verbs, asks_sources=bool(self.sources.asked))

    async def readings(self, verb: str, body: bytes, workers: Workers) -> Readings:
        """The readings of the sources; awaits the sources that are queried per pod, without a thread."""
        if not self.sources.asked:
            return self.sources.current
        # Decoded in a policy thread: asyncio's own threads are shared with logins that may hang.
        pod, names, wanted = await workers.run(lambda _: self.verbs.about(verb, body))
        return await self.sources.about(pod, names, wanted=wanted)
