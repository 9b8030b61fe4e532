"""The live view: who waits for news, for how long, and what counts as news."""

import asyncio
from typing import Any

import pytest

from bayplan.snapshot.cluster import Snapshot
from bayplan.state import view as view_module
from bayplan.state.view import LiveView
from bayplan.testing import make_node, make_pod


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


async def test_who_comes_for_the_first_time_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 60.0)
    view = make_view()

    async with asyncio.timeout(10):
        assert not await view.news_for("uid", now(view))


async def test_news_that_came_during_the_judgement_count_at_once() -> None:
    view = make_view()
    seen = now(view)

    node_store(view).put(make_node("n", cpu=8).object)

    assert await view.news_for("uid", seen)


async def test_who_comes_again_without_a_reason_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 5.0)
    view = make_view()
    await view.news_for("uid", now(view))

    waiting = asyncio.create_task(view.news_for("uid", now(view)))
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
    await view.news_for("uid", now(view))
    node_store(view).put(make_node("n", cpu=8).object)

    async with asyncio.timeout(10):
        assert not await view.news_for("uid", now(view))


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_PATIENCE_SHARE", 0.0)
    view = make_view()
    view._patience_seconds = 0.01

    # The second one waits, and with that the patience is gone: 60 s would be noticed.
    for _ in range(3):
        await view.news_for("uid", now(view))
    monkeypatch.setattr(view_module, "_PATIENCE_SECONDS", 60.0)

    async with asyncio.timeout(10):
        assert not await view.news_for("uid", now(view))


async def test_a_flood_of_pods_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_REFUSED_LIMIT", 10)
    view = make_view()
    for number in range(100):
        await view.news_for(f"uid-{number}", now(view))

    assert len(view._refused) == 10
