"""How fast a verb is answered over HTTP: Bayplan, the usual extender in Go, and Flask, called in turns.

    make bench-wire

All three filter by a label and score by another one, know the same nodes and get the same bytes from one
caller; that their answers say the same is checked first. Each pod is a filter and a prioritize call. In each
round a few pods go to one server, then to the next, so that what else the machine does is spread over all.
"""

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.busy import Busy
from bench.raw_http import Caller
from bench.wire_requests import Requests, full_nodes, make_node, names_only, write_snapshot
from bench.wire_servers import Peers, Server, find_peers, servers

VERBS = ("filter", "prioritize")
OURS, REFERENCE = "Bayplan", "Go"
TARGET, TARGET_FROM_NODES = 3.0, 500
_WARMING = 3
_REST_SECONDS = 0.05


@dataclass(frozen=True)
class Size:
    """One size of request, and how many pods each server gets in a round."""

    mode: str
    nodes: int
    pods: int


SIZES = (
    Size("names only", 100, 200),
    Size("names only", 500, 100),
    Size("names only", 5_000, 40),
    Size("names only", 15_000, 20),
    Size("full nodes", 100, 20),
    Size("full nodes", 1_000, 6),
    Size("full nodes", 5_000, 2),
)
QUICK = (Size("names only", 500, 40), Size("names only", 5_000, 15), Size("full nodes", 1_000, 4))


@dataclass(frozen=True)
class Times:
    """Milliseconds of one server for one verb."""

    calls: int
    p50: float
    p99: float
    """The worst one, where there were fewer than 100 calls."""
    round_p50: list[float]

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]]) -> "Times":
        """From the seconds of each round."""
        every = sorted(seconds * 1000 for one in rounds for seconds in one)
        medians = [statistics.median(one) * 1000 for one in rounds]
        return cls(len(every), statistics.median(every), every[math.ceil(0.99 * len(every)) - 1], medians)


@dataclass(frozen=True)
class Line:
    """What was measured of one verb at one size."""

    mode: str
    nodes: int
    verb: str
    request_bytes: int
    times: dict[str, Times]

    def ratio(self, peer: str, figure: Callable[[Times], float]) -> float:
        """How many times as long the peer takes as we do."""
        return figure(self.times[peer]) / figure(self.times[OURS])

    def round_ratios(self, peer: str) -> list[float]:
        """The ratio of the medians, round by round."""
        pairs = zip(self.times[peer].round_p50, self.times[OURS].round_p50, strict=True)
        return [theirs / ours for theirs, ours in pairs]

    @property
    def misses(self) -> bool:
        """Whether it counts, and we are not as much faster as we want to be."""
        reached = min(self.ratio(REFERENCE, _p50), self.ratio(REFERENCE, _p99))
        return (self.nodes >= TARGET_FROM_NODES or self.mode == "full nodes") and reached < TARGET


def measure(size: Size, peers: Peers, rounds: int) -> list[Line]:
    """Both verbs at one size, on servers that were started for it."""
    full = size.mode == "full nodes"
    nodes = [make_node(number, images=full) for number in range(size.nodes)]
    requests = full_nodes(nodes) if full else names_only(nodes)
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        file = Path(made) / "nodes.json"
        write_snapshot(file, nodes)
        started = stack.enter_context(servers(peers, Path(made), file))
        callers = {server.name: stack.enter_context(Caller(server.port)) for server in started}
        for caller in callers.values():
            _check(caller, requests, nodes)
        seconds = _seconds(started, callers, requests, rounds=rounds, pods=size.pods)
    sent = sum(map(len, next(requests.bodies())))
    return [
        Line(size.mode, size.nodes, verb, sent, {name: Times.of(seconds[name, verb]) for name in callers})
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


def _p50(times: Times) -> float:
    return times.p50


def _p99(times: Times) -> float:
    return times.p99


def table(lines: Sequence[Line]) -> str:
    """All of it, to be read."""
    peers = [name for name in lines[0].times if name != OURS]
    head = ["", "nodes", "verb", "calls", *[f"{name} p50 / p99 ms" for name in (OURS, *peers)]]
    head += [f"{name} ÷ {OURS}, p50 (rounds)  / p99".replace("  ", " ") for name in peers]
    rows = [head, ["---"] * len(head)]
    for line in lines:
        row = [line.mode, f"{line.nodes:,}", line.verb, str(line.times[OURS].calls)]
        row += [f"{line.times[name].p50:.2f} / {line.times[name].p99:.2f}" for name in (OURS, *peers)]
        for name in peers:
            low, *_, high = sorted(line.round_ratios(name))
            ratios = f"{line.ratio(name, _p50):.1f} ({low:.1f} to {high:.1f}) / {line.ratio(name, _p99):.1f}"
            row.append(f"**{ratios}**" if name == REFERENCE and line.misses else ratios)
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def machine() -> dict[str, str | float | None]:
    """What it ran on, and how busy that was before."""
    models = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)  # noqa: S607
    return {
        "cores": os.cpu_count(),
        "processor": models[0].partition(":")[2].strip() if models else platform.machine(),
        "python": platform.python_version(),
        "go": go.stdout.strip(),
        "load": round(os.getloadavg()[0], 1),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def main() -> None:
    """Print the table; write the figures down where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="three sizes, fewer calls: half a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    peers = find_peers()
    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()) + "\n", flush=True)
    lines: list[Line] = []
    for size in QUICK if options.quick else SIZES:
        busy = Busy()
        found = measure(size, peers, options.rounds)
        print(
            f"... {size.mode}, {size.nodes:,} nodes; {busy.by_others():.0%} of a core used by others",
            flush=True,
        )
        lines += found
        if options.json:
            # Written each time: a run that is ended early keeps what it has.
            whole = {"machine": about, "unit": "ms", "lines": [asdict(line) for line in lines]}
            options.json.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"\n{table(lines)}\n\nbold: under {TARGET:g} times as fast as {REFERENCE}, where that is the aim")


if __name__ == "__main__":
    main()
