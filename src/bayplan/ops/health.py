"""Health in the words of Kubernetes: ``/livez``, ``/readyz`` and ``/healthz``, with ``?verbose``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Check = Callable[[], str]
"""Answers ``""`` when all is well, else what is wrong."""


@dataclass
class Health:
    """Named checks. Liveness is for what only a restart cures; readiness for what passes by itself."""

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)
    notes: Callable[[], Mapping[str, str]] = dict
    """What else is good to know, shown with ``?verbose``; it fails nothing."""

    def results(self) -> dict[tuple[str, str], bool]:
        """Whether each check passes, by its name and the endpoint that it is for."""
        return {
            (name, endpoint): not check()
            for endpoint, checks in (("livez", self.live), ("readyz", self.ready))
            for name, check in checks.items()
        }

    def report(self, endpoint: str, *, verbose: bool) -> tuple[bool, str]:
        """Whether the endpoint is healthy, and the text to show."""
        checks = self.live if endpoint == "livez" else self.live | self.ready
        results = {name: check() for name, check in checks.items()}
        healthy = not any(results.values())
        if healthy and not verbose:
            return True, "ok"
        lines = [
            f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in results.items()
        ]
        lines += [f"[!]{name}: {wrong}" for name, wrong in self.notes().items() if wrong]
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return healthy, "\n".join(lines) + "\n"
