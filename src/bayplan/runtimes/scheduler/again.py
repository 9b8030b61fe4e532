"""Judges recorded pods again without a cluster, for replays."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.authoring.registry import Policy
from bayplan.config.flags import Loaded
from bayplan.engine.choose import Choice, choose
from bayplan.engine.commit import Commitment, commit
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.kube.yaml import suggest
from bayplan.recording.attempts import encode_verdict
from bayplan.recording.lines import RecordingError
from bayplan.runtimes.scheduler.profiles import profiles_from
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS, Readings
from bayplan.wire import v1
from bayplan.wire.codec import decode


@dataclass(frozen=True)
class Said:
    """The encoded verdict."""

    body: bytes


class Again:
    """Judges recorded pods as a scheduler with this configuration would."""

    def __init__(self, loaded: Loaded) -> None:
        self._profiles = profiles_from(loaded)

    def policies_for(self, pod: Pod) -> Sequence[Policy]:
        """The policies for a pod; `RecordingError` if there is no profile for its scheduler."""
        found = self._profiles.get(pod.scheduler_name)
        if found is None:
            hint = suggest(pod.scheduler_name, self._profiles)
            raise RecordingError(f"no profile for scheduler {pod.scheduler_name!r}{hint}")
        return found

    def schedule(
        self, body: bytes, cluster: Snapshot, attempt: Attempt, *, readings: Readings = NO_READINGS
    ) -> Said:
        """Filter and score the pod of a recorded question."""
        args = decode(body, v1.ExtenderArgs)
        if args.pod is None:
            raise RecordingError("a question without a pod")
        return Said(encode_verdict(self._choose(args.pod, args.node_names, cluster, attempt, readings)))

    def commit(
        self, pod: Pod, node: str, cluster: Snapshot, attempt: Attempt, *, readings: Readings = NO_READINGS
    ) -> Commitment:
        """Recheck the pod on its node, and allocate."""
        cluster = cluster.with_readings(readings)
        question = Question(pod, cluster.nodes, cluster, attempt.now)
        return commit(self.policies_for(pod), question, node, attempt)

    def _choose(
        self, pod: Pod, names: list[str] | None, cluster: Snapshot, attempt: Attempt, readings: Readings
    ) -> Choice:
        policies, cluster = self.policies_for(pod), cluster.with_readings(readings)
        if names is None:
            return choose(policies, pod, cluster, now=attempt.now, attempt=attempt)
        nodes = cluster.nodes.take(cluster.find(names), names)
        return Choice(filter_nodes(policies, Question(pod, nodes, cluster, attempt.now), attempt), None)
