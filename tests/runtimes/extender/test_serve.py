"""The server as a process: signals, an orderly end, memory, and an interpreter that is held."""

import asyncio
import contextlib
import errno
import http.client
import json
import os
import select
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayplan.recording import appended, sink
from bayplan.recording.journal_file import JournalFileOptions
from bayplan.recording.recorder import RecordOptions
from bayplan.runtimes.extender import leaving
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.listener import ListenError
from tests.controlplane.certs import Authority, KeyPair, make_ca
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.caller import (
    ask,
    look,
    make_node,
    make_pod,
    metric,
    names_request,
    nodes_request,
    request,
)
from tests.runtimes.extender.obedient import make_options, write_config
from tests.runtimes.extender.served import BAYPLAN, Served, served

NODES = [f"node-{number}" for number in range(3)]
FULL = nodes_request([make_node(name) for name in NODES])
PATIENCE_SECONDS = 60.0
FOR_EVER = "10m"
"""Longer than anybody waits here: what ends at all has not waited for it."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def full(**annotations: str) -> dict[str, Any]:
    return nodes_request([make_node(name) for name in NODES], pod=make_pod(**annotations))


async def test_a_full_disk_at_the_start_costs_what_is_written_down_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sink, "put_all", full)
    monkeypatch.setattr(appended, "put_all", full)
    record, journal = tmp_path / "r.jsonl.gz", tmp_path / "j.jsonl"
    options = replace(
        make_options(tmp_path), record=RecordOptions(record), journal_file=JournalFileOptions(journal)
    )
    async with Server(options).running() as server:
        assert not (await ask(server, "filter", FULL)).json["Error"]
        health = await look(server, "/healthz?verbose")
        assert server.journal_file is not None
        await asyncio.to_thread(server.journal_file.close)

        assert health.status == 200
        assert f"[!]recording: {record}: No space left on device" in health.body.decode()
        assert f"[!]journal: {journal}: No space left on device" in health.body.decode()
        assert await metric(server, "bayplan_recorded_total", result="dropped") == 1
        assert await metric(server, "bayplan_journal_lines_total", result="dropped") == 1
    assert not record.exists()
    caplog.clear()


@contextlib.contextmanager
def asking(server: Served, body: Any) -> Iterator[Callable[[], Any]]:
    """A request under way in a thread; call the result to wait for its answer."""
    answers: list[Any] = []

    def ask_it() -> None:
        answers.append(server.ask("filter", body, timeout_seconds=PATIENCE_SECONDS))

    thread = threading.Thread(target=ask_it, daemon=True)
    thread.start()
    wait_until(lambda: in_flight(server) >= 1, PATIENCE_SECONDS, what="the request is under way")

    def answer() -> Any:
        thread.join(PATIENCE_SECONDS)
        return answers[0]

    yield answer
    thread.join(PATIENCE_SECONDS)


def in_flight(server: Served) -> float:
    text = server.look("/metrics", timeout_seconds=5)[1]
    return next(
        float(line.split()[1]) for line in text.splitlines() if line.startswith("bayplan_requests_in_flight ")
    )


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # It came in the very moment in which the socket was closed: the next one is refused.
        return False
    return False


def test_sigterm_lets_a_request_under_way_finish_and_ends_with_0(tmp_path: Path) -> None:
    limits = dict.fromkeys(("policyTimeout", "requestTimeout", "drainTimeout"), FOR_EVER)
    enough = tmp_path / "enough"
    with served(tmp_path, limits=limits) as server:
        with asking(server, full(do="wait", file=str(enough), refuse='{"node-1": "no"}')) as answer:
            server.terminate()
            wait_until(
                lambda: server.probe("/readyz") == 503, PATIENCE_SECONDS, what="not ready while draining"
            )
            wait_until(lambda: refused(server.port), PATIENCE_SECONDS, what="new connections are refused")
            assert server.look("/livez", timeout_seconds=PATIENCE_SECONDS)[0] == 200
            said = server.look("/readyz", timeout_seconds=PATIENCE_SECONDS)[1]
            assert "the server is shutting down" in said

            enough.touch()
            assert list(answer()["FailedAndUnresolvableNodes"]) == ["node-1"]
        assert server.child.wait_ended(PATIENCE_SECONDS) == 0
        assert "drained; 0 requests left" in server.child.log()


def test_sigterm_does_not_wait_for_a_stuck_policy_thread(tmp_path: Path) -> None:
    limits = {"policyTimeout": "200ms", "requestTimeout": "1s", "drainTimeout": FOR_EVER}
    with served(tmp_path, limits=limits) as server:
        assert "still running after" in server.ask("filter", full(do="sleep", seconds="600"))["Error"]
        server.terminate()

        assert server.child.wait_ended(PATIENCE_SECONDS) == 0
        assert "drained; 0 requests left" in server.child.log()


def test_sigterm_does_not_wait_for_ever_for_a_slow_caller(tmp_path: Path) -> None:
    with served(tmp_path, limits={"drainTimeout": "500ms", "bodyTimeout": FOR_EVER}) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(request("filter", FULL)[:-5])
            wait_until(lambda: in_flight(server) == 1, PATIENCE_SECONDS, what="the request is under way")
            server.terminate()

            assert server.child.wait_ended(PATIENCE_SECONDS) == 0
        assert "drained; 1 requests left" in server.child.log()


def test_idle_connections_do_not_hold_the_end_up(tmp_path: Path) -> None:
    with served(tmp_path, limits={"drainTimeout": FOR_EVER, "keepAlive": FOR_EVER}) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request("POST", "/filter", json.dumps(FULL))
            connection.getresponse().read()
            server.terminate()

            assert server.child.wait_ended(PATIENCE_SECONDS) == 0


async def test_who_asks_no_more_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The longest time for callers to go elsewhere: it is for those who go on asking.
    monkeypatch.setattr(leaving, "_LEAVING_SECONDS", 600.0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with Server(make_options(tmp_path, view=NODES)).running() as server:
            reader, writer = await asyncio.open_connection(*server.listener.address)
            writer.write(request("filter", names_request(NODES)))
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            server.stop()
        writer.close()


def test_who_still_asks_after_sigterm_is_answered_and_told_to_connect_anew(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)

        def ask() -> http.client.HTTPResponse:
            connection.request("POST", "/filter", json.dumps(FULL))
            answer = connection.getresponse()
            assert json.loads(answer.read()).get("Error", "") == ""
            return answer

        with contextlib.closing(connection):
            assert ask().getheader("Connection") != "close"
            server.terminate()
            wait_until(lambda: server.probe("/readyz") == 503, 2, what="not ready any more")
            # The connection of before, then new ones, as long as somebody asks.
            assert [ask().getheader("Connection") for _ in range(3)] == ["close"] * 3
        assert server.child.wait_ended() == 0


def test_who_never_stops_asking_does_not_hold_the_end_up(tmp_path: Path) -> None:
    with served(tmp_path, limits={"drainTimeout": FOR_EVER}) as server:
        server.ask("filter", FULL)
        start = time.monotonic()
        server.terminate()

        def go_on_asking() -> None:
            while time.monotonic() - start < PATIENCE_SECONDS:
                server.ask("filter", FULL, timeout_seconds=PATIENCE_SECONDS)

        with pytest.raises(OSError, match=r"refused|reset|closed|Broken pipe"):
            go_on_asking()

        # Callers get some time to go elsewhere; a slow machine makes it more, never less.
        assert time.monotonic() - start > 2
        assert server.child.wait_ended(PATIENCE_SECONDS) == 0


def test_sigterm_while_the_api_server_does_not_answer_ends_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = tmp_path / "kubeconfig"
        context = {"name": "x", "context": {"cluster": "x"}}
        cluster = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}
        kubeconfig.write_text(
            json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "x"})
        )
        config = write_config(tmp_path)
        child = Child(
            "bayplan serve",
            [BAYPLAN, "serve", "--config", config, "--kubeconfig", kubeconfig, "--page-listen=off"],
            log=tmp_path / "log",
        )
        silent.settimeout(20)
        with silent.accept()[0]:
            os.kill(child.pid, signal.SIGTERM)

            assert child.wait_ended() == 0
        assert "not ready until it is listed" in child.log()


def test_sigterm_while_a_call_of_a_source_hangs_ends_in_time(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(
        "import asyncio, time, bayplan\n"
        "PRICE = bayplan.Source('prices')\n"
        "@bayplan.source(every='1s', max_age='10s', timeout='100ms')\n"
        "async def prices(http):\n"
        "    return await asyncio.to_thread(time.sleep, 1000)\n"
        "@bayplan.score\n"
        "def cheap(pod, nodes):\n"
        "    return nodes[PRICE]\n"
    )
    listen = [f"--{which}=127.0.0.1:{free_port()}" for which in ("listen", "ops-listen")]
    child = Child(
        "bayplan serve",
        [BAYPLAN, "serve", tmp_path / "policy.py", *listen, "--page-listen=off"],
        log=tmp_path / "log",
    )
    try:
        child.wait_until(lambda: "source prices: no answer" in child.log(), PATIENCE_SECONDS)
        os.kill(child.pid, signal.SIGTERM)

        assert child.wait_ended(PATIENCE_SECONDS) == 0
    finally:
        child.stop()


def test_certificates_are_replaced_by_the_real_server_too(tmp_path: Path) -> None:
    ca, other = make_ca("ca", tmp_path / "ca"), make_ca("other", tmp_path / "other")
    tls = {"certFile": "tls.crt", "keyFile": "tls.key", "reload": "100ms"}

    def put(pair: KeyPair) -> None:
        (tmp_path / "tls.crt").write_bytes(pair.cert.read_bytes())
        (tmp_path / "tls.key").write_bytes(pair.key.read_bytes())

    def connected(authority: Authority) -> http.client.HTTPSConnection | None:
        context = ssl.create_default_context(cafile=str(authority.cert))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=context)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError:
            return None
        return connection

    def answer(connection: http.client.HTTPSConnection) -> int:
        connection.request("POST", "/filter", json.dumps(FULL))
        response = connection.getresponse()
        response.read()
        return response.status

    put(ca.issue("extender", ips=["127.0.0.1"], server=True))
    with served(tmp_path, tls=tls) as server:
        old = connected(ca)
        assert old is not None
        with contextlib.closing(old):
            assert answer(old) == 200
            put(other.issue("extender", ips=["127.0.0.1"], server=True))
            new = wait_until(lambda: connected(other), 10, what="the new certificate is shown")
            with contextlib.closing(new):
                assert answer(new) == 200
            assert answer(old) == 200, "what was open lives on"
            assert connected(ca) is None


def test_something_that_holds_the_interpreter_ends_the_process_and_a_restart_works(tmp_path: Path) -> None:
    limits = {"interpreterTimeout": "2s"}
    with served(tmp_path, limits=limits) as server:
        assert server.ask("filter", FULL)["Error"] == ""
        caller = threading.Thread(
            target=_ignore_errors, args=(server, full(do="hold the interpreter")), daemon=True
        )
        caller.start()
        wait_until(lambda: server.probe("/livez") is None, 5, what="nobody answers probes")

        assert server.child.wait_ended() == 1
        caller.join(5)
        log = server.child.log()
        assert "Timeout (0:00:02)!" in log
        assert "obedient.py" in log, "the traceback says who held it"

    with served(tmp_path, limits=limits) as again:
        assert again.ask("filter", FULL)["Error"] == ""


def _ignore_errors(server: Served, body: Any) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        server.ask("filter", body, timeout_seconds=20)


@pytest.mark.alone
def test_probes_are_answered_within_a_second_while_every_thread_loops(tmp_path: Path) -> None:
    limits = {"policyTimeout": "3s", "requestTimeout": "4s"}
    with served(tmp_path, limits=limits) as server:
        callers = [
            threading.Thread(target=_ignore_errors, args=(server, full(do="loop")), daemon=True)
            for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        wait_until(lambda: in_flight(server) == 4, 5, what="all four are under way")

        for path in ("/livez", "/readyz", "/metrics"):
            start = time.monotonic()
            assert server.probe(path) == 200
            assert time.monotonic() - start < 1
        for caller in callers:
            caller.join(10)
        assert server.ask("filter", FULL)["Error"] == ""


@pytest.mark.alone
@on_linux
def test_memory_stays_flat_under_a_flood_of_bad_and_large_requests(tmp_path: Path) -> None:
    limit = 4_000_000
    large = json.dumps(nodes_request([make_node(f"n-{n}", fill=3_000) for n in range(1000)])).encode()
    bad = [b"", b"[" * 50_000, b"{" * 1000, b"x" * 200_000, b'{"Pod":{"metadata":{"name":"' + b"y" * 500_000]

    def flood(server: Served, rounds: int) -> None:
        for _ in range(rounds):
            for body in (*bad, large, b"x" * (limit + 1)):
                server.ask("filter", body)
            for body in bad:
                server.ask("prioritize", body)
            with socket.create_connection(("127.0.0.1", server.port)) as rude:
                rude.sendall(b"GARBAGE / HTTP\r\n\r\n")
                rude.recv(1000)
            server.ask("filter", full(refuse=json.dumps({"node-1": f"reason {time.monotonic_ns()}"})))

    with served(tmp_path, limits={"maxBodyBytes": limit}) as server:
        flood(server, 15)
        before = server.resident_bytes()
        flood(server, 40)
        after = server.resident_bytes()
        assert server.ask("filter", FULL)["Error"] == ""

    print(f"resident before {before / 1e6:.0f} MB, after {after / 1e6:.0f} MB")
    assert after - before < 25_000_000


def test_a_caller_that_closed_its_half_is_answered_by_the_real_server_too(tmp_path: Path) -> None:
    with served(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)) as caller:
        caller.sendall(request("filter", full(do="sleep", seconds="0.2")))
        caller.shutdown(socket.SHUT_WR)
        answer = b""
        while part := caller.recv(65536):
            answer += part

    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b'"Error":""}')


def was_closed(caller: socket.socket) -> bool:
    """Whether the server has closed the connection."""
    if not select.select([caller], [], [], 0)[0]:
        return False
    try:
        return caller.recv(1, socket.MSG_PEEK) == b""
    except ConnectionError:
        return True


def test_a_burst_over_the_connection_cap_is_held_by_the_real_server_too(tmp_path: Path) -> None:
    with served(tmp_path, limits={"maxConnections": 5}) as server, contextlib.ExitStack() as stack:
        callers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            for _ in range(50)
        ]
        # All have come in before the first one asks: one that was answered would make room for the next.
        wait_until(lambda: sum(map(was_closed, callers)) == 45, 20, what="all but five are closed")
        answered = 0
        for caller in callers:
            with contextlib.suppress(ConnectionError):
                caller.sendall(request("filter", FULL))
                answered += caller.recv(15) == b"HTTP/1.1 200 OK"

    assert answered == 5


def test_observe_and_json_logs_are_flags(tmp_path: Path) -> None:
    with served(tmp_path, "--observe", "--log-format=json") as server:
        answer = server.ask("filter", full(refuse='{"node-1": "no"}'))

    # When it has ended: what is logged of a decision comes after its answer.
    lines = [json.loads(line) for line in server.child.log().splitlines()]
    assert len(answer["Nodes"]["items"]) == 3
    assert any("would refuse 1 of 3 nodes (1 no)" in line["message"] for line in lines)


@pytest.mark.parametrize(("flag", "other"), [("--listen", "--ops-listen"), ("--ops-listen", "--listen")])
def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path, flag: str, other: str) -> None:
    with served(tmp_path / "first") as server:
        policy, taken = tmp_path / "first" / "obedient.py", f"127.0.0.1:{server.port}"
        second = Child(
            "second",
            [BAYPLAN, "serve", policy, flag, taken, other, f"127.0.0.1:{free_port()}", "--page-listen=off"],
            log=tmp_path / "log",
        )

        assert second.wait_ended() == 1
        said = f"Error: cannot listen on {taken}: Address already in use; is another `bayplan` running?"
        assert f"{said} choose another address with {flag}\n" in second.log()
        assert "Traceback" not in second.log()


@pytest.mark.parametrize(
    "host", [pytest.param("a..b", id="an empty label"), pytest.param("\u2603" * 70, id="a long one")]
)
def test_a_host_that_is_none_is_an_error_with_its_name(tmp_path: Path, host: str) -> None:
    async def start() -> None:
        async with Server(replace(make_options(tmp_path), listen=(host, 0))).running():
            raise AssertionError("it must not start")

    with pytest.raises(ListenError, match="cannot listen on"):
        asyncio.run(start())


async def test_draining_in_this_process_answers_what_is_under_way(tmp_path: Path) -> None:
    pod = make_pod(do="sleep", seconds="0.5")
    async with Server(make_options(tmp_path, view=NODES)).running() as server:
        under_way = asyncio.create_task(ask(server, "filter", names_request(NODES, pod=pod)))
        while await metric(server, "bayplan_requests_in_flight") == 0:
            assert not under_way.done()

    assert (await under_way).json["NodeNames"] == NODES
