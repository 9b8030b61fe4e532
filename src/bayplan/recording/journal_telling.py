"""Converts entries of the journal to lines of its file, and back, without loss.

The values of a detail come back as they were. If JSON cannot hold them, or if filling them in would
read attributes, the finished texts are written: a file may come from anybody, and nothing in it is run.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from string import Formatter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.verdict import Reason
from bayplan.engine.entry import Entry, PodRef, Voice
from bayplan.engine.ranking import rank
from bayplan.engine.why import left_out, refused_groups
from bayplan.recording.journal_lines import DecisionLine, HookLine, PodLine, ReasonLine
from bayplan.recording.lines import RecordingError, moment
from bayplan.recording.packed import Packed, Value, pack, pack_values, unpack, unpack_values
from bayplan.wire.scale import to_wire

_RANKED = 5
_NAME = re.compile(r"[A-Za-z_]\w*")
_SPEC = re.compile(r"[^\d{}]{0,3}\d{0,3}[,_]?(\.\d{1,3})?[a-zA-Z%]?")
_FILLED = "{detail}"


def line_of(entry: Entry, *, nodes: int, schedules: bool = False) -> DecisionLine:
    """The line of an entry; ``nodes`` is the number of its list of names, ``schedules`` as in the header."""
    whole = len(entry.rows) == len(entry.names) and bool((entry.rows == np.arange(len(entry.rows))).all())
    return DecisionLine(
        decision=entry.number,
        at=moment(datetime.fromtimestamp(entry.at, UTC)),
        verb=entry.verb,
        generation=entry.generation,
        pod=_pod_line(entry.pod),
        result=entry.result,
        offered=entry.offered,
        passed=0 if entry.error else entry.passed,
        refused=refused_groups(entry),
        ranking=rank(entry, to_wire=None if schedules else to_wire, weight=1.0, limit=_RANKED),
        seconds=entry.seconds,
        error=entry.error,
        observe=entry.observe,
        node=entry.node,
        hooks=[_hook_line(voice) for voice in entry.voices],
        not_in_view=entry.not_in_view,
        left_out=tuple(left_out(entry, limit=None)),
        nodes=nodes,
        rows=None if whole else _array(entry.rows),
        refused_by=_array(entry.refused_by) if entry.refused_by.size else None,
        total=_array(entry.total),
        kept=_array(entry.kept),
        turn=entry.turn,
        others=entry.others,
    )


def entry_of(line: DecisionLine, names: Sequence[str]) -> Entry:
    """The entry of a line; raises `RecordingError` if the line contradicts itself."""
    rows = np.arange(len(names), dtype=np.uint32) if line.rows is None else _numbers(line.rows, np.uint32)
    count = len(rows)
    if count and int(rows.max()) >= len(names):
        raise RecordingError("a node that has no name")
    voices = tuple(_voice(hook, count) for hook in line.hooks)
    refused_by = _codes(line.refused_by, count, most=len(voices) - 1, least=-1)
    kept = None if line.kept is None else _numbers(line.kept, np.uint32)
    if kept is not None and kept.size and int(kept.max()) >= count:
        raise RecordingError("a kept node that was not asked about")
    return Entry(
        number=line.decision,
        at=datetime.fromisoformat(line.at).timestamp(),
        verb=line.verb,
        generation=line.generation,
        pod=PodRef(**msgspec.structs.asdict(line.pod)),
        names=names,
        rows=rows,
        voices=voices,
        refused_by=refused_by,
        total=_scores(line.total, count),
        error=line.error,
        not_in_view=line.not_in_view,
        seconds=line.seconds,
        observe=line.observe,
        dropped=_left_out(line, shadow=False),
        would_drop=_left_out(line, shadow=True),
        node=line.node,
        kept=kept,
        turn=line.turn,
        others=line.others,
    )


def _left_out(line: DecisionLine, *, shadow: bool) -> tuple[tuple[str, str, str], ...]:
    groups = [group for group in line.left_out if group.shadow == shadow]
    return tuple((node, group.policy, group.reason) for group in groups for node in group.nodes)


def _pod_line(pod: PodRef) -> PodLine:
    labels, requests = dict(pod.labels), dict(pod.requests)
    return PodLine(pod.namespace, pod.name, pod.uid, labels, requests, pod.priority, pod.scheduler)


def _hook_line(voice: Voice) -> HookLine:
    refuses = voice.rows is not None and voice.codes is not None and voice.rows.size > 0
    detail, values, details = _told(voice)
    return HookLine(
        policy=voice.policy,
        hook=voice.hook,
        kind=voice.kind,
        seconds=voice.seconds,
        weight=voice.weight,
        shadow=voice.shadow,
        void=voice.void,
        failure=voice.failure,
        ignored=voice.ignored,
        reasons=[_reason_line(voice, code) for code in range(1, len(voice.reasons) + 1)] if refuses else [],
        rows=_array(voice.rows),
        codes=_array(voice.codes),
        scores=_array(voice.normalised),
        raw=_array(voice.raw),
        detail=detail,
        values=values,
        details=details,
    )


def _told(voice: Voice) -> tuple[str, dict[str, Value], list[str]]:
    """The detail of a score: a format string and its values, or the finished texts."""
    if not voice.score_detail or voice.raw is None:
        return "", {}, []
    packed = pack_values(voice.values[0]) if _is_plain(voice.score_detail) else None
    if packed is None:
        return "", {}, [voice.behind(place) for place in range(len(voice.raw))]
    return voice.score_detail, packed, []


def _reason_line(voice: Voice, code: int) -> ReasonLine:
    reason = voice.reasons[code - 1]
    assert voice.codes is not None
    mine = voice.codes == code
    detail, values, details = "", dict[str, Value](), list[str]()
    if reason.detail and mine.any():
        packed = pack_values(voice.values[code - 1]) if _is_plain(reason.detail) else None
        if packed is None:
            details = [voice.detail(place) for place in np.flatnonzero(mine).tolist()]
        else:
            detail, values = reason.detail, packed
    return ReasonLine(
        reason=reason.text,
        detail=detail,
        values=values,
        details=details,
        preemptible=reason.preemptible,
        helped_by=sorted(reason.helped_by),
        also=list(reason.also),
        of_pod=reason.of_pod,
        advice=reason.advice,
    )


def _voice(line: HookLine, count: int) -> Voice:
    rows, codes = None, None
    if line.rows is not None:
        rows = _numbers(line.rows, np.uint32)
        codes = _codes(line.codes, len(rows), most=len(line.reasons), least=1)
        if rows.size and int(rows.max()) >= count:
            raise RecordingError("a refused node that was not asked about")
    detail = line.detail if _is_plain(line.detail) else ""
    behind: dict[str, Any] = unpack_values(line.values)
    if line.details:
        detail, behind = _FILLED, {"detail": line.details}
    told = [_reason(reason, codes, code) for code, reason in enumerate(line.reasons, start=1)]
    return Voice(
        policy=line.policy,
        hook=line.hook,
        kind=line.kind,
        seconds=line.seconds,
        weight=line.weight,
        shadow=line.shadow,
        void=line.void,
        failure=line.failure,
        ignored=line.ignored,
        reasons=tuple(reason for reason, _ in told),
        rows=rows,
        codes=codes,
        values=(behind,) if detail else tuple(values for _, values in told),
        normalised=_scores(line.scores, count),
        raw=_scores(line.raw, count),
        score_detail=detail,
    )


def _reason(line: ReasonLine, codes: NDArray[np.int16] | None, code: int) -> tuple[Reason, dict[str, Any]]:
    detail, values = line.detail if _is_plain(line.detail) else "", unpack_values(line.values)
    if line.details and codes is not None:
        places = np.flatnonzero(codes == code).tolist()
        texts = [""] * len(codes)
        for place, text in zip(places, line.details, strict=False):
            texts[place] = text
        detail, values = _FILLED, {"detail": texts}
    reason = Reason(
        line.reason,
        detail=detail,
        preemptible=line.preemptible,
        helped_by=frozenset(line.helped_by),
        also=tuple(line.also),
        of_pod=line.of_pod,
        advice=line.advice,
    )
    return reason, values


def _is_plain(detail: str) -> bool:
    """Whether the format string names only values, without attributes, indices or widths."""
    try:
        fields = list(Formatter().parse(detail))
    except ValueError:
        return False
    return all(
        name is None or (bool(_NAME.fullmatch(name)) and not conversion and bool(_SPEC.fullmatch(spec or "")))
        for _, name, spec, conversion in fields
    )


def _array(array: NDArray[Any] | None) -> Packed | None:
    return None if array is None else pack(array)


def _numbers(packed: Packed, dtype: type[np.uint32]) -> NDArray[np.uint32]:
    found = unpack(packed)
    if found.dtype != dtype:
        raise RecordingError(f"an array of {packed.kind!r}, and it wants numbers of nodes")
    return found


def _codes(packed: Packed | None, count: int, *, least: int, most: int) -> NDArray[np.int16]:
    found = np.zeros(0, dtype=np.int16) if packed is None else unpack(packed)
    if found.dtype != np.int16 or len(found) != count:
        raise RecordingError(f"{len(found)} numbers for {count} nodes")
    if count and not (found.min() >= least and found.max() <= most):
        raise RecordingError("a number that nothing has")
    return found


def _scores(packed: Packed | None, count: int) -> NDArray[np.float32] | None:
    if packed is None:
        return None
    found = unpack(packed)
    if found.dtype != np.float32 or len(found) != count:
        raise RecordingError(f"{len(found)} scores for {count} nodes")
    return found
