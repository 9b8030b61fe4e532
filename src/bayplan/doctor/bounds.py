"""Checks values that are valid alone, but with which kube-scheduler does not start in combination."""

from collections.abc import Iterator

from bayplan.doctor.duration import go_seconds, in_words
from bayplan.doctor.finding import Finding
from bayplan.doctor.scheduler_file import Part, SchedulerFile
from bayplan.doctor.schema import LEADER_ELECTION
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_files import VALUE_OUT_OF_RANGE
from bayplan.kube.yaml import Path

_DEFAULT_BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10}
_DEFAULT_SECONDS = {"leaseDuration": 15.0, "renewDeadline": 10.0, "retryPeriod": 2.0}
# A retry waits up to this many times retryPeriod, so that not all candidates try at once.
_JITTER = 1.2


def check_bounds(file: SchedulerFile, _: Setting) -> Iterator[Finding]:
    """Backoffs whose maximum is below the initial value, and leases that expire before they are renewed."""
    yield from _backoff(file)
    yield from _leader_election(file)


def _backoff(file: SchedulerFile) -> Iterator[Finding]:
    first, last = "podInitialBackoffSeconds", "podMaxBackoffSeconds"
    if any(file.top.has(key) and file.top.whole(key) is None for key in (first, last)):
        return
    seconds = {
        key: value if (value := file.top.whole(key)) is not None else default
        for key, default in _DEFAULT_BACKOFF.items()
    }
    if seconds[last] < seconds[first]:
        what = f"{last} is {seconds[last]}, less than {first}, which is {seconds[first]}"
        yield file.found(VALUE_OUT_OF_RANGE, _written(file.top, last, first), what)


def _leader_election(file: SchedulerFile) -> Iterator[Finding]:
    part = file.top.part("leaderElection", LEADER_ELECTION)
    # Without leader election, the other values are not used.
    if part.has("leaderElect") and not part.flag("leaderElect"):
        return
    lock = part.text("resourceLock")
    if lock not in ("", "leases"):
        what = f"resourceLock is {lock!r}, and only leases are left"
        yield file.found(VALUE_OUT_OF_RANGE, part.at("resourceLock"), what)
    seconds: dict[str, float] = {}
    for key, default in _DEFAULT_SECONDS.items():
        read = go_seconds(part.text(key)) if part.has(key) else 0.0
        if read is None:
            return
        # 0s means unset.
        seconds[key] = read or default
    lease, renew, retry = seconds.values()
    if retry <= 0:
        what = f"retryPeriod is {in_words(retry)}, which is not above 0"
        yield file.found(VALUE_OUT_OF_RANGE, part.at("retryPeriod"), what)
    if renew <= max(retry * _JITTER, 0):
        at = _written(part, "renewDeadline", "retryPeriod")
        what = f"renewDeadline is {in_words(renew)}, not above {_JITTER} times retryPeriod, {in_words(retry)}"
        yield file.found(VALUE_OUT_OF_RANGE, at, what)
    if lease <= renew:
        at = _written(part, "leaseDuration", "renewDeadline")
        what = f"leaseDuration is {in_words(lease)}, not above renewDeadline, {in_words(renew)}"
        yield file.found(VALUE_OUT_OF_RANGE, at, what)


def _written(part: Part, *keys: str) -> Path:
    """The first of the keys that is written; the others are defaults."""
    return next((part.at(key) for key in keys if part.has(key)), part.path)
