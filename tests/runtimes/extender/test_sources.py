"""Sources that are asked about a pod, through the door: once an attempt, with a deadline and a way out."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.testing import make_cluster
from tests.client.serving import serving
from tests.runtimes.extender.caller import ask, look, make_pod, metric, names_request

NODES = ["a", "b"]
TIMEOUT_SECONDS = 0.2
OTHER = """
import bayplan

@bayplan.filter
def named(pod, node):
    return node.name == "a" or "not a"
"""


class Service:
    """Answers, fails or hangs, as it is told."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.hangs = False
        self.released = asyncio.Event()
        self.crowded = asyncio.Event()
        """Five were asked and wait."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(await request.json())
        if self.hangs:
            if len(self.asked) == 5:
                self.crowded.set()
            await self.released.wait()
        if self.answer is None:
            return web.Response(status=500, text="kaput")
        return web.json_response(self.answer)


@contextlib.asynccontextmanager
async def door(
    folder: Path, service: Service, *, timeout_seconds: float = 3.0, **source: Any
) -> AsyncIterator[Server]:
    """A server that asks the service about pods of the namespace ``asked``."""
    (folder / "other.py").write_text(OTHER)
    async with serving(service.handle) as url:
        http = {"url": url, "timeout": f"{timeout_seconds * 1000:.0f}ms"}
        config = {
            "apiVersion": "bayplan.dev/v1",
            "kind": "BayplanConfiguration",
            "sources": [{"name": "svc", "per": "pod", "http": http, **source}],
            "policies": [
                {"use": "ExternalService", "args": {"source": "svc"}, "for": {"namespaces": ["asked"]}},
                {"use": "other.py", "for": {"namespaces": ["other"]}},
            ],
            "extender": {
                "listen": "127.0.0.1:0",
                "opsListen": "127.0.0.1:0",
                "answer": {"failedNodes": "always"},
            },
            "page": {"listen": "off"},
        }
        (folder / "bayplan.yaml").write_text(yaml.safe_dump(config))
        loaded, problems = load_checked([], Flags(config=folder / "bayplan.yaml"))
        assert problems == []
        options = options_from(loaded, version="test")
        options = replace(options, snapshot=make_cluster(NODES), watch_interpreter=False)
        async with Server(options).running() as server:
            try:
                yield server
            finally:
                service.released.set()


def request_for(name: str, *, namespace: str = "asked") -> dict[str, Any]:
    return names_request(NODES, pod=make_pod(name, namespace=namespace))


async def filtered(server: Server, name: str) -> dict[str, str]:
    """Why nodes are refused."""
    said = (await ask(server, "filter", request_for(name))).json
    assert said["Error"] == ""
    return {**(said["FailedNodes"] or {}), **(said["FailedAndUnresolvableNodes"] or {})}


async def test_one_attempt_asks_once_and_gets_texts_and_scores(tmp_path: Path) -> None:
    service = Service({"a": {"refuse": "no licence left"}, "b": {"score": 7}})
    async with door(tmp_path, service) as server:
        assert await filtered(server, "web") == {"a": "no licence left"}
        scores = (await ask(server, "prioritize", request_for("web"))).json

    assert {each["Host"] for each in scores} == set(NODES)
    assert [(each["pod"]["name"], each["nodes"]) for each in service.asked] == [("web", NODES)]


async def test_preemption_asks_too(tmp_path: Path) -> None:
    service = Service({"a": {"refuse": "no licence left"}})
    victims = {name: {"Pods": [{"UID": "v"}], "NumPDBViolations": 0} for name in NODES}
    body = {"Pod": make_pod("web", namespace="asked"), "NodeNameToMetaVictims": victims}
    async with door(tmp_path, service) as server:
        said = (await ask(server, "preempt", body)).json

    assert [each["nodes"] for each in service.asked] == [NODES]
    assert "a" not in said["NodeNameToMetaVictims"]


async def test_a_pod_that_no_such_policy_is_for_is_nobodys_question(tmp_path: Path) -> None:
    service = Service()
    async with door(tmp_path, service) as server:
        said = (await ask(server, "filter", request_for("web", namespace="other"))).json

    assert service.asked == []
    assert said["NodeNames"] == ["a"]


async def test_a_service_that_fails_is_answered_for_once_an_attempt(tmp_path: Path) -> None:
    service = Service()
    async with door(tmp_path, service, fallback={"refuse": "licences cannot be checked"}) as server:
        assert set((await filtered(server, "web")).values()) == {"licences cannot be checked"}
        await ask(server, "prioritize", request_for("web"))

        assert len(service.asked) == 1
        assert await metric(server, "bayplan_source_up", source="svc") == 0
        assert "kaput" in (await look(server, "/healthz?verbose")).body.decode()
        assert (await look(server, "/readyz")).status == 200


async def test_an_answer_that_makes_no_sense_is_no_answer(tmp_path: Path) -> None:
    service = Service({"a": {"refuse": ["not", "a", "text"]}})
    async with door(tmp_path, service, fallback={"refuse": "x"}) as server:
        assert await filtered(server, "web") == {"a": "x", "b": "x"}


@pytest.mark.alone
async def test_a_service_that_hangs_is_waited_for_once_an_attempt_and_then_not_at_all(
    tmp_path: Path,
) -> None:
    service = Service({})
    service.hangs = True
    async with door(tmp_path, service, timeout_seconds=TIMEOUT_SECONDS) as server:
        waits = []
        for number in range(7):
            start = time.monotonic()
            assert await filtered(server, f"p{number}") == {}
            await ask(server, "prioritize", request_for(f"p{number}"))
            waits.append(time.monotonic() - start)

        assert len(service.asked) == 5
        assert all(TIMEOUT_SECONDS <= wait < 2 * TIMEOUT_SECONDS for wait in waits[:5]), waits
        assert max(waits[5:]) < TIMEOUT_SECONDS / 2, waits
        assert "broken: 5 failures in a row" in (await look(server, "/healthz?verbose")).body.decode()


@pytest.mark.alone
async def test_while_it_hangs_the_door_answers_others(tmp_path: Path) -> None:
    service = Service({})
    service.hangs = True
    async with door(tmp_path, service) as server:
        waiting = [asyncio.create_task(filtered(server, f"p{number}")) for number in range(20)]
        await service.crowded.wait()
        start = time.monotonic()
        said = (await ask(server, "filter", request_for("web", namespace="other"))).json

        assert said["NodeNames"] == ["a"]
        assert time.monotonic() - start < 1
        service.released.set()
        assert await asyncio.gather(*waiting) == [{}] * 20
