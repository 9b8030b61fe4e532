"""Exports a recorded decision as a test: the pod, the nodes of the request, the pods on them, the verdicts.

The cluster is reduced to that. If the policies then decide otherwise (they count in zones, or read the whole
cluster), the whole cluster is kept.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.kube.pod import Pod
from bayplan.recording.attempts import VERB as SCHEDULE
from bayplan.recording.lines import Configuration, RecordingError
from bayplan.runtimes.simulator.cases import Case, Recording
from bayplan.runtimes.simulator.judge import Judgement, judge
from bayplan.runtimes.simulator.replay import Respondent, asked_again
from bayplan.snapshot.bynode import PLAIN
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings, key_of

_SOME = 5
_TEMPLATE = '''"""{said} about pod {title} at {moment}; written by `bayplan export-test`."""

from datetime import datetime
from pathlib import Path

from bayplan.testing import load_policies, load_snapshot, make_cluster, run_policy

HERE = Path(__file__).parent
POLICIES = {policies}
NOW = datetime.fromisoformat({at})


def test_{name}_is_judged_{so}():
    saved = load_snapshot(HERE / "{data}")
    pod = next(pod for pod in saved.pods if pod.uid == {uid})
    cluster = make_cluster(saved.nodes, saved.pods{sources})

    result = run_policy(load_policies(POLICIES), pod, cluster, now=NOW)

{asserts}'''
_ASSERTS = """    assert result.passed == {passed}
    assert result.refused == {refused}
"""
# Of the nodes that were asked about: those of other nodes were not recorded.
_ASSERTS_OF_SOME = """    asked = {asked}
    assert [node for node in result.passed if node in asked] == {passed}
    assert {{node: why for node, why in result.refused.items() if node in asked}} == {refused}
"""


@dataclass(frozen=True)
class ExportedTest:
    """The two files of a test."""

    test: Path
    data: Path
    whole_cluster: bool
    """Whether all nodes had to be kept."""


def last_filter(path: Path, pod: str) -> Case:
    """The last filter of the pod ``namespace/name``."""
    found: Case | None = None
    seen: set[str] = set()
    for case in Recording(path).cases():
        if case.verb == SCHEDULE and case.pod == pod:
            raise RecordingError(
                f"pod {pod} was placed by `bayplan schedule`, and a test knows no profile of kube-scheduler;"
                " see `bayplan replay`"
            )
        if case.verb == "filter":
            seen.add(case.pod)
            if case.pod == pod:
                found = case
    if found is None:
        some = ", ".join(sorted(seen)[:_SOME])
        others = f"recorded are {some}{', ...' if len(seen) > _SOME else ''}" if seen else "nobody was"
        raise RecordingError(f"{path}: pod {pod} was never filtered; {others}")
    return found


def export_test(
    case: Case,
    policies: Sequence[Policy],
    folder: Path,
    *,
    configuration: Configuration,
    respondent: Respondent,
) -> ExportedTest:
    """Write the test into a folder; it loads the policies from the configuration's place.

    ``respondent`` answers by these policies, with the recorded configuration's answer settings.
    """
    judged = judge(policies, case)
    _check(case, judged, respondent)
    for whole in (False, True):
        cluster = _cut(judged, whole=whole)
        if _same(policies, judged, cluster, case):
            return _write(case, judged, cluster, folder, configuration=configuration, whole=whole)
    raise RecordingError(
        f"pod {case.pod}: with its nodes alone, and with all nodes, the policies say something else than"
        " they did; its verdict depends on more than a test can hold"
    )


def _check(case: Case, judged: Judgement, respondent: Respondent) -> None:
    if judged.filtered.error:
        raise RecordingError(f"pod {case.pod}: {judged.filtered.error}: there is no verdict to test")
    if case.said.given_up:
        names = ", ".join(case.said.given_up)
        raise RecordingError(f"pod {case.pod}: {names} overran then: there is no verdict of it to test")
    # Compares the whole answer, since it need not contain the reasons.
    if asked_again(respondent, case) is not None:
        raise RecordingError(
            f"pod {case.pod}: these policies do not say what was recorded; see `bayplan replay`"
        )


def _cut(judged: Judgement, *, whole: bool) -> Snapshot:
    cluster = judged.cluster
    names = list(judged.filtered.nodes.names)
    if whole:
        names += [name for name in cluster.nodes.names if name not in set(names)]
    objects = [cluster.nodes.objects[cluster.rows[name]] for name in names]
    pods: list[Pod] = []
    if cluster.pods_known:
        pods = [pod for name in names for pod in cluster.pods_on(name) if pod.uid != judged.pod.uid]
    return Snapshot.build(objects, [*pods, judged.pod])


def _same(policies: Sequence[Policy], judged: Judgement, cluster: Snapshot, case: Case) -> bool:
    """Whether the policies decide the same on this cluster, run as in a test, as on the real one."""
    cluster = cluster.with_readings(case.readings)
    decision = filter_nodes(policies, Question(judged.pod, cluster.nodes, cluster, case.said.now))
    asked = set(judged.filtered.nodes.names)
    passed = [name for name in decision.passed_names if name in asked]
    rows = range(len(cluster.nodes))
    refused = {r.node: r.reason.text for row in rows if (r := decision.refusal(row)) and r.node in asked}
    return not decision.error and (passed, refused) == (judged.passed, judged.refused)


def _write(
    case: Case,
    judged: Judgement,
    cluster: Snapshot,
    folder: Path,
    *,
    configuration: Configuration,
    whole: bool,
) -> ExportedTest:
    name = re.sub(r"\W+", "_", case.pod).strip("_").lower()
    folder.mkdir(parents=True, exist_ok=True)
    test, data = folder / f"test_{name}.py", folder / f"{name}.json"
    items = [{"kind": "Node", **msgspec.to_builtins(node)} for node in cluster.nodes.objects]
    items += [{"kind": "Pod", **msgspec.to_builtins(pod)} for pod in cluster.pods]
    lines = ",\n".join(msgspec.json.encode(item).decode() for item in items)
    data.write_text(f'{{"kind":"List","apiVersion":"v1","items":[\n{lines}\n]}}\n', encoding="utf-8")
    sources = _sources(case.readings, cluster)
    asserts = (_ASSERTS_OF_SOME if whole else _ASSERTS).format(
        asked=_written(list(judged.filtered.nodes.names)),
        passed=_written(judged.passed),
        refused=_written(judged.refused),
    )
    # With --observe the recording has the answers only, not the policies' decisions.
    observed = case.configuration.observe
    test.write_text(
        _TEMPLATE.format(
            said="What the policies said" if observed else "What was decided",
            so="so" if observed else "as_it_was",
            title=re.sub(r"[^\w./-]", "?", case.pod),
            moment=case.said.now.isoformat(),
            at=_written(case.said.now.isoformat()),
            name=name,
            data=data.name,
            policies=_where(configuration, folder),
            uid=_written(judged.pod.uid),
            sources=f", sources={sources!r}" if sources else "",
            asserts=asserts,
        ),
        encoding="utf-8",
    )
    return ExportedTest(test, data, whole)


def _where(configuration: Configuration, folder: Path) -> str:
    """The configuration, or the policy files, as the test finds them from its own folder."""
    base = folder.absolute()
    if configuration.config:
        return f"HERE / {_written(os.path.relpath(configuration.config, base))}"
    uses = []
    for use in configuration.uses:
        file, colon, name = use.partition(":")
        relative = f"{os.path.relpath(file, base)}{colon}{name}"
        uses.append(f"str(HERE / {_written(relative)})" if Path(file).is_absolute() else _written(use))
    return f"[{', '.join(uses)}]"


def _sources(readings: Readings, cluster: Snapshot) -> dict[str, dict[str, Any]]:
    """The readings by source and node; a source with one value has it without a field name."""
    found: dict[str, dict[str, Any]] = {}
    for source, reading in readings.by_source.items():
        by_node: dict[str, Any] = {}
        for node in cluster.nodes.objects:
            key = key_of(node, reading.match)
            values = {name: there[key] for name, there in reading.fields.items() if key in there}
            if values:
                by_node[node.name] = values.get(PLAIN, values) if len(values) == 1 else values
        found[source] = by_node
    return found


def _written(what: str | list[str] | dict[str, str]) -> str:
    """As Python: on one line where it fits, else a line each. JSON of texts is Python too."""
    text = json.dumps(what, ensure_ascii=False)
    if len(text) <= 80:
        return text
    return json.dumps(what, ensure_ascii=False, indent=4).replace("\n", "\n    ")
