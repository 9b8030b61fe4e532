"""The live view: who waits for news, for how long, and what counts as news."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError
from bayplan.client.rest import ApiClient
from bayplan.kube.meta import NO_META
from bayplan.kube.node import NodeObject
from bayplan.snapshot.cluster import Snapshot
from bayplan.state import view as view_module
from bayplan.state.view import LiveView, list_cluster
from bayplan.testing import make_node, make_pod
from tests.client.serving import client_of, no_nodes, serving, write_kubeconfig
from tests.state.test_objects import claim_of, volume

POD = make_pod("waiting", uid="uid")


def make_view() -> LiveView:
    """A view of one node, with both lists done."""
    view = LiveView(None, max_age_seconds=60)  # type: ignore[arg-type]
    view._nodes.synced.set()
    view._pods.synced.set()
    node_store(view).put(make_node("n").object)
    return view


def node_store(view: LiveView) -> Any:
    return view._nodes._store


def pod_store(view: LiveView) -> Any:
    return view._pods._store


def now(view: LiveView) -> Snapshot:
    snapshot = view.current
    assert snapshot is not None
    return snapshot


async def test_a_view_of_nodes_alone_is_whole_without_pods() -> None:
    view = LiveView(None, max_age_seconds=60, nodes_only=True)  # type: ignore[arg-type]
    assert view.current is None

    view._nodes.synced.set()
    node_store(view).put(make_node("n").object)

    assert view.problem() == ""
    assert now(view).nodes.names == ["n"]
    assert not now(view).pods_known
    await view.listed()


async def test_who_comes_for_the_first_time_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 60.0)
    view = make_view()

    async with asyncio.timeout(10):
        assert not await view.news_for(POD, now(view))


async def test_news_that_came_during_the_judgement_count_at_once() -> None:
    view = make_view()
    seen = now(view)

    node_store(view).put(make_node("n", cpu=8).object)

    assert await view.news_for(POD, seen)


async def test_who_comes_again_without_a_reason_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 5.0)
    view = make_view()
    await view.news_for(POD, now(view))

    waiting = asyncio.create_task(view.news_for(POD, now(view)))
    await asyncio.sleep(0)
    pod_store(view).put(make_pod("p"))
    pod_store(view).put(make_pod("p", labels={"status": "told"}))
    await asyncio.sleep(0.01)
    assert not waiting.done(), "a pod that waits changes nothing for anybody"
    pod_store(view).put(make_pod("other", node="n"))

    assert await waiting


async def test_who_comes_again_after_something_happened_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 60.0)
    view = make_view()
    await view.news_for(POD, now(view))
    node_store(view).put(make_node("n", cpu=8).object)

    async with asyncio.timeout(10):
        assert not await view.news_for(POD, now(view))


def _heartbeat(version: str) -> NodeObject:
    node = make_node("n").object
    metadata = msgspec.structs.replace(node.metadata or NO_META, resource_version=version)
    return msgspec.structs.replace(node, metadata=metadata)


async def test_a_kubelet_that_is_still_there_does_not_end_a_wait_nor_is_it_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 5.0)
    view = make_view()
    node_store(view).put(_heartbeat("1"))
    await view.news_for(POD, now(view))
    told: list[str] = []
    view._on_news = lambda: told.append("news")

    waiting = asyncio.create_task(view.news_for(POD, now(view)))
    await asyncio.sleep(0)
    node_store(view).put(_heartbeat("2"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert told == []
    node_store(view).put(make_node("n", labels={"disk": "ssd"}).object)

    assert await waiting
    assert told == ["news"]


async def test_how_a_pod_is_on_its_node_is_nothing_that_others_wait_for() -> None:
    """Pods of a cluster that is in use tell of it all the time, and each touch of a pod is an attempt."""
    view = make_view()
    pod_store(view).put(make_pod("p", uid="p", node="n"))
    told: list[str] = []
    view._on_news = lambda: told.append("news")

    pod_store(view).put(make_pod("p", uid="p", node="n", phase="Unknown"))
    assert told == []

    pod_store(view).drop(make_pod("p", uid="p", node="n"))
    assert told == ["news"]


async def test_who_comes_again_and_is_another_one_itself_waits_the_shorter_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kube-scheduler writes on a pod why it has no node, and may ask again as soon as it hears of that."""
    monkeypatch.setattr(view_module, "_PATIENCE_LIMIT_SECONDS", 1_000.0)
    view = make_view()
    await view.news_for(POD, now(view))
    metadata = msgspec.structs.replace(POD.metadata or NO_META, resource_version="2")

    start = time.monotonic()
    async with asyncio.timeout(100):
        assert not await view.news_for(msgspec.structs.replace(POD, metadata=metadata), now(view))
    assert time.monotonic() - start >= 0.05


async def test_who_comes_first_waits_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SHARE", 0.0)
    view = make_view()
    pods = [make_pod(uid=f"uid-{number}") for number in range(2)]
    for pod in pods:
        await view.news_for(pod, now(view))
    waits = []

    for pod in pods:
        start = time.monotonic()
        assert not await view.news_for(pod, now(view))
        waits.append(time.monotonic() - start)

    assert waits[0] >= 0.2
    assert waits[1] >= 0.1


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SHARE", 0.0)
    view = make_view()
    view._patience_seconds = 0.01

    # The second one waits, and with that the patience is gone: 60 s would be noticed.
    for _ in range(3):
        await view.news_for(POD, now(view))
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 60.0)

    async with asyncio.timeout(10):
        assert not await view.news_for(POD, now(view))


async def test_a_flood_of_pods_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_REFUSED_LIMIT", 10)
    view = make_view()
    for number in range(100):
        await view.news_for(make_pod(uid=f"uid-{number}"), now(view))

    assert len(view._refused) == 10


class Api:
    """Stands in for the API server: gives pods and nodes, or says that there is none."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.while_reading: Callable[[], None] = lambda: None
        self.asked: list[str] = []
        self.answer: NodeObject | None = None

    async def pod(self, namespace: str, name: str) -> Any:
        self.while_reading()
        if name not in self.pods:
            raise ApiError(404, "not found", doing="reading")
        return self.pods[name]

    async def node(self, name: str, **_: object) -> Any:
        self.while_reading()
        self.asked.append(name)
        return self.answer or make_node(name).object


@pytest.mark.parametrize(
    ("there", "count"),
    [
        pytest.param(True, 1, id="it is there: it counts"),
        pytest.param(False, 0, id="it is gone: it counts no more"),
    ],
)
async def test_a_pod_by_assumption_that_a_list_did_not_have_is_looked_for(there: bool, count: int) -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    pod = make_pod("late", uid="l")
    view.cache.assume(pod, "n")
    if there:
        api.pods["late"] = make_pod("late", uid="l", node="n")

    pod_store(view).replace([])
    async with asyncio.timeout(5):
        while view.cache.doubtful:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

    assert now(view).nodes.count().tolist() == [count]
    # The watch tells of it from the beginning, and of its node at the end.
    for told in (make_pod("late", uid="l"), make_pod("late", uid="l", node="n")) if there else ():
        pod_store(view).put(told)
        assert now(view).nodes.count().tolist() == [1]
    assert view.cache.assumed_count == 0


async def test_a_node_that_the_watch_has_told_of_is_not_put_back_by_an_older_answer() -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    newer = make_node("new", labels={"from": "the watch"}).object
    api.while_reading = lambda: node_store(view).put(newer)

    assert await view.read(["new"])

    assert view.cache.node("new") is newer


@pytest.mark.parametrize(
    "there", [pytest.param(True, id="and is bound"), pytest.param(False, id="and is gone")]
)
async def test_a_pod_that_the_watch_has_told_of_is_not_put_back_by_an_older_answer(there: bool) -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    view.cache.assume(make_pod("late", uid="l"), "n")
    api.pods["late"] = make_pod("late", uid="l")

    def told() -> None:
        if there:
            pod_store(view).put(make_pod("late", uid="l", node="n"))
        else:
            pod_store(view).drop(make_pod("late", uid="l", node="n"))

    api.while_reading = told
    pod_store(view).replace([])
    async with asyncio.timeout(5):
        while view.cache.doubtful:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

    assert now(view).nodes.count().tolist() == [int(there)]


async def test_one_that_is_not_to_be_bound_any_more_and_is_gone_does_not_wait_for_ever() -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    pod = make_pod("late", uid="l")
    view.cache.assume(pod, "n")
    api.while_reading = lambda: view.cache.forget(pod)

    pod_store(view).replace([])
    async with asyncio.timeout(5):
        while view.cache.doubtful:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

    assert view.cache.pod_count == 0


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(lambda store, old: store.drop(old), id="it is gone"),
        pytest.param(lambda store, old: store.put(old), id="it has failed"),
        pytest.param(lambda store, _: store.put(make_pod("db-0", uid="old", node="m")), id="it is there yet"),
    ],
)
async def test_late_news_of_the_pod_before_it_do_not_free_the_place_of_a_pod(
    late: Callable[[Any, Any], None],
) -> None:
    """A pod of a StatefulSet is made anew under its name, and bound before our watch knows of either."""
    view = make_view()
    view.cache.assume(make_pod("db-0", uid="new"), "n")

    late(pod_store(view), make_pod("db-0", uid="old", phase="Failed"))

    assert now(view).nodes.count().tolist() == [1]
    assert view.cache.assumed_uids == {"new"}


async def test_a_pod_that_the_watch_tells_of_after_ours_is_another_one() -> None:
    view = make_view()
    view.cache.assume(make_pod("db-0", uid="ours"), "n")
    pod_store(view).put(make_pod("db-0", uid="ours"))

    pod_store(view).put(make_pod("db-0", uid="newer"))

    assert now(view).nodes.count().tolist() == [0]
    assert view.cache.assumed_uids == set()


@pytest.mark.parametrize(
    ("there", "count"),
    [
        pytest.param("ours", 1, id="the list was older"),
        pytest.param("newer", 0, id="ours has come and gone"),
    ],
)
async def test_a_list_that_has_another_pod_of_the_name_is_looked_into(there: str, count: int) -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    view.cache.assume(make_pod("db-0", uid="ours"), "n")
    api.pods["db-0"] = make_pod("db-0", uid=there)

    pod_store(view).replace([make_pod("db-0", uid="other")])
    async with asyncio.timeout(5):
        while view.cache.doubtful:  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0)

    assert now(view).nodes.count().tolist() == [count]
    assert view.cache.assumed_uids == ({"ours"} if count else set())


class Followed:
    """Writes down which pods came and went, by UID."""

    def __init__(self) -> None:
        self.here: set[str] = set()

    def pod_is(self, pod: Any) -> None:
        self.here.add(pod.uid)

    def pod_gone(self, pod: Any) -> None:
        self.here.discard(pod.uid)

    def told(self, news: frozenset[str]) -> None:
        pass


async def test_a_list_tells_also_of_the_pod_that_had_the_name_of_another_one() -> None:
    followed = Followed()
    view = LiveView(None, max_age_seconds=60, follower=followed)  # type: ignore[arg-type]
    pod_store(view).replace([make_pod("web", uid="first"), make_pod("gone", uid="gone")])

    pod_store(view).replace([make_pod("web", uid="second")])

    assert followed.here == {"second"}


async def test_a_node_that_is_deleted_while_it_is_read_does_not_come_back() -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    api.while_reading = lambda: node_store(view).drop(make_node("ghost").object)

    assert not await view.read(["ghost"])

    assert list(now(view).nodes.names) == ["n"]


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_what_names_no_node_is_not_looked_for(name: str) -> None:
    """The path of a node without a name is that of all nodes, which the API server would list."""
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]

    assert not await view.read([name])

    assert api.asked == []


async def test_another_object_than_the_node_that_was_asked_for_is_not_taken_for_a_node() -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    api.answer = NodeObject()

    assert not await view.read(["ghost"])

    assert list(now(view).nodes.names) == ["n"]


async def test_a_node_that_a_list_has_no_more_does_not_come_back_by_an_older_answer() -> None:
    """It was deleted before the list, so no watch from there on will ever tell of it."""
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    api.while_reading = lambda: node_store(view).replace([make_node("n").object])

    assert not await view.read(["ghost"])

    assert list(now(view).nodes.names) == ["n"]


async def test_a_node_that_came_with_a_list_while_it_was_read_is_found() -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]
    listed = make_node("new", labels={"from": "the list"}).object
    api.while_reading = lambda: node_store(view).replace([make_node("n").object, listed])

    assert await view.read(["new"])

    assert view.cache.node("new") is listed


@pytest.mark.parametrize(
    ("status", "level"),
    [
        pytest.param(403, "WARNING", id="we may not: somebody has to mend that"),
        pytest.param(404, "INFO", id="it is gone again"),
    ],
)
async def test_a_node_that_cannot_be_read_is_told_of(
    status: int, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    view, api = make_view(), Api()
    view._client = api  # type: ignore[assignment]

    def refuse() -> None:
        raise ApiError(status, 'cannot get resource "nodes"', doing="reading node ghost")

    api.while_reading = refuse

    with caplog.at_level("INFO"):
        assert not await view.read(["ghost"])

    (said,) = [record for record in caplog.records if "ghost is not in view" in record.message]
    assert said.levelname == level
    assert 'cannot get resource "nodes"' in said.message


@pytest.mark.parametrize(
    ("written", "asked_later", "shown"),
    [
        pytest.param(10, True, "", id="written before: an older past was restored"),
        pytest.param(10, False, "data", id="written after the list was asked for"),
        pytest.param(4, True, "data", id="not written yet"),
    ],
)
async def test_what_was_written_on_a_volume_ends_with_a_list_that_would_have_it(
    written: int, asked_later: bool, shown: str
) -> None:
    view = LiveView(None, max_age_seconds=60, objects=("PersistentVolume",))  # type: ignore[arg-type]
    informer = view._objects["PersistentVolume"]
    free = volume("disk", version=4)
    informer._arrived([free], "4", as_of=None)
    asked_at = time.monotonic()
    view.cache.objects.assume("PersistentVolume", volume("disk", version=written, claim="data"))

    informer._arrived([free], "5", as_of=time.monotonic() if asked_later else asked_at)

    assert claim_of(view.cache.objects) == shown


async def test_kinds_that_may_not_be_read_are_left_out_of_a_list(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "limitranges" in request.path:
            return web.json_response({"message": "forbidden"}, status=403)
        return await no_nodes(request)

    async with (
        serving(answer) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        found = await list_cluster(client, kinds=["LimitRange", "PriorityClass"])

    # One that is read and empty is known to be.
    assert list(found.objects.by_kind) == ["PriorityClass"]


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        pytest.param(401, 1, id="whoever asks is refused: said once"),
        pytest.param(500, 3, id="each kind may have its own trouble"),
    ],
)
async def test_one_trouble_of_the_server_is_logged_once_for_all_kinds(
    status: int, lines: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: set[str] = set()

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        asked.add(request.path)
        return web.json_response({"message": "no"}, status=status, headers={"Retry-After": "60"})

    async with (
        serving(refuse) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        view = LiveView(client, max_age_seconds=60, objects=("PersistentVolume",))
        following = asyncio.create_task(view.run())
        async with asyncio.timeout(10):
            while sum(bool(each._pulse.problem) for each in view._informers) < 3:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    assert len(asked) == 3
    told = [each.message for each in caplog.records if "trying again in" in each.message]
    assert len([line for line in told if f"the API server said {status}" in line]) == lines


async def test_a_server_that_is_not_there_is_logged_once_a_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ApiClient(Connection("http://127.0.0.1:1", None)) as client:
        view = LiveView(client, max_age_seconds=60, objects=("PersistentVolume",))
        following = asyncio.create_task(view.run())
        async with asyncio.timeout(10):
            while sum(bool(each._pulse.problem) for each in view._informers) < 3:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    told = [each for each in caplog.records if "cannot connect to 127.0.0.1:1" in each.message]
    assert len([each for each in told if each.levelname == "WARNING"]) == 1


async def test_two_troubles_that_name_no_kind_are_both_logged(caplog: pytest.LogCaptureFixture) -> None:
    troubles = ["no credentials", "the plugin of the kubeconfig has failed"]
    async with ApiClient(Connection("http://127.0.0.1:1", None)) as client:
        view = LiveView(client, max_age_seconds=60)
        for informer, trouble in zip(view._informers, troubles, strict=True):
            informer._complain(trouble, 60, of_server=True)

    told = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert told == [f"{trouble}; trying again in 60.0 s" for trouble in troubles]
