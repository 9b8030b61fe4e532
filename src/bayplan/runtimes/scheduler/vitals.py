"""The scheduler's health checks, gauges and facts: for ``/readyz``, ``/metrics`` and the page."""

from typing import TYPE_CHECKING, Any

from bayplan.ops.health import Health
from bayplan.runtimes import facts
from bayplan.snapshot.cluster import Snapshot
from bayplan.web.sight import Sight

if TYPE_CHECKING:
    from bayplan.runtimes.scheduler.serve import Server


class Vitals:
    """Health, gauges and facts of one scheduler."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.health = Health()
        self.health.live["policy-threads"] = server.workers.check
        self.health.live["scheduling"] = lambda: server.tasks.lost
        # A stand-by is ready: it has the cluster in view, and can take over.
        self.health.ready["cluster-view"] = self._view
        self.health.notes = self._notes
        self.health.remarks = lambda: {"leader": self._stands_by()}

    def refresh(self) -> None:
        """Set the gauges, before metrics are read."""
        server, metrics = self._server, self._server.metrics
        unhealthy = server.workers.unhealthy()
        metrics.know_policies({p.name: p.name not in unhealthy for p in server.policies})
        for (check, endpoint), passes in self.health.results().items():
            metrics.health.labels(check, endpoint).set(passes)
        server.schedule_metrics.waiting(self._counts())
        server.schedule_metrics.binding.set(server.placing.count)
        server.schedule_metrics.waiting_for_volumes.set(server.placing.waiting_for_volumes)
        metrics.generation.set(server.generation.number)
        facts.count_sources(self._server.metrics.sources, self._server.sources)
        shadow = server.shadow.report()
        metrics.shadow.generation.set(shadow.generation)
        metrics.shadow.waiting.set(shadow.waiting)
        metrics.view_max_age.set(server.options.max_age_seconds)
        metrics.assumed.set(server.live.ledger.assumed_count)
        metrics.unsettled.set(server.live.ledger.unsettled_count)
        metrics.rewritten.set(len(server.live.view.cache.rewritten.keys))
        lease = server.options.lease
        title = f"{lease.namespace}/{lease.name}" if lease is not None else ""
        metrics.writer.labels(title).set(not server.live.why_not_bind())
        seen = server.live.view.current
        if seen is not None:
            metrics.view_nodes.set(len(seen.nodes))
            metrics.view_pods.set(server.live.view.cache.pod_count)
            metrics.view_age.set(server.live.view.age_seconds)

    def sight(self) -> Sight:
        """What the page shows of this scheduler."""
        server = self._server
        return Sight(
            journal=server.journal,
            cluster=self._cluster,
            facts=self.facts,
            to_wire=None,
            version=server.options.version,
            columns=lambda: list({column: None for p in server.policies for column in p.columns}),
            policies=self._names,
            schedulers=lambda: server.inbox.names,
            problems=self.health.problems,
            stands_by=self._stands_by,
            shadow=server.shadow.report,
        )

    def facts(self) -> dict[str, dict[str, Any]]:
        """The state of the scheduler, by subject."""
        server = self._server
        return {
            "health": facts.of_health(self.health),
            "policies": {
                "generation": server.generation.number,
                "names": self._names(),
                "reloadProblem": server.reload_problem(),
            },
            "queue": {
                **self._counts(),
                "gangs": server.gangs.watch.count,
                "binding": server.placing.count,
                "waitingForVolumes": server.placing.waiting_for_volumes,
            },
            "journal": facts.of_journal(server.journal, server.journal_file),
            "view": {
                "ageSeconds": server.live.view.age_seconds,
                "problem": server.live.view.problem(),
                **facts.of_view(server.live.view.current),
            },
            "sources": facts.of_sources(server.sources),
            "threads": facts.of_threads(server.workers),
            "ledger": {
                "assumed": server.live.ledger.assumed_count,
                "unsettled": server.live.ledger.unsettled_count,
                "standsBy": server.live.stands_by,
                "mayBind": not server.live.why_not_bind(),
                "whyNotBind": server.live.why_not_bind(),
            },
        }

    def _names(self) -> list[str]:
        """The names of the policies in force, each once."""
        return list(dict.fromkeys(policy.name for policy in self._server.policies))

    def _cluster(self) -> Snapshot | None:
        seen = self._server.live.view.current
        return None if seen is None else seen.with_readings(self._server.sources.current)

    def _view(self) -> str:
        return self._server.live.view.problem()

    def _stands_by(self) -> str:
        """Who places pods instead, while nothing is wrong with that."""
        return self._server.live.why_not_bind() if self._server.live.stands_by else ""

    def _counts(self) -> dict[str, int]:
        return self._server.queue.counts()

    def _notes(self) -> dict[str, str]:
        """Problems that fail no check, by subject."""
        server = self._server
        notes = facts.overrun_notes(server.workers, server.policies)
        notes["leader"] = "" if server.live.stands_by else server.live.why_not_bind()
        notes |= {f"source {name}": text for name, text in server.sources.problems().items()}
        notes |= {"sources": server.generation.problem, "background": server.tasks.problem}
        notes |= {"reload": server.reload_problem(), "shadow": server.shadow.report().problem}
        file, recorder = server.journal_file, server.onlookers.recorder
        notes["recording"] = recorder.problem if recorder is not None else ""
        return notes | {"journal": file.problem if file is not None else ""}
