"""Sockets that notice when the other end is gone."""

import contextlib
import socket
from typing import Any

# A peer that vanished without a word is noticed after some 25 s, on watches that are silent by nature.
_KEEPALIVE = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 25_000),
)


def open_socket(address: Any) -> socket.socket:
    """A socket for an address as ``getaddrinfo`` gives it, not connected yet."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for level, name, value in _KEEPALIVE:
        # Not every platform has each of them; what there is, is set.
        with contextlib.suppress(AttributeError, OSError):
            opened.setsockopt(level, getattr(socket, name), value)
    return opened
