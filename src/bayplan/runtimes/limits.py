"""The limits that keep a server responsive."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server; sizes in bytes, times in seconds."""

    max_body_bytes: int = 256 * 1024 * 1024
    max_connections: int = 512
    max_in_flight: int = 64
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    keep_alive_seconds: float = 300.0
    policy_seconds: float = 1.0
    request_seconds: float = 4.5
    drain_seconds: float = 20.0
    stuck_threads: int = 4
    interpreter_seconds: float = 30.0
