"""The server's health checks, gauges and facts: for ``/readyz``, ``/metrics`` and the page."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bayplan.ops.health import Health
from bayplan.runtimes import facts
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.writer import LeaseOptions
from bayplan.web.sight import Sight
from bayplan.wire.scale import to_wire

if TYPE_CHECKING:
    from bayplan.runtimes.extender.serve import Server


class Vitals:
    """Health, gauges and facts of one server."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.health = Health()
        self.health.live["policy-threads"] = server.workers.check
        self.health.live["following"] = lambda: server.tasks.lost
        self.health.ready["not-draining"] = self._draining
        if server.options.connection is not None or server.options.snapshot is not None:
            self.health.ready["cluster-view"] = self._view
        if server.options.lease is not None:
            self.health.ready["one-writer"] = self._one_writer
        self.health.notes = self._notes

    def refresh(self) -> None:
        """Set the gauges, before metrics are read."""
        server, metrics = self._server, self._server.metrics
        server.app.later.catch_up()
        generation = server.generation
        unhealthy = server.workers.unhealthy()
        metrics.know_policies({p.name: p.name not in unhealthy for p in generation.verbs.policies})
        for (check, endpoint), passes in self.health.results().items():
            metrics.health.labels(check, endpoint).set(passes)
        facts.count_sources(metrics.sources, generation.sources)
        metrics.generation.set(generation.number)
        shadow = server.shadow.report()
        metrics.shadow.generation.set(shadow.generation)
        metrics.shadow.waiting.set(shadow.waiting)
        metrics.connections.set(len(server.listener.http.connections))
        metrics.in_flight.set(server.app.in_flight)
        if server.live is not None:
            metrics.view_max_age.set(server.options.max_age_seconds)
            metrics.assumed.set(server.live.ledger.assumed_count)
            metrics.unsettled.set(server.live.ledger.unsettled_count)
            metrics.rewritten.set(len(server.live.view.cache.rewritten.keys))
            may_bind = server.binding is not None and not server.live.why_not_bind()
            metrics.writer.labels(_title(server.options.lease)).set(may_bind)
        seen = server.view.current
        if seen is not None:
            metrics.view_nodes.set(len(seen.nodes))
            if seen.pods_known:
                metrics.view_pods.set(len(seen.pods))
            metrics.view_age.set(server.view.age_seconds)

    def sight(self) -> Sight:
        """What the page shows of this server."""
        server = self._server
        return Sight(
            journal=server.journal,
            cluster=self._cluster,
            facts=self.facts,
            to_wire=to_wire,
            version=server.options.version,
            columns=lambda: list(
                {column: None for policy in server.generation.verbs.policies for column in policy.columns}
            ),
            policies=lambda: [policy.name for policy in server.generation.verbs.policies],
            problems=self.health.problems,
            shadow=server.shadow.report,
        )

    def _cluster(self) -> Snapshot | None:
        seen = self._server.view.current
        return None if seen is None else seen.with_readings(self._server.generation.sources.current)

    def facts(self) -> dict[str, dict[str, Any]]:
        """The state of the server, by subject."""
        server = self._server
        generation = server.generation
        found: dict[str, dict[str, Any]] = {
            "health": facts.of_health(self.health),
            "policies": {
                "generation": generation.number,
                "names": [policy.name for policy in generation.verbs.policies],
                "observe": generation.verbs.observe,
                "reloadProblem": server.reload_problem(),
            },
            "journal": facts.of_journal(server.journal, server.journal_file),
            "view": {
                "ageSeconds": server.view.age_seconds,
                "problem": server.view.problem(),
                **facts.of_view(server.view.current),
            },
            "sources": facts.of_sources(generation.sources),
            "threads": facts.of_threads(server.workers),
        }
        ends = server.options.tls.ends() if server.options.tls is not None else None
        if ends is not None:
            found["certificates"] = facts.of_certificate(ends, now=datetime.now(UTC))
        if server.live is not None and server.binding is not None:
            found["ledger"] = {
                "assumed": server.live.ledger.assumed_count,
                "unsettled": server.live.ledger.unsettled_count,
                "mayBind": not server.live.why_not_bind(),
                "whyNotBind": server.live.why_not_bind(),
            }
        return found

    def certificates_loaded(self) -> None:
        """Set the gauge of when the certificate in use expires."""
        tls = self._server.options.tls
        ends = tls.ends() if tls is not None else None
        self._server.metrics.certificate_expiry.clear()
        if ends is not None:
            self._server.metrics.certificate_expiry.labels("server").set(ends.timestamp())

    def _draining(self) -> str:
        return "the server is shutting down" if self._server.leaving.draining else ""

    def _view(self) -> str:
        return self._server.view.problem()

    def _one_writer(self) -> str:
        return self._server.live.why_not_ready() if self._server.live else ""

    def _notes(self) -> dict[str, str]:
        """Problems that fail no check, by subject."""
        server = self._server
        generation = server.generation
        notes = facts.overrun_notes(server.workers, generation.verbs.policies)
        notes |= {f"source {name}": text for name, text in generation.sources.problems().items()}
        notes |= {"sources": generation.problem, "background": server.tasks.problem}
        notes["recording"] = server.recorder.problem if server.recorder is not None else ""
        notes["journal"] = server.journal_file.problem if server.journal_file is not None else ""
        return notes | {"reload": server.reload_problem(), "shadow": server.shadow.report().problem}


def _title(lease: LeaseOptions | None) -> str:
    return f"{lease.namespace}/{lease.name}" if lease is not None else ""
