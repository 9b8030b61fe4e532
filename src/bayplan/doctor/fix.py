"""Corrects a file: applies all known repairs, repeatedly, until none is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import yaml

from bayplan.doctor.edit import CannotEdit, edited
from bayplan.doctor.files import UnreadableError, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.legacy import convert_policy
from bayplan.doctor.setting import Version
from bayplan.doctor.traced import Traced
from bayplan.kube.yaml import read_documents

_ROUNDS = 20
Examine = Callable[[str], Sequence[Finding]]


@dataclass(frozen=True)
class Fixed:
    """The new text, and what is to be said about it; places are those of the old one."""

    text: str
    done: tuple[Finding, ...] = ()
    """What was repaired."""
    left: tuple[Finding, ...] = ()
    """What is still wrong."""
    remarks: tuple[str, ...] = ()
    """What was lost, or could not be done."""


def fix(content: bytes, examine: Examine, *, source: str, version: Version) -> Fixed:
    """The text without anything that can be repaired; ``examine`` says what is wrong with a text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{source}: not UTF-8: {error.reason}") from error
    now, remarks = _converted(Traced.of(text, source), version)
    done: list[Finding] = []
    for _ in range(_ROUNDS):
        fixable = [finding for finding in examine(now.text) if finding.repairs]
        before = now
        for finding in fixable:
            try:
                now = _repaired(now, finding)
                done.append(before.told(finding))
            except (CannotEdit, yaml.YAMLError):
                continue
        if now.text == before.text:
            remarks += [f"{now.told(left).where}: {left.id} could not be edited in place" for left in fixable]
            break
    left = tuple(now.told(finding) for finding in examine(now.text))
    return Fixed(now.text, tuple(done), left, tuple(remarks))


def _repaired(now: Traced, finding: Finding) -> Traced:
    """All repairs of a finding, or none."""
    for repair in finding.repairs:
        now = now.changed(edited(now.text, finding.where.document, repair))
    return now


def _converted(now: Traced, version: Version) -> tuple[Traced, list[str]]:
    """A Policy becomes a KubeSchedulerConfiguration; any other text stays."""
    source = now.source
    given = read_text(now.text, source=source)
    if not given.policies:
        return now, []
    if len(given.policies) > 1 or given.schedulers or given.workloads or given.policies[0].embedded:
        raise UnreadableError(f"{source}: a Policy is converted when it is alone in its file")
    made = convert_policy(given.policies[0], version)
    new = yaml.safe_dump(made.configuration, sort_keys=False, allow_unicode=True, width=110)
    (document,) = read_documents(new, source=source)
    remarks = [f"{source}: converted from a Policy; comments are lost"]
    remarks += [f"{finding.where}: {finding.what}" for finding in made.findings]
    return now.rewritten(new, document, given.policies[0].document), remarks
