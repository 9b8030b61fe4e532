"""A corrected file: every repair that is known, again and again until nothing is left to repair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import yaml

from bayplan.doctor.edit import CannotEdit, edited
from bayplan.doctor.files import UnreadableError, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.legacy import convert_policy
from bayplan.doctor.setting import Version

_ROUNDS = 20
Examine = Callable[[str], Sequence[Finding]]


@dataclass(frozen=True)
class Fixed:
    """The new text, and what is to be said about it."""

    text: str
    done: tuple[Finding, ...] = ()
    """What was repaired."""
    remarks: tuple[str, ...] = ()
    """What was lost, or could not be done."""


def fix(content: bytes, examine: Examine, *, source: str, version: Version) -> Fixed:
    """The text without anything that can be repaired; ``examine`` says what is wrong with a text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{source}: not UTF-8: {error.reason}") from error
    text, remarks = _converted(text, source, version)
    done: list[Finding] = []
    for _ in range(_ROUNDS):
        fixable = [finding for finding in examine(text) if finding.repairs]
        before = text
        for finding in fixable:
            try:
                text = _repaired(text, finding)
                done.append(finding)
            except (CannotEdit, yaml.YAMLError):
                continue
        if text == before:
            remarks += [f"{left.where}: {left.id} could not be edited in place" for left in fixable]
            break
    return Fixed(text, tuple(done), tuple(remarks))


def _repaired(text: str, finding: Finding) -> str:
    """All repairs of a finding, or none."""
    for repair in finding.repairs:
        text = edited(text, finding.where.document, repair)
    return text


def _converted(text: str, source: str, version: Version) -> tuple[str, list[str]]:
    """A Policy becomes a KubeSchedulerConfiguration; any other text stays."""
    given = read_text(text, source=source)
    if not given.policies:
        return text, []
    if len(given.policies) > 1 or given.schedulers or given.workloads or given.policies[0].embedded:
        raise UnreadableError(f"{source}: a Policy is converted when it is alone in its file")
    made = convert_policy(given.policies[0], version)
    new = yaml.safe_dump(made.configuration, sort_keys=False, allow_unicode=True, width=110)
    remarks = [f"{source}: converted from a Policy; comments are lost"]
    remarks += [f"{finding.where}: {finding.what}" for finding in made.findings]
    return new, remarks
