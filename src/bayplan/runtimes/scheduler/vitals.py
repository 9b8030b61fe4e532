"""How the scheduler is: the checks behind ``/readyz``, gauges, and what the page may see."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayplan.ops.health import Health
from bayplan.snapshot.cluster import Snapshot
from bayplan.web.sight import Sight

if TYPE_CHECKING:
    from bayplan.runtimes.scheduler.serve import Server

_PLACES = ("active", "backoff", "unschedulable", "gated")


class Vitals:
    """Looks at a scheduler."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.health = Health()
        self.health.live["policy-threads"] = server.workers.check
        self.health.live["scheduling"] = lambda: server.lost
        # A stand-by is ready: it has the cluster in view, and will go on where the other one stopped.
        self.health.ready["cluster-view"] = self._view
        self.health.notes = self._notes

    def refresh(self) -> None:
        """Bring the gauges up to date."""
        server, metrics = self._server, self._server.metrics
        unhealthy = server.workers.unhealthy()
        metrics.know_policies({p.name: p.name not in unhealthy for p in server.policies})
        for (check, endpoint), passes in self.health.results().items():
            metrics.health.labels(check, endpoint).set(passes)
        server.schedule_metrics.waiting(self._counts())
        server.schedule_metrics.binding.set(server.placing.count)
        metrics.generation.set(1)
        metrics.view_max_age.set(server.options.max_age_seconds)
        metrics.assumed.set(server.live.ledger.assumed_count)
        metrics.unsettled.set(server.live.ledger.unsettled_count)
        lease = server.options.lease
        title = f"{lease.namespace}/{lease.name}" if lease is not None else ""
        metrics.writer.labels(title).set(not server.live.why_not_bind())
        seen = server.live.view.current
        if seen is not None:
            metrics.view_nodes.set(len(seen.nodes))
            metrics.view_pods.set(server.live.view.cache.pod_count)
            metrics.view_age.set(server.live.view.age_seconds)

    def sight(self) -> Sight:
        """What the page may see."""
        server = self._server
        return Sight(
            journal=server.journal,
            cluster=self._cluster,
            facts=self.facts,
            to_wire=lambda scores: np.rint(scores).astype(np.int64).tolist(),
            version=server.options.version,
            columns=lambda: list({column: None for p in server.policies for column in p.columns}),
            policies=lambda: [policy.name for policy in server.policies],
        )

    def facts(self) -> dict[str, dict[str, Any]]:
        """State of the scheduler, by subject."""
        server = self._server
        return {
            "policies": {"generation": 1, "names": [policy.name for policy in server.policies]},
            "queue": {**self._counts(), "binding": server.placing.count},
            "journal": {"decisions": len(server.journal), "bytes": server.journal.size_bytes},
            "view": {"ageSeconds": server.live.view.age_seconds, "problem": server.live.view.problem()},
            "ledger": {
                "assumed": server.live.ledger.assumed_count,
                "unsettled": server.live.ledger.unsettled_count,
                "mayBind": not server.live.why_not_bind(),
                "whyNotBind": server.live.why_not_bind(),
            },
        }

    def _cluster(self) -> Snapshot | None:
        seen = self._server.live.view.current
        return None if seen is None else seen.with_readings(self._server.sources.current)

    def _view(self) -> str:
        return self._server.live.view.problem()

    def _counts(self) -> dict[str, int]:
        return {place: self._server.queue.count(place) for place in _PLACES}  # type: ignore[arg-type]

    def _notes(self) -> dict[str, str]:
        """What fails nothing and is good to know, by what it is about."""
        notes = {"leader": self._server.live.why_not_bind()}
        notes |= {f"source {name}": text for name, text in self._server.sources.problems().items()}
        file = self._server.journal_file
        return notes | {"journal": file.problem if file is not None else ""}
