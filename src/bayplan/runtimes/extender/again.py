"""Builds the verbs of a configuration without a server, to replay recorded requests."""

from bayplan.authoring.registry import Policy
from bayplan.config.flags import Loaded
from bayplan.ops.metrics import Metrics
from bayplan.recording.lines import Configuration
from bayplan.runtimes.extender.options import failed_nodes_heeded, refusals
from bayplan.runtimes.extender.verbs import Verbs


def verbs_as_recorded(told: Configuration, policies: list[Policy]) -> Verbs:
    """Verbs that answer as the recorded server did."""
    return Verbs(
        policies=policies,
        metrics=Metrics(version=""),
        observe=told.observe,
        failed_nodes_heeded=told.failed_nodes_heeded,
        keep=told.keep,
        refusals=told.refusals,
    )


def verbs_of(loaded: Loaded) -> Verbs:
    """Verbs that answer as a server with this configuration would."""
    extender = loaded.config.extender
    return Verbs(
        policies=loaded.policies,
        metrics=Metrics(version=""),
        observe=extender.observe,
        failed_nodes_heeded=failed_nodes_heeded(extender),
        keep=extender.answer.most,
        refusals=refusals(extender),
    )
