"""Every node that was sent is in exactly one list of the answer; preempt never says null."""

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.runtimes.extender.serve import Server
from tests.runtimes.extender.caller import Reply, ask, make_node, make_pod, names_request, nodes_request
from tests.runtimes.extender.obedient import make_options

T = TypeVar("T")

KNOWN = [f"node-{number}" for number in range(6)]
STRANGERS = ["stranger-0", "stranger-1"]
EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

texts = st.sampled_from(["full", "too far", "!needs room", "!full", "grün", ""])
refusals = st.dictionaries(st.sampled_from(KNOWN), texts)
some_nodes = st.lists(st.sampled_from(KNOWN + STRANGERS), unique=True)
numbers = st.dictionaries(st.sampled_from(KNOWN), st.floats(-1e6, 1e6, allow_nan=False))


class Asker:
    """A running server that a test without a loop can ask."""

    def __init__(self, server: Server, runner: asyncio.Runner) -> None:
        self.server = server
        self._runner = runner

    def ask(self, verb: str, body: Any) -> Reply:
        return self._runner.run(ask(self.server, verb, body))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


@contextlib.contextmanager
def asker(folder: Path, **options: Any) -> Iterator[Asker]:
    with asyncio.Runner() as runner:

        async def start(stack: contextlib.AsyncExitStack) -> Server:
            server = Server(make_options(folder, view=KNOWN, **options))
            return await stack.enter_async_context(server.running())

        stack = contextlib.AsyncExitStack()
        server = runner.run(start(stack))
        try:
            yield Asker(server, runner)
        finally:
            runner.run(stack.aclose())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with asker(tmp_path_factory.mktemp("up-to-1.37")) as running:
        yield running


@pytest.fixture(scope="module")
def heeding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """A server for a kube-scheduler that heeds FailedNodes."""
    with asker(tmp_path_factory.mktemp("from-1.38"), kubeSchedulerVersion="v1.38.0") as running:
        yield running


def passed(answer: Reply) -> list[str]:
    nodes = answer.json["Nodes"]
    if nodes is not None:
        return [item["metadata"]["name"] for item in nodes["items"]]
    return list(answer.json["NodeNames"])


@EXAMPLES
@given(asked=some_nodes, refuse=refusals, in_full=st.booleans())
def test_every_node_is_in_exactly_one_list(
    server: Asker, asked: list[str], refuse: dict[str, str], *, in_full: bool
) -> None:
    pod = make_pod(refuse=json.dumps({name: text for name, text in refuse.items() if text}))
    nodes = [make_node(name) for name in asked]
    body = nodes_request(nodes, pod=pod) if in_full else names_request(asked, pod=pod)

    answer = server.ask("filter", body)

    assert answer.json["Error"] == ""
    lists = [*passed(answer), *answer.json["FailedNodes"], *answer.json["FailedAndUnresolvableNodes"]]
    assert sorted(lists) == sorted(asked)
    assert passed(answer) == [name for name in asked if name in passed(answer)], "the order is kept"
    assert answer.json["FailedNodes"] == {}, "up to 1.37 nothing is worth a dry run of preemption"
    if in_full:
        sent = {node["metadata"]["name"]: node for node in nodes}
        assert answer.json["Nodes"]["items"] == [sent[name] for name in passed(answer)]
        assert answer.json["NodeNames"] is None


@EXAMPLES
@given(asked=some_nodes, refuse=refusals)
def test_from_1_38_on_preemptible_reasons_are_told_apart(
    heeding: Asker, asked: list[str], refuse: dict[str, str]
) -> None:
    refuse = {name: text for name, text in refuse.items() if text}

    answer = heeding.ask("filter", names_request(asked, pod=make_pod(refuse=json.dumps(refuse))))

    hoped = {n: t[1:] for n, t in refuse.items() if n in asked and t.startswith("!")}
    final = {n: t for n, t in refuse.items() if n in asked and not t.startswith("!")}
    strangers = {n: "node is not in Bayplan's view" for n in asked if n in STRANGERS}
    assert answer.json["FailedNodes"] == hoped
    assert answer.json["FailedAndUnresolvableNodes"] == final | strangers
    assert answer.json["NodeNames"] == [n for n in asked if n not in hoped | final | strangers]


@EXAMPLES
@given(asked=some_nodes, scores=numbers, in_full=st.booleans())
def test_every_node_gets_one_whole_score_between_0_and_10(
    server: Asker, asked: list[str], scores: dict[str, float], *, in_full: bool
) -> None:
    pod = make_pod(score=json.dumps(scores))
    body = (
        nodes_request([make_node(name) for name in asked], pod=pod)
        if in_full
        else names_request(asked, pod=pod)
    )

    answer = server.ask("prioritize", body)

    assert [line["Host"] for line in answer.json] == asked
    assert all(type(line["Score"]) is int and 0 <= line["Score"] <= 10 for line in answer.json)
    assert b"." not in answer.body, "7.0 makes Go's decoder fail"


uids = st.sampled_from(["", "a", "b", "c"])
meta_pods = st.one_of(st.none(), st.fixed_dictionaries({"UID": uids}))
full_pods = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"metadata": st.one_of(st.none(), st.fixed_dictionaries({"uid": st.one_of(st.none(), uids)}))}
    ),
)
counts = st.one_of(st.none(), st.integers(0, 5))


def victims(pods: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one = st.fixed_dictionaries(
        {}, optional={"Pods": st.one_of(st.none(), st.lists(pods)), "NumPDBViolations": counts}
    )
    return st.one_of(
        st.none(), st.dictionaries(st.sampled_from(KNOWN + STRANGERS), st.one_of(st.none(), one))
    )


preempts = st.fixed_dictionaries(
    {
        "Pod": st.one_of(
            st.none(), st.just({}), st.just(make_pod()), st.just(make_pod(refuse='{"node-1": "no"}'))
        )
    },
    optional={
        "NodeNameToVictims": victims(full_pods),
        "NodeNameToMetaVictims": victims(meta_pods),
        "nodenametometavictims": victims(meta_pods),
    },
)


@pytest.mark.parametrize("observe", [False, True], ids=["deciding", "looking on"])
def test_no_preempt_answer_contains_null_or_makes_victims_up(tmp_path: Path, *, observe: bool) -> None:
    with asker(tmp_path, observe=observe) as server:

        @settings(EXAMPLES, max_examples=150)
        @given(body=preempts)
        def never_null(body: dict[str, Any]) -> None:
            answer = server.ask("preempt", body)

            assert answer.status == 200
            assert b"null" not in answer.body
            sent = [body[key] or {} for key in body if key != "Pod"]
            for node, kept in answer.json["NodeNameToMetaVictims"].items():
                assert type(kept["NumPDBViolations"]) is int
                assert all(set(pod) == {"UID"} and pod["UID"] for pod in kept["Pods"])
                assert observe or kept["Pods"], (
                    "kube-scheduler refuses a whole answer for one without victims"
                )
                assert any(node in victims for victims in sent)

        never_null()


@pytest.mark.parametrize("in_full", [False, True], ids=["names", "full pods"])
def test_preempt_keeps_what_helps_and_drops_what_does_not(tmp_path: Path, *, in_full: bool) -> None:
    there: dict[str, Any] = {
        name: {
            "Pods": [{"metadata": {"uid": f"v-{name}"}} if in_full else {"UID": f"v-{name}"}],
            "NumPDBViolations": 2,
        }
        for name in ["node-0", "node-1", "node-2"]
    }
    if in_full:
        there["node-2"]["Pods"][0]["metadata"]["labels"] = {"protect": "true"}
    key = "NodeNameToVictims" if in_full else "NodeNameToMetaVictims"
    with asker(tmp_path) as server:
        answer = server.ask("preempt", {"Pod": make_pod(refuse='{"node-1": "no"}'), key: there})

    kept = {name: {"Pods": [{"UID": f"v-{name}"}], "NumPDBViolations": 2} for name in ["node-0"]}
    # By name alone nobody can tell whether a victim that is not in the view is protected.
    assert answer.json == {"NodeNameToMetaVictims": kept if in_full else {}}
