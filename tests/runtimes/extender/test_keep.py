"""Answers with a part of the nodes that passed, and answers without reasons: ``extender.answer``."""

import json
import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayplan.config.assemble import from_files
from bayplan.engine.guard import Attempt
from bayplan.engine.why import explain
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.view import FixedView
from bayplan.testing import make_cluster
from bayplan.wire.scale import to_wire
from tests.runtimes.extender.caller import (
    ask,
    make_node,
    make_pod,
    metric,
    names_request,
    nodes_request,
)
from tests.runtimes.extender.obedient import make_options, serving

NODES = ["refused", "worst", "middle", "good", "best"]
REFUSE = json.dumps({"refused": "no"})
SCORES = json.dumps({"refused": 100, "worst": 1, "middle": 40, "good": 60, "best": 90})
KEEP_ONE, KEEP_TWO = {"keep": 1}, {"keep": 2}


def pod(name: str = "web-1", **annotations: str) -> dict[str, Any]:
    return make_pod(name, **{"refuse": REFUSE, "score": SCORES, **annotations})


@pytest.mark.parametrize(
    ("keep", "told"),
    [
        pytest.param("all", ["worst", "middle", "good", "best"], id="all"),
        pytest.param(1, ["best"], id="one"),
        pytest.param(3, ["middle", "good", "best"], id="three, in the order they were sent"),
        pytest.param(4, ["worst", "middle", "good", "best"], id="as many as pass"),
        pytest.param(100, ["worst", "middle", "good", "best"], id="more than pass"),
    ],
)
async def test_filter_tells_the_best_and_the_rest_is_in_no_list(
    tmp_path: Path, keep: int | str, told: list[str]
) -> None:
    async with serving(tmp_path, view=NODES, answer={"keep": keep}) as server:
        answer, again = [
            (await ask(server, "filter", names_request(NODES, pod=pod()))).json for _ in range(2)
        ]

    assert answer["NodeNames"] == told
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert again["FailedAndUnresolvableNodes"] == ({"refused": "no"} if keep == "all" else {})
    assert answer["FailedNodes"] == {}
    assert answer["Nodes"] is None
    assert answer["Error"] == ""


async def test_full_nodes_are_cut_down_too_and_echoed_byte_for_byte(tmp_path: Path) -> None:
    best = b'{ "metadata" : {"name":"best","x":1.50}, "unknown":"\\u00e4" }'
    others = b",".join(json.dumps(make_node(name)).encode() for name in NODES[:-1])
    body = b'{"Pod":%s,"Nodes":{"metadata":{"resourceVersion":"7"},"items":[%s,%s]},"NodeNames":null}'
    async with serving(tmp_path, view=None, answer=KEEP_ONE) as server:
        answer = await ask(server, "filter", body % (json.dumps(pod()).encode(), others, best))

    assert b'"Nodes":{"metadata":{"resourceVersion":"7"},"items":[%s]}' % best in answer.body
    assert answer.json["NodeNames"] is None
    assert answer.json["FailedAndUnresolvableNodes"] == {}


@pytest.mark.parametrize("mode", ["names", "full nodes"])
async def test_refused_nodes_are_told_beside_the_best_where_they_are_wanted(
    tmp_path: Path, mode: str
) -> None:
    request = names_request(NODES, pod=pod())
    if mode == "full nodes":
        request = nodes_request(list(map(make_node, NODES)), pod=pod())
    view = NODES if mode == "names" else None
    async with serving(tmp_path, view=view, answer={"keep": 1, "failedNodes": "always"}) as server:
        answer = (await ask(server, "filter", request)).json

    assert _told(answer) == ["best"]
    assert answer["FailedAndUnresolvableNodes"] == {"refused": "no"}


async def test_a_pod_that_comes_again_is_told_the_next_node_each_time(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, answer=KEEP_ONE) as server:
        told = [(await ask(server, "filter", names_request(NODES, pod=pod()))).json for _ in range(5)]
        other = (await ask(server, "filter", names_request(NODES, pod=pod("another")))).json

    assert [answer["NodeNames"] for answer in told] == [["best"], ["good"], ["middle"], ["worst"], ["best"]]
    assert other["NodeNames"] == ["best"]


async def test_a_node_that_is_asked_about_alone_is_no_turn(tmp_path: Path) -> None:
    # As kube-scheduler does first where it has nominated one.
    async with serving(tmp_path, view=NODES, answer=KEEP_ONE) as server:
        for _ in range(2):
            alone = await ask(server, "filter", names_request(["worst"], pod=pod()))
            assert alone.json["NodeNames"] == ["worst"]
        every = await ask(server, "filter", names_request(NODES, pod=pod()))

    assert every.json["NodeNames"] == ["best"]


async def test_a_pod_keeps_its_turns_when_another_configuration_is_taken_over(tmp_path: Path) -> None:
    options = make_options(tmp_path, view=NODES, answer=KEEP_ONE)
    async with Server(options).running() as server:
        await ask(server, "filter", names_request(NODES, pod=pod()))
        server.adopt(replace(options, keep=2))
        second = await ask(server, "filter", names_request(NODES, pod=pod()))
        server.adopt(replace(options, keep=None))
        third = await ask(server, "filter", names_request(NODES, pod=pod()))

    assert second.json["NodeNames"] == ["worst", "middle"]
    assert third.json["NodeNames"] == NODES[1:]


async def test_a_pod_that_is_looked_at_again_for_one_answer_has_come_once(tmp_path: Path) -> None:
    class Behind(FixedView):
        looks = 0

        async def read(self, names: Collection[str]) -> bool:
            self.looks += 1
            return True

    view = Behind(make_cluster(NODES))
    async with serving(tmp_path, view=NODES, answer=KEEP_ONE) as server:
        server.app.view = view
        answer = await ask(server, "filter", names_request([*NODES, "unheard-of"], pod=pod()))

        assert view.looks == 3
        assert answer.json["NodeNames"] == ["best"]
        assert server.turns.of("uid-web-1") == 1


async def test_an_observer_cuts_nothing_and_counts_no_turn(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, observe=True, answer=KEEP_ONE) as server:
        for _ in range(2):
            answer = await ask(server, "filter", names_request(NODES, pod=pod()))
            assert answer.json["NodeNames"] == NODES

        assert len(server.turns) == 0
        assert await metric(server, "bayplan_policy_duration_seconds_count", point="score") == 0


async def test_a_pod_that_no_policy_is_for_keeps_all_its_nodes(tmp_path: Path) -> None:
    options = make_options(tmp_path, view=NODES, entry={"for": {"namespaces": ["batch"]}}, answer=KEEP_ONE)
    options = replace(options, policies=[p for p in options.policies if p.name == "obedient"])
    async with Server(options).running() as server:
        answer = await ask(server, "filter", names_request(NODES, pod=pod()))

    assert answer.json["NodeNames"] == NODES


async def test_a_score_that_fails_cuts_all_the_same_and_is_told_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import bayplan\n\n@bayplan.score\ndef broken(pod, nodes):\n    raise ValueError('no such thing')\n"
    )
    options = make_options(tmp_path, view=NODES, answer=KEEP_ONE)
    options = replace(options, policies=[*options.policies, *from_files([str(tmp_path / "broken.py")])])
    async with Server(options).running() as server:
        answer = await ask(server, "filter", names_request(NODES, pod=pod()))
        failed = await metric(server, "bayplan_requests_total", verb="filter", result="error")

    assert answer.json["NodeNames"] == ["best"]
    assert answer.json["Error"] == ""
    assert "no such thing" in answer.headers["bayplan-error"]
    assert failed == 1


async def test_metrics_tell_how_many_were_left_out(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, answer=KEEP_ONE) as server:
        await ask(server, "filter", names_request(NODES, pod=pod()))

        counted = {
            verdict: await metric(server, "bayplan_nodes_total", verb="filter", verdict=verdict)
            for verdict in ("passed", "refused", "left-out")
        }
    assert counted == {"passed": 4, "refused": 1, "left-out": 3}


async def test_the_log_says_what_was_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(tmp_path, view=NODES, answer=KEEP_TWO) as server:
        await ask(server, "filter", names_request(NODES, pod=pod()))

    assert "keep default/web-1: keeps 2 of 4 nodes: best, good" in caplog.text


async def test_a_bind_ends_a_pods_turns(tmp_path: Path) -> None:
    class Willing:
        async def bind(self, **about: str) -> None:
            if about["node"] == "refused":
                raise RuntimeError("no")

    options = replace(make_options(tmp_path, view=NODES, answer=KEEP_ONE), binder=Willing())
    request = {"PodName": "web-1", "PodNamespace": "default", "PodUID": "uid-web-1"}
    async with Server(options).running() as server:
        await ask(server, "filter", names_request(NODES, pod=pod()))
        await ask(server, "bind", {**request, "Node": "refused"})
        assert server.turns.of("uid-web-1") == 1
        await ask(server, "bind", {**request, "Node": "best"})
        assert server.turns.of("uid-web-1") == 0


async def test_why_tells_what_was_kept_with_its_scores(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, answer=KEEP_ONE) as server:
        for _ in range(2):
            await ask(server, "filter", names_request(NODES, pod=pod()))
        entries = server.journal.of_pod("default/web-1")
        why = explain(entries, every_node=NODES, chosen="good", to_wire=to_wire)

    assert [entry.verb for entry in entries] == ["keep", "filter", "keep", "filter"]
    assert why is not None
    assert (why.kept, why.kept_nodes, why.turn, why.passed) == (1, ["good"], 1, 4)
    assert [(node.node, node.total) for node in why.ranking[:2]] == [("best", 90.0), ("good", 60.0)]
    assert why.history[0].text == "1 of 4 nodes kept"
    assert [group.reason for group in why.refused] == ["no"]


async def test_where_prioritize_was_asked_after_a_cut_its_scores_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, answer=KEEP_TWO) as server:
        await ask(server, "filter", names_request(NODES, pod=pod()))
        await ask(server, "prioritize", names_request(["good", "best"], pod=pod()))
        entries = server.journal.of_pod("default/web-1")
        why = explain(entries, every_node=NODES, chosen="best", to_wire=to_wire)

    assert why is not None
    assert (why.kept, why.kept_nodes) == (2, ["best", "good"])
    assert [node.node for node in why.ranking] == ["best", "good"]


@pytest.mark.parametrize("mode", ["names", "full nodes"])
async def test_reasons_are_left_out_when_a_node_passed_and_told_when_none_did(
    tmp_path: Path, mode: str
) -> None:
    make = (
        names_request
        if mode == "names"
        else lambda names, pod: nodes_request(list(map(make_node, names)), pod=pod)
    )
    nowhere = make_pod("nowhere", refuse=json.dumps(dict.fromkeys(NODES, "no")))
    view = NODES if mode == "names" else None
    async with serving(tmp_path, view=view, answer={"failedNodes": "whenNonePass"}) as server:
        some = (await ask(server, "filter", make(NODES, pod=pod()))).json
        none = (await ask(server, "filter", make(NODES, pod=nowhere))).json
        every = (await ask(server, "filter", make(NODES[1:], pod=pod()))).json
        entry = server.journal.of_pod("default/web-1")[-1]

    assert _told(some) == NODES[1:]
    assert some["FailedNodes"] == some["FailedAndUnresolvableNodes"] == {}
    assert none["FailedAndUnresolvableNodes"] == dict.fromkeys(NODES, "no")
    assert not _told(none)
    assert _told(every) == NODES[1:]
    assert [(reason.text, places) for _, reason, places in entry.groups()] == [("no", [0])]


async def test_a_node_out_of_view_is_left_out_too_and_told_when_no_other_passed(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, answer={"failedNodes": "whenNonePass"}) as server:
        some = (await ask(server, "filter", names_request([*NODES, "unheard-of"], pod=pod()))).json
        none = (await ask(server, "filter", names_request(["refused", "unheard-of"], pod=pod()))).json

    assert some["NodeNames"] == NODES[1:]
    assert some["FailedAndUnresolvableNodes"] == {}
    assert set(none["FailedAndUnresolvableNodes"]) == {"refused", "unheard-of"}


async def test_the_best_node_alone_is_one_name_and_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, answer=KEEP_ONE) as server:
        answer = await ask(server, "filter", names_request(NODES, pod=pod()))

    assert answer.json == {
        "Nodes": None,
        "NodeNames": ["best"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_a_filter_alone_counts_no_turn(tmp_path: Path) -> None:
    """Whoever asks the verbs beside the server, as a replay does, changes nothing for kube-scheduler."""
    policies = make_options(tmp_path, view=NODES).policies
    verbs = Verbs(policies, Metrics(version=""), keep=1)
    cluster: Snapshot = make_cluster(NODES)
    body = json.dumps(names_request(NODES, pod=pod())).encode()

    for _ in range(2):
        assert json.loads(verbs.filter(body, cluster, Attempt()).body)["NodeNames"] == ["best"]
    assert json.loads(verbs.filter(body, cluster, Attempt(turn=1)).body)["NodeNames"] == ["good"]


def _told(answer: dict[str, Any]) -> list[str]:
    if answer["Nodes"] is None:
        return answer["NodeNames"] or []
    return [node["metadata"]["name"] for node in answer["Nodes"]["items"] or []]
