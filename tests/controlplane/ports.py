"""Loopback ports that nobody else gets."""

from __future__ import annotations

import socket
import sys

# Bound sockets that never listen. Linux lets a server with SO_REUSEADDR (Go, asyncio and
# http.server set it) listen on such a port, while the kernel gives it to nobody who asks for
# "any port" nor to outgoing connections: two test runs at once cannot take it from each other.
_RESERVATIONS: list[socket.socket] = []


def free_port() -> int:
    """Reserve a free port of 127.0.0.1 until this process ends."""
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    port: int = reservation.getsockname()[1]
    if sys.platform == "linux":
        _RESERVATIONS.append(reservation)
    else:
        # Elsewhere a second bind is refused, so the port is only probably free.
        reservation.close()
    return port
