"""Keeps a child that a policy forks apart from the server: its signals, its connections and its work.

A forked child has every open socket of the server, and its signal handlers. Left alone it would keep the port
open after the server has ended, and never answer there. Its signals would reach the server: `terminate` on a
`multiprocessing.Process` stopped the server and not the child. And where the code that forked returns, the
child would go on with the server's work.

So a child begins without the server's signal handlers and network sockets, and it ends where it would return
to the server. What it shares with other processes on purpose, such as pipes and files, stays open.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

_NETWORK = (socket.AF_INET, socket.AF_INET6)
_STANDARD = (0, 1, 2)
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class _Process:
    """Which loop serves in this process, and in which thread; whether this is a child of it."""

    loop: asyncio.AbstractEventLoop | None = None
    thread: int = 0
    is_child: bool = False


class _Mask(threading.local):
    """The signals that a thread had blocked before it forked."""

    before: Iterable[int] = ()


_process = _Process()
_mask = _Mask()


def keep_children_apart() -> None:
    """Let forked children of this process be no servers, from now on; called where the event loop runs."""
    if _process.loop is None:
        os.register_at_fork(
            before=_hold_signals, after_in_parent=_release_signals, after_in_child=_begin_child
        )
    _process.loop, _process.thread = asyncio.get_running_loop(), threading.get_ident()


def end_child() -> None:
    """End the process if it is a forked child, without what the server does at its end."""
    if _process.is_child:
        log.warning("a policy or a source forked, and the child came back from it: the child ends")
        os._exit(1)


def _hold_signals() -> None:
    # A signal that comes before the child has changed its handlers waits until it has.
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _begin_child() -> None:
    _process.is_child = True
    # The other end of this pipe is read by the server: it would take the child's signals for its own.
    signal.set_wakeup_fd(-1)
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    _release_signals()
    _leave_network()
    if _process.loop is not None and threading.get_ident() == _process.thread:
        # Before the loop looks for events: it shares those, too.
        _process.loop.call_soon(end_child)


def _leave_network() -> None:
    """Close the network sockets that the child has from the server.

    Objects of the server still name them, and could close another file of the same number. So their numbers
    stay in use.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        if number not in _STANDARD and _is_network(number):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _is_network(number: int) -> bool:
    # Most numbers are no sockets, and that of the listing itself is closed by now.
    with contextlib.suppress(OSError):
        found = socket.socket(fileno=number)
        try:
            return found.family in _NETWORK
        finally:
            found.detach()
    return False
