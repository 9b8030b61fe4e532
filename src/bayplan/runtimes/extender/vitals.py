"""How the server is: the checks behind ``/readyz``, and the gauges that are read when somebody looks."""

from typing import TYPE_CHECKING

from bayplan.ops.health import Health

if TYPE_CHECKING:
    from bayplan.runtimes.extender.serve import Server


class Vitals:
    """Looks at a server."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.health = Health()
        self.health.live["policy-threads"] = server.workers.check
        self.health.ready["not-draining"] = self._draining
        if server.options.connection is not None or server.options.snapshot is not None:
            self.health.ready["cluster-view"] = self._view
        if server.options.lease is not None:
            self.health.ready["one-writer"] = self._one_writer
        self.health.notes = self._notes

    def refresh(self) -> None:
        """Bring the gauges up to date."""
        server, metrics = self._server, self._server.metrics
        generation = server.app.generation
        unhealthy = server.workers.unhealthy()
        metrics.policy_healthy.clear()
        for policy in generation.verbs.policies:
            metrics.policy_healthy.labels(policy.name).set(policy.name not in unhealthy)
        metrics.source_age.clear()
        for name, poller in generation.sources.polled.items():
            metrics.source_age.labels(name).set(poller.age_seconds)
        metrics.source_up.clear()
        for name, problem in generation.sources.problems().items():
            metrics.source_up.labels(name).set(not problem)
        metrics.generation.set(generation.number)
        metrics.connections.set(len(server.listener.http.connections))
        if server.live is not None:
            metrics.assumed.set(server.live.ledger.assumed_count)
            metrics.unsettled.set(server.live.ledger.unsettled_count)
            metrics.writer.set(not server.live.why_not_bind())
        seen = server.view.current
        if seen is not None:
            metrics.view_nodes.set(len(seen.nodes))
            if seen.pods_known:
                metrics.view_pods.set(len(seen.pods))
            metrics.view_age.set(server.view.age_seconds)

    def _draining(self) -> str:
        return "the server is shutting down" if self._server.draining else ""

    def _view(self) -> str:
        return self._server.view.problem()

    def _one_writer(self) -> str:
        return self._server.live.why_not_bind() if self._server.live else ""

    def _notes(self) -> dict[str, str]:
        """What fails nothing and is good to know, by what it is about."""
        generation = self._server.app.generation
        notes = {f"policy {p.name}": self._policy_note(p.name) for p in generation.verbs.policies}
        notes |= {f"source {name}": text for name, text in generation.sources.problems().items()}
        return notes | {"reload": self._server.reload_problem()}

    def _policy_note(self, policy: str) -> str:
        workers = self._server.workers
        stuck = sum(hook.policy == policy for hook in workers.stuck())
        overruns = workers.overruns().get(policy, 0)
        if not overruns:
            return ""
        state = "unhealthy: overran" if policy in workers.unhealthy() else "overran"
        return f"{state} {overruns} times, {stuck} threads stuck"
