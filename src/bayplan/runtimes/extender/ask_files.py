"""Asks journal files why a pod is where it is, without a running server."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bayplan.recording.journal_why import why_from_file
from bayplan.runtimes.extender.ask import AskError
from bayplan.runtimes.extender.ask_why import NOTHING, Reply, WhyOrProblem, newest


def ask_files(paths: Sequence[Path], key: str, *, weight: float) -> Reply:
    """What these journals say about the pod ``namespace/name``; `RecordingError` if one is no journal."""
    said: dict[str, WhyOrProblem] = {}
    warnings: list[str] = []
    for path in dict.fromkeys(paths):
        why, wrong = why_from_file(path, key, weight=weight)
        said[str(path)] = NOTHING if why is None else why
        warnings += wrong
    try:
        reply = newest(key, said, hint="", who="journal")
    except AskError as error:
        # The pod may be in a part that could not be read.
        raise AskError("\n".join([str(error), *warnings])) from None
    return msgspec.structs.replace(reply, warnings=warnings)
