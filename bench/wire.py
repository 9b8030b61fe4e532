"""How fast a verb is answered over HTTP: Bayplan, the usual extender in Go, and Flask, called in turns.

    make bench-wire

All three filter by a label and score by another one, know the same nodes and get the same bytes from one
caller; that their answers say the same is checked first. Each pod is a filter and a prioritize call. In each
round a few pods go to one server, then to the next, so that what else the machine does is spread over all.
"""

import gc
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.busy import Busy
from bench.outputs import Outputs
from bench.peers_built import PeerMissing
from bench.raw_http import Caller
from bench.wire_figures import ASKED, BESIDE, EACH, FULL, NAMES, Line, Times, picture, text
from bench.wire_requests import Requests, full_nodes, make_node, names_only, write_snapshot
from bench.wire_servers import Peers, Server, find_peers, policy_of, servers

VERBS = ("filter", "prioritize")
_WARMING = 3
_REST_SECONDS = 0.05


@dataclass(frozen=True)
class Size:
    """One size of request, and how many pods each server gets in a round."""

    mode: str
    nodes: int
    pods: int


# In ten rounds at least 100 calls of each: fewer have no p99. Of small requests there are more: the first
# call of a round comes after a pause, and with 100 calls a round p99 would tell of those calls alone.
SIZES = (
    Size(NAMES, 100, 400),
    Size(NAMES, 500, 400),
    Size(NAMES, 5_000, 40),
    Size(NAMES, 15_000, 20),
    Size(ASKED, 500, 400),
    Size(ASKED, 5_000, 40),
    Size(EACH, 500, 400),
    Size(EACH, 5_000, 20),
    Size(BESIDE, 500, 400),
    Size(BESIDE, 5_000, 40),
    Size(FULL, 100, 40),
    Size(FULL, 1_000, 15),
    Size(FULL, 5_000, 10),
)
QUICK = (Size(NAMES, 500, 40), Size(NAMES, 5_000, 12), Size(ASKED, 500, 40), Size(FULL, 1_000, 3))


def main() -> None:
    """Print the table; write the figures down where asked to."""
    outputs = Outputs(
        "How fast a verb is answered over HTTP, beside an extender in Go and one in Flask",
        quick="four sizes, fewer calls: about a minute",
        rounds=10,
    )
    try:
        peers = find_peers()
    except PeerMissing as missing:
        raise SystemExit(str(missing)) from None
    lines: list[Line] = []
    for size in QUICK if outputs.quick else SIZES:
        found = measure(size, peers, outputs.rounds)
        print(
            f"... {size.mode}, {size.nodes:,} nodes; {found[0].others_cores:.0%} of a core used by others",
            flush=True,
        )
        lines += found
        outputs.keep({"unit": "ms", "lines": [asdict(line) for line in lines]})
    outputs.finish(text(lines), picture(lines))


def measure(size: Size, peers: Peers, rounds: int, *, policy: Path | None = None) -> list[Line]:
    """Both verbs at one size, on servers that were started for it; with another policy than the usual one."""
    busy = Busy()
    full = size.mode == FULL
    nodes = [make_node(number, images=full) for number in range(size.nodes)]
    requests = full_nodes(nodes) if full else names_only(nodes)
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        file = Path(made) / "nodes.json"
        write_snapshot(file, nodes)
        ours = policy or policy_of(size.mode)
        started = stack.enter_context(servers(peers, Path(made), file, policy=ours))
        callers = {server.name: stack.enter_context(Caller(server.port)) for server in started}
        for caller in callers.values():
            _check(caller, requests, nodes)
        seconds = _seconds(started, callers, requests, rounds=rounds, pods=size.pods)
    sent = sum(map(len, next(requests.bodies())))
    others = round(busy.by_others(), 2)
    return [
        Line(
            size.mode,
            size.nodes,
            verb,
            sent,
            others,
            {name: Times.of(seconds[name, verb]) for name in callers},
        )
        for verb in VERBS
    ]


def _seconds(
    started: Sequence[Server], callers: dict[str, Caller], requests: Requests, *, rounds: int, pods: int
) -> dict[tuple[str, str], list[list[float]]]:
    """Seconds of each call, by server and verb, round by round; who begins changes."""
    bodies = {server.name: requests.bodies() for server in started}
    took: dict[tuple[str, str], list[list[float]]] = {
        (server.name, verb): [] for server in started for verb in VERBS
    }
    for name, caller in callers.items():
        _place(caller, bodies[name], _WARMING)
    gc.collect()
    gc.disable()
    for number in range(rounds):
        turn = number % len(started)
        for server in (*started[turn:], *started[:turn]):
            time.sleep(_REST_SECONDS)
            for verb, found in _place(callers[server.name], bodies[server.name], pods).items():
                took[server.name, verb].append(found)
    gc.enable()
    for server in started:
        server.child.check()
    return took


def _place(caller: Caller, bodies: Iterator[tuple[bytes, bytes]], pods: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {verb: [] for verb in VERBS}
    for _ in range(pods):
        first, rest = next(bodies)
        for verb in VERBS:
            took[verb].append(caller.call(verb, first, rest))
    return took


def _check(caller: Caller, requests: Requests, nodes: list[dict[str, Any]]) -> None:
    """Whether the server says what is right: a fast wrong answer is worth nothing."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    ssd = {name for name, found in labels.items() if found["disk"] == "ssd"}
    first, rest = next(requests.bodies())
    caller.call("filter", first, rest)
    said = json.loads(caller.answer)
    if said["Nodes"] is not None:
        passed = [node["metadata"]["name"] for node in said["Nodes"]["items"]]
    else:
        passed = said["NodeNames"]
    refused = (said.get("FailedNodes") or {}) | (said.get("FailedAndUnresolvableNodes") or {})
    assert not said.get("Error"), said["Error"]
    assert sorted(passed) == sorted(ssd), "other nodes pass"
    assert refused == dict.fromkeys(labels.keys() - ssd, "node has no SSD"), "other nodes are refused"
    caller.call("prioritize", first, rest)
    scores = {one["Host"]: one["Score"] for one in json.loads(caller.answer)}
    assert scores == {name: int(found["example.com/points"]) for name, found in labels.items()}, "scores"


if __name__ == "__main__":
    main()
