"""Runs ``gang`` hooks for all pods of a namespace in one go, and stops after an overrun.

A hook may be slow for one pod of many, and the others must not wait for that. So the pod whose turn it is
comes first, answers from before the overrun are kept, and only the pod that the hook was slow for gets none.
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

# After a restart ten thousand pods of a namespace may be new; other namespaces get their turns in between.
_AT_MOST_SECONDS = 1.0


@dataclass(frozen=True)
class Asked:
    """The result for the pod whose turn it is."""

    problem: str = ""
    """How the hook failed for this pod."""
    whole: bool = True
    """Whether hooks ran for all other pods too, which may include members of its gang."""


class Naming:
    """Runs ``gang`` hooks, and writes their answers into the roster."""

    def __init__(
        self,
        generation: Callable[[], Generation],
        roster: Roster,
        *,
        workers: Workers,
        ran: Callable[[Attempt], object],
    ) -> None:
        """``ran`` gets each attempt with the hooks that ran."""
        self._generation = generation
        self._roster = roster
        self._workers = workers
        self._ran = ran
        self._warnings = Sparingly()

    async def ask(self, mine: Pod) -> Asked:
        """Find the gangs of all pods in the namespace of this pod, whose turn it is."""
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
            # A reload replaced the policies meanwhile: the answers are outdated.
            return Asked()
        self._roster.write(answers)
        problems = [said.error for pod, said in answers if pod.uid == mine.uid]
        unanswered = late if pods[0].uid == mine.uid else ""
        return Asked(problems[0] if problems else unanswered, whole=len(answers) == len(pods))


class _Questions:
    """Runs hooks for one pod after another in a policy thread; after an overrun in another one."""

    def __init__(self, roster: Roster, pods: Sequence[Pod], *, ran: Callable[[Attempt], object]) -> None:
        self._roster = roster
        self._pods = pods
        self._ran = ran
        self._before: list[Answer] = []
        self._now: list[Answer] = []

    @property
    def answers(self) -> list[Answer]:
        """The answers so far, for the first pods."""
        return [*self._before, *self._now]

    def __call__(self, attempt: Attempt) -> None:
        # A list for each attempt: an abandoned thread may come back, and then appends to its own.
        answers: list[Answer] = []
        self._before, self._now = self.answers, answers
        pods = self._pods[len(self._before) :]
        if attempt.given_up:
            # The hook was slow for the first of the rest; for the others it may be fast.
            pods = pods[:1]
        until = time.monotonic() + _AT_MOST_SECONDS
        for pod in pods:
            answers.extend(self._roster.ask([pod], attempt))
            if time.monotonic() >= until:
                break
        self._ran(attempt)
