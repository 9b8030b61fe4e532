"""Asks which gangs pods are in: about all of a namespace in one go, and after an overrun about nobody more.

A hook is somebody's code, and may be slow for one pod of many. That must not be what all others wait for. So
the pod whose turn it is comes first, every answer that was given before the overrun is kept, and only the pod
that the hook was slow for does without it.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.ops.logs import Sparingly
from bayplan.runtimes.scheduler.gang_judge import PATIENCE_SECONDS
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.roster import Answer, Roster
from bayplan.runtimes.workers import RequestOverrun, Workers

log = logging.getLogger(__name__)

# Ten thousand pods of one namespace may be new, after a restart: other namespaces have their turns between.
_AT_MOST_SECONDS = 1.0


@dataclass(frozen=True)
class Asked:
    """What came of asking, for the pod whose turn it is."""

    problem: str = ""
    """How its own hook failed."""
    whole: bool = True
    """Whether all others were asked about, too: members of its gang may be among them."""


class Naming:
    """Fills the roster."""

    def __init__(
        self,
        generation: Callable[[], Generation],
        roster: Roster,
        *,
        workers: Workers,
        ran: Callable[[Attempt], object],
    ) -> None:
        """``ran`` is told of hooks."""
        self._generation = generation
        self._roster = roster
        self._workers = workers
        self._ran = ran
        self._warnings = Sparingly()

    async def ask(self, mine: Pod) -> Asked:
        """Find out who is in which gang, of the namespace of the pod whose turn it is."""
        pods = self._roster.to_ask(mine.namespace, first=mine.uid)
        if not pods:
            return Asked()
        generation = self._generation()
        questions, late = _Questions(self._roster, pods, ran=self._ran), ""
        try:
            if self._roster.hooked(pods):
                await self._workers.run(questions, patience_seconds=PATIENCE_SECONDS)
            else:
                questions(Attempt())
        except RequestOverrun as error:
            late = str(error)
        answers = questions.answers
        for pod, said in answers:
            for hook, failure in said.failures:
                text = f"{failure.text} (pod {pod.key}, gang)"
                self._warnings.warn(log, f"{hook.title} {failure.kind}", text, pod=pod.key)
        if self._generation() is not generation:
            # The policies are others by now, and so may be what they say.
            return Asked()
        self._roster.write(answers)
        problems = [said.error for pod, said in answers if pod.uid == mine.uid]
        unanswered = late if pods[0].uid == mine.uid else ""
        return Asked(problems[0] if problems else unanswered, whole=len(answers) == len(pods))


class _Questions:
    """Asks about one pod after another, in a policy thread, and in another one after an overrun."""

    def __init__(self, roster: Roster, pods: Sequence[Pod], *, ran: Callable[[Attempt], object]) -> None:
        self._roster = roster
        self._pods = pods
        self._ran = ran
        self._before: list[Answer] = []
        self._now: list[Answer] = []

    @property
    def answers(self) -> list[Answer]:
        """What was said up to now, of the first pods."""
        return [*self._before, *self._now]

    def __call__(self, attempt: Attempt) -> None:
        # A list for each try: a thread that was left behind may come back, and goes on with its own.
        answers: list[Answer] = []
        self._before, self._now = self.answers, answers
        pods = self._pods[len(self._before) :]
        if attempt.given_up:
            # The first of the rest is whom the hook was slow for. For the others it may be quick.
            pods = pods[:1]
        until = time.monotonic() + _AT_MOST_SECONDS
        for pod in pods:
            answers.extend(self._roster.ask([pod], attempt))
            if time.monotonic() >= until:
                break
        self._ran(attempt)
