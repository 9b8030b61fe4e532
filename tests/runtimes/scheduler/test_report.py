"""Events and conditions: the same is counted, not written again, and too many are dropped and counted."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.client.errors import ApiError
from bayplan.kube.meta import NO_META
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.testing import make_pod

OURS = {"schedulerName": "ours"}
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
FULL = "0/1 nodes are available: 1 Insufficient cpu."


class Api:
    """Writes down what is written."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.events: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.versions: list[str | None] = []
        self.series: list[tuple[str, dict[str, Any]]] = []

    async def create(self, path: str, body: dict[str, Any], **_: object) -> bytes:
        self.events.append(body)
        return b"{}"

    async def patch(self, path: str, body: dict[str, Any], **_: object) -> bytes:
        if "status" in body:
            self.versions.append(body["metadata"].get("resourceVersion"))
        failure = self.script.pop(0) if self.script else None
        if failure is not None:
            raise failure
        if "series" in body:
            self.series.append((path, body["series"]))
        else:
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


def pod(*, generation: int = 0) -> Pod:
    made = make_pod("web", uid="u", spec=OURS)
    metadata = msgspec.structs.replace(made.metadata or NO_META, generation=generation)
    return msgspec.structs.replace(made, metadata=metadata)


async def test_a_bound_pod_has_its_event() -> None:
    stage = Stage()

    stage.reporter.scheduled(pod(), "n1")
    await stage.written()

    (event,) = stage.api.events
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned default/web to n1")
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert (event["reportingController"], event["reportingInstance"]) == ("ours", "ours-here")


async def test_an_event_that_had_to_wait_tells_when_it_was() -> None:
    stage = Stage()

    stage.reporter.scheduled(pod(), "n1")
    bound_by = datetime.now(UTC)
    await stage.written()

    (event,) = stage.api.events
    assert datetime.fromisoformat(event["eventTime"]) <= bound_by


async def test_the_same_refusal_again_is_counted_in_the_first_event() -> None:
    stage = Stage()
    for _ in range(5):
        stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
        await stage.written()

    assert stage.notes() == [("FailedScheduling", FULL)]
    assert [(path, body["count"]) for path, body in stage.api.series] == [
        (f"{EVENTS}/{stage.api.events[0]['metadata']['name']}", 2)
    ], "written when it becomes a series, and then only counted"
    assert len(stage.api.statuses) == 1


async def test_another_message_is_another_event_and_the_first_one_counts_on() -> None:
    stage = Stage()
    for message in (FULL, "other", FULL, "other"):
        stage.reporter.unscheduled(pod(), "Unschedulable", message)
        await stage.written()

    assert [note for _, note in stage.notes()] == [FULL, "other"]
    assert [body["count"] for _, body in stage.api.series] == [2, 2]


async def test_a_refusal_after_some_minutes_is_a_new_event() -> None:
    stage = Stage()
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()
    stage.clock.now += 361
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()

    assert len(stage.api.events) == 2
    assert stage.api.series == []


async def test_an_event_that_was_said_again_before_it_was_written_is_written_once_with_its_count() -> None:
    stage = Stage()
    for _ in range(3):
        stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()

    (event,) = stage.api.events
    assert event["series"]["count"] == 3
    assert stage.api.series == []


async def test_the_api_server_is_not_asked_again_and_again_where_it_takes_no_patches() -> None:
    stage = Stage(None, ApiError(403, "no", doing="patching"))
    for _ in range(5):
        stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
        await stage.written()

    assert stage.results == {("event", "written"): 1, ("event", "failed"): 1, ("condition", "written"): 1}


async def test_who_is_kept_out_has_a_condition_and_no_event() -> None:
    stage = Stage()
    stage.reporter.kept_out(pod(), "no quota is free")
    stage.reporter.kept_out(pod(), "no quota is free")
    await stage.written()

    (status,) = stage.api.statuses
    (condition,) = status["conditions"]
    assert (condition["reason"], condition["message"]) == ("SchedulingGated", "no quota is free")
    assert stage.api.events == []


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


async def test_a_condition_says_which_generation_of_the_pod_was_judged_and_is_said_again_of_the_next() -> (
    None
):
    stage = Stage()
    for generation in (1, 1, 2):
        stage.reporter.unscheduled(pod(generation=generation), "Unschedulable", FULL)
    await stage.written()

    assert [status["conditions"][0]["observedGeneration"] for status in stage.api.statuses] == [1, 2]


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


async def test_of_a_pod_that_has_its_node_by_now_nothing_is_written_any_more() -> None:
    stage = Stage()
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    stage.reporter._waits = lambda _: None
    await stage.written()

    assert stage.api.statuses == []


async def test_a_condition_goes_to_the_pod_as_it_was_judged_or_as_it_is_after_a_conflict() -> None:
    conflict = ApiError(409, "the object has been modified", doing="patching")
    stage = Stage(conflict, conflict)
    versions = iter("123")
    stage.reporter._waits = lambda _: at_version(next(versions))
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    await stage.written()

    assert stage.api.versions == ["1", "2", "3"]
    assert len(stage.api.statuses) == 1
    assert stage.results["condition", "written"] == 1


async def test_after_a_conflict_an_old_reason_is_not_written_over_a_new_one() -> None:
    stage = Stage(ApiError(409, "the object has been modified", doing="patching"))
    stage.reporter.unscheduled(pod(), "Unschedulable", FULL)
    stage.reporter.unscheduled(pod(), "Unschedulable", "other")
    await stage.written()

    assert [status["conditions"][0]["message"] for status in stage.api.statuses] == ["other"]


def at_version(version: str) -> Pod:
    web = pod()
    assert web.metadata is not None
    return msgspec.structs.replace(
        web, metadata=msgspec.structs.replace(web.metadata, resource_version=version)
    )


async def test_a_surprise_with_one_report_does_not_end_all_others() -> None:
    stage = Stage(RuntimeError("not what a client raises"))
    other = make_pod("other", uid="o", spec=OURS)

    stage.reporter.kept_out(pod(), "not approved")
    stage.reporter.kept_out(other, "not approved")
    await stage.written()

    assert stage.results == {("condition", "failed"): 1, ("condition", "written"): 1}
    stage.reporter.kept_out(pod(), "not approved")
    await stage.written()
    assert len(stage.api.statuses) == 2, "what was not written is tried again"


async def test_of_a_pod_that_is_gone_nothing_is_kept() -> None:
    stage = Stage()
    stage.reporter._waits = lambda _: None

    stage.reporter.unscheduled(pod(), "SchedulerError", "too late")
    await stage.written()

    assert stage.api.statuses == []
    assert stage.reporter._status_told == {}


async def test_bad_news_overtakes_good_news_while_pods_are_being_bound() -> None:
    stage = Stage()
    stage.reporter.busy = lambda: True
    for number in range(20):
        stage.reporter.scheduled(make_pod(f"bound-{number}"), "node")
    stage.reporter.unscheduled(make_pod("refused"), "Unschedulable", FULL)
    await stage.written()

    names = [event["regarding"]["name"] for event in stage.api.events]
    assert names == ["refused", *(f"bound-{number}" for number in range(20))]
