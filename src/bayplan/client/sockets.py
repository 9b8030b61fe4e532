"""Sockets with keepalive, which notice that the peer is gone."""

import contextlib
import socket
from typing import Any

# A peer that vanished is noticed after some 25 s, even on a watch without events.
_KEEPALIVE = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 25_000),
)


def open_socket(address: Any) -> socket.socket:
    """An unconnected socket for an address of ``getaddrinfo``."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for level, name, value in _KEEPALIVE:
        # Not every platform has every option.
        with contextlib.suppress(AttributeError, OSError):
            opened.setsockopt(level, getattr(socket, name), value)
    return opened
