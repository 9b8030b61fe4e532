"""Why nodes were refused is told where no node is left, and to a pod that comes again."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import bayplan
from bayplan.engine.guard import Attempt
from bayplan.engine.keep import Refusals
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.options import Options
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.testing import make_cluster, make_node
from bayplan.testing.run import ready
from tests.runtimes.extender.caller import Caller, make_pod, names_request

CLUSTER = make_cluster([make_node("good"), make_node("better"), make_node("bad")], [])
REASON = {"bad": "it is bad"}


@bayplan.filter
def no_bad(node: bayplan.Node) -> str | None:
    return "it is bad" if node.name == "bad" else None


def body(names: list[str], *, uid: str = "uid-1") -> dict[str, Any]:
    pod = make_pod("web")
    pod["metadata"]["uid"] = uid
    return names_request(names, pod=pod)


def reasons(verbs: Verbs, names: list[str], *, uid: str = "uid-1") -> dict[str, str]:
    sent = json.dumps(body(names, uid=uid)).encode()
    answer = verbs.filter(sent, CLUSTER, Attempt())
    if answer.cut_for:
        verbs.turns.told(answer.cut_for)
    found: dict[str, str] = json.loads(answer.body)["FailedAndUnresolvableNodes"]
    return found


@pytest.mark.parametrize(
    ("refusals", "first", "second"),
    [
        pytest.param("always", REASON, REASON, id="always"),
        pytest.param("again", {}, REASON, id="when it comes again"),
        pytest.param("whenNonePass", {}, {}, id="only where no node passes"),
    ],
)
def test_where_a_node_passes(refusals: Refusals, first: dict[str, str], second: dict[str, str]) -> None:
    verbs = Verbs(ready(no_bad, None), Metrics(version="0"), refusals=refusals)

    assert reasons(verbs, ["good", "bad"]) == first
    assert reasons(verbs, ["good", "bad"]) == second


@pytest.mark.parametrize("refusals", ["always", "again", "whenNonePass"])
def test_where_no_node_passes_reasons_are_told(refusals: Refusals) -> None:
    verbs = Verbs(ready(no_bad, None), Metrics(version="0"), refusals=refusals)

    assert reasons(verbs, ["bad"]) == REASON


def test_a_pod_that_was_told_all_there_was_has_not_been_told_less() -> None:
    verbs = Verbs(ready(no_bad, None), Metrics(version="0"), refusals="again")

    reasons(verbs, ["good", "better"])
    reasons(verbs, ["bad"])

    assert len(verbs.turns) == 0


def test_a_pod_that_cannot_be_known_again_is_told_everything() -> None:
    verbs = Verbs(ready(no_bad, None), Metrics(version="0"), refusals="again")

    assert reasons(verbs, ["good", "bad"], uid="") == REASON


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    options = Options(
        policies=ready(no_bad, None),
        snapshot=CLUSTER,
        listen=("127.0.0.1", 0),
        ops_listen=None,
        refusals="again",
    )
    server = Server(options)
    async with server.running(), await Caller.connect(server) as found:
        yield found


async def test_a_server_remembers_whom_it_told_less(caller: Caller) -> None:
    told = [
        (await caller.post("filter", body(["good", "bad"], uid=uid))).json["FailedAndUnresolvableNodes"]
        for uid in ("uid-1", "uid-2", "uid-1", "uid-1")
    ]

    assert told == [{}, {}, REASON, REASON]
