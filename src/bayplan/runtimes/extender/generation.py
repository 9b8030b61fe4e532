"""A generation of an extender: with the verbs that answer by its policies."""

from dataclasses import dataclass, field

from bayplan.runtimes.extender.at_once import AtOnce
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.runtimes.generation import Generation as Policies
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.sources import Readings


@dataclass(kw_only=True)
class Generation(Policies):
    """One set of policies, and how answers are given."""

    verbs: Verbs
    at_once: AtOnce = field(init=False)
    """What is known without asking its policies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_once = AtOnce(self.verbs, asks_sources=bool(self.sources.asked))

    async def readings(self, verb: str, body: bytes, workers: Workers) -> Readings:
        """What sources say. Those that are asked about a pod are waited for here, and hold no thread."""
        if not self.sources.asked:
            return self.sources.current
        # In their threads, since asyncio's are shared with logins that may hang.
        pod, names, wanted = await workers.run(lambda _: self.verbs.about(verb, body))
        return await self.sources.about(pod, names, wanted=wanted)
