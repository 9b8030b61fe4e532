"""Facts that every server reports: health, policy threads, sources, view, journal."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from bayplan.authoring.registry import Policy
from bayplan.engine.journal import Journal
from bayplan.ops.health import Health
from bayplan.ops.source_metrics import SourceMetrics
from bayplan.recording.journal_file import JournalFile
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.sources.book import Sources


def of_health(health: Health) -> dict[str, Any]:
    """Whether ``/readyz`` passes, and each problem that it names with ``?verbose``; remarks are none."""
    found: dict[str, Any] = {"ready": all(health.results().values())}
    problems = health.problems()
    return found | {"problems": problems} if problems else found


def of_threads(workers: Workers) -> dict[str, Any]:
    """The state of the policy threads."""
    return {
        "stuck": len(workers.stuck()),
        "unhealthy": sorted(workers.unhealthy()),
        "overruns": sum(workers.overruns().values()),
    }


def of_sources(sources: Sources) -> dict[str, Any]:
    """The state of each source, and the age of its values."""
    found: dict[str, Any] = {}
    for name, problem in sources.problems().items():
        each = sources.polled.get(name) or sources.asked[name]
        found[name] = {"problem": problem, "breaker": "open" if each.broken else "closed"}
        if name in sources.polled:
            found[name]["ageSeconds"] = sources.polled[name].age_seconds
            found[name]["nodes"] = sources.polled[name].known_nodes
    return found


def count_sources(metrics: SourceMetrics, sources: Sources) -> None:
    """Set the gauges about sources."""
    metrics.forget()
    for name, poller in sources.polled.items():
        metrics.age.labels(name).set(poller.age_seconds)
        metrics.max_age.labels(name).set(poller.source.max_age_seconds)
        metrics.nodes.labels(name).set(poller.known_nodes)
    for name, answers in sources.up().items():
        metrics.up.labels(name).set(answers)


def of_certificate(ends: datetime, *, now: datetime) -> dict[str, Any]:
    """When the server's certificate ends, and whether that is over."""
    problem = "it has expired: callers that check it cannot connect" if ends <= now else ""
    return {"serverEnds": ends.isoformat(), "problem": problem}


def of_journal(journal: Journal, file: JournalFile | None) -> dict[str, Any]:
    """The size of the journal, and the state of its file."""
    found: dict[str, Any] = {"decisions": len(journal), "bytes": journal.size_bytes}
    return found if file is None else found | {"file": str(file.path), "problem": file.problem}


def of_view(seen: Snapshot | None) -> dict[str, Any]:
    """The numbers of nodes and pods in view; empty without a view."""
    if seen is None:
        return {}
    return {"nodes": len(seen.nodes), "pods": len(seen.pods) if seen.pods_known else None}


def overrun_notes(workers: Workers, policies: Iterable[Policy]) -> dict[str, str]:
    """For each policy a text about its overruns; empty if it had none."""
    return {f"policy {policy.name}": _overran(workers, policy.name) for policy in policies}


def _overran(workers: Workers, policy: str) -> str:
    overruns = workers.overruns().get(policy, 0)
    if not overruns:
        return ""
    stuck = sum(hook.policy == policy for hook in workers.stuck())
    state = "unhealthy: overran" if policy in workers.unhealthy() else "overran"
    return f"{state} {overruns} times, {stuck} threads stuck"
