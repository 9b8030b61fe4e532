"""Events and conditions: the same is not written twice, and too many are dropped and counted."""

import asyncio
from collections import Counter
from typing import Any

from bayplan.client.errors import ApiError
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.testing import make_pod

OURS = {"schedulerName": "ours"}
FULL = "0/1 nodes are available: 1 Insufficient cpu."


class Api:
    """Writes down what is written."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.events: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []

    async def create(self, path: str, body: dict[str, Any], **_: object) -> bytes:
        self.events.append(body)
        return b"{}"

    async def patch(self, path: str, body: dict[str, Any], **_: object) -> bytes:
        failure = self.script.pop(0) if self.script else None
        if failure is not None:
            raise failure
        self.statuses.append(body["status"])
        return b"{}"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Stage:
    def __init__(self, *script: Exception | None, limit: int = 100) -> None:
        self.api, self.clock, self.results = Api(*script), Clock(), Counter[tuple[str, str]]()
        self.reporter = Reporter(
            self.api,  # type: ignore[arg-type]
            instance="here",
            on_result=lambda kind, result: self.results.update([(kind, result)]),
            limit=limit,
            clock=self.clock,
        )

    async def written(self) -> None:
        task = asyncio.create_task(self.reporter.run())
        await self.reporter.close(timeout_seconds=5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def notes(self) -> list[tuple[str, str]]:
        return [(event["reason"], event["note"]) for event in self.api.events]


def pod() -> Pod:
    return make_pod("web", uid="u", spec=OURS)


async def test_a_bound_pod_has_its_event() -> None:
    stage = Stage()

    stage.reporter.scheduled(pod(), "n1")
    await stage.written()

    (event,) = stage.api.events
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned default/web to n1")
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert (event["reportingController"], event["reportingInstance"]) == ("ours", "ours-here")


async def test_the_same_refusal_again_is_not_written_again_until_people_could_have_lost_it() -> None:
    stage = Stage()
    for _ in range(3):
        stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()
    assert stage.notes() == [("FailedScheduling", FULL)]
    assert len(stage.api.statuses) == 1

    stage.reporter.unscheduled(pod(), "Unschedulable", "other")
    stage.clock.now += 700
    stage.reporter.unscheduled(pod(), "Unschedulable", "other")
    await stage.written()

    assert [note for _, note in stage.notes()] == [FULL, "other", "other"]
    assert len(stage.api.statuses) == 2


async def test_a_condition_says_since_when_only_the_first_time() -> None:
    stage = Stage()
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    stage.reporter.unscheduled(pod(), "SchedulerError", "broken", nominated_node="n1")
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL, nominated_node="")
    await stage.written()

    first, second, third = (status["conditions"][0] for status in stage.api.statuses)
    assert first.pop("lastTransitionTime")
    assert first == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": FULL,
    }
    assert "lastTransitionTime" not in second
    assert second["reason"] == "SchedulerError"
    assert third["message"] == FULL
    nominated = [status.get("nominatedNodeName", "unsaid") for status in stage.api.statuses]
    assert nominated == ["unsaid", "n1", None]


async def test_a_condition_that_could_not_be_written_is_tried_again() -> None:
    stage = Stage(ApiError(500, "no", doing="patching"))
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()
    assert stage.results["condition", "failed"] == 1

    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()

    assert len(stage.api.statuses) == 1


async def test_beyond_the_limit_reports_are_dropped_and_counted() -> None:
    stage = Stage(limit=2)
    for number in range(5):
        stage.reporter.scheduled(make_pod(f"p{number}", spec=OURS), "n1")

    await stage.written()

    assert stage.results == {("event", "dropped"): 3, ("event", "written"): 2}


async def test_a_victim_is_told_for_whom() -> None:
    stage = Stage()
    victim = make_pod("victim", node="n1")

    stage.reporter.preempted(victim, by=pod())
    await stage.written()

    assert stage.notes() == [("Preempted", "Preempted by pod u on node n1")]
    assert stage.api.events[0]["reportingController"] == "ours"
