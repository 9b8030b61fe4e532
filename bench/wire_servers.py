"""The servers that the wire benchmark calls, each a process of its own, with the same nodes from one file.

Bayplan has on what it has on by itself: journal, metrics, and the page, with somebody listening to it.
"""

import contextlib
import http.client
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from bench.peers_built import PEERS, PeerMissing, cache_directory, digest_of, find_go
from bench.wire_figures import ASKED, BESIDE, EACH
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child

_POLICIES = {ASKED: "asked.py", EACH: "each.py", BESIDE: "beside.py"}
# The same answer as the peers give: every refused node, with its reason, each time.
_CONFIG = """
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
policies:
- use: {policy}
extender:
  answer:
    failedNodes: always
"""
READY_SECONDS = 120.0


@dataclass(frozen=True)
class Server:
    """One that runs."""

    name: str
    port: int
    child: Child


@dataclass(frozen=True)
class Peers:
    """How to start those that are there."""

    go: Path
    flask: Path | None
    """A Python that has Flask."""


def find_peers() -> Peers:
    """Build and install what is not there yet; Flask is left out, loudly, where it cannot be had."""
    flask: Path | None = None
    try:
        flask = _flask(cache_directory())
    except (PeerMissing, OSError, subprocess.CalledProcessError) as missing:
        print(f"!!! NO FLASK COLUMN: {missing}", file=sys.stderr, flush=True)
    return Peers(find_go(), flask)


def policy_of(mode: str) -> Path:
    """The policy that Bayplan has: the same rules, written in one way or another."""
    return PEERS / "bayplan" / _POLICIES.get(mode, "policy.py")


@contextlib.contextmanager
def servers(peers: Peers, folder: Path, nodes: Path, *, policy: Path) -> Iterator[list[Server]]:
    """Bayplan first, then the peers; gone when the block ends."""
    with contextlib.ExitStack() as stack:
        started = [_bayplan(folder, nodes, policy=policy, stack=stack)]
        port = free_port()
        argv: list[str | Path] = [peers.go, f"-listen=127.0.0.1:{port}", f"-nodes={nodes}"]
        started.append(_start("Go", port, argv, folder=folder, stack=stack, ready=(port, "/healthz")))
        if peers.flask is not None:
            port = free_port()
            argv = [peers.flask, PEERS / "flask" / "sample.py", str(port), nodes]
            started.append(_start("Flask", port, argv, folder=folder, stack=stack, ready=(port, "/healthz")))
        yield started


def _bayplan(folder: Path, nodes: Path, *, policy: Path, stack: contextlib.ExitStack) -> Server:
    port, ops_port, page_port = free_port(), free_port(), free_port()
    config = folder / "bayplan.yaml"
    config.write_text(_CONFIG.format(policy=policy))
    argv: list[str | Path] = [
        Path(sys.executable).with_name("bayplan"),
        "serve",
        f"--config={config}",
        f"--listen=127.0.0.1:{port}",
        f"--ops-listen=127.0.0.1:{ops_port}",
        f"--page-listen=127.0.0.1:{page_port}",
        f"--snapshot={nodes}",
    ]
    server = _start("Bayplan", port, argv, folder=folder, stack=stack, ready=(ops_port, "/readyz"))
    page = stack.enter_context(socket.create_connection(("127.0.0.1", page_port)))
    page.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{page_port}\r\n\r\n".encode())
    assert page.recv(65536).startswith(b"HTTP/1.1 200 "), "the page tells no news"
    Thread(target=_listen, args=(page,), daemon=True).start()
    return server


def _listen(page: socket.socket) -> None:
    """Read what the page is told, until somebody hangs up."""
    with contextlib.suppress(OSError):
        while page.recv(65536):
            pass


def _start(
    name: str,
    port: int,
    argv: Sequence[str | Path],
    *,
    folder: Path,
    stack: contextlib.ExitStack,
    ready: tuple[int, str],
) -> Server:
    child = Child(name, argv, log=folder / f"{name}.log")
    stack.callback(child.stop)
    child.wait_until(lambda: _answers(*ready), READY_SECONDS)
    return Server(name, port, child)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False


def _flask(directory: Path) -> Path:
    wanted = PEERS / "flask" / "requirements.txt"
    home = directory / f"flask-{digest_of([wanted])}"
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        print("installing Flask into an environment of its own (once)", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        argv: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "-r", wanted]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise PeerMissing(f"pip: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        ready.touch()
    return python
