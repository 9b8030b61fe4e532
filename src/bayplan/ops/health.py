"""Health checks in the format of Kubernetes: ``/livez``, ``/readyz`` and ``/healthz``, with ``?verbose``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Check = Callable[[], str]
"""Returns the problem, or ``""``."""


@dataclass
class Health:
    """Named checks. Liveness is for what only a restart cures; readiness for transient problems."""

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)
    notes: Callable[[], Mapping[str, str]] = dict
    """Problems that fail no check, shown with ``?verbose``; they do not affect health."""
    remarks: Callable[[], Mapping[str, str]] = dict
    """What is worth knowing and no problem, such as that another server leads; shown with ``?verbose``."""

    def results(self) -> dict[tuple[str, str], bool]:
        """Whether each check passes, by its name and endpoint."""
        return {
            (name, endpoint): not check()
            for endpoint, checks in (("livez", self.live), ("readyz", self.ready))
            for name, check in checks.items()
        }

    def problems(self) -> dict[str, str]:
        """The checks that fail and the notes, by name: all that is wrong."""
        found = {name: check() for name, check in (self.live | self.ready).items()} | dict(self.notes())
        return {name: wrong for name, wrong in found.items() if wrong}

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
        said = [*self.notes().items(), *self.remarks().items()]
        lines += [f"[!]{name}: {text}" for name, text in said if text]
        lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
        return healthy, "\n".join(lines) + "\n"
