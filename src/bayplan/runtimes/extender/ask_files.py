"""Asking journals on disk why a pod is where it is: as servers are asked, and none has to run."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bayplan.recording.journal_why import why_from_file
from bayplan.runtimes.extender.ask import AskError
from bayplan.runtimes.extender.ask_why import NOTHING, Reply, Said, newest


def ask_files(paths: Sequence[Path], key: str, *, weight: float) -> Reply:
    """What these journals have about the pod ``namespace/name``; `RecordingError` where one is none."""
    said: dict[str, Said] = {}
    warnings: list[str] = []
    for path in dict.fromkeys(paths):
        why, wrong = why_from_file(path, key, weight=weight)
        said[str(path)] = NOTHING if why is None else why
        warnings += wrong
    try:
        reply = newest(key, said, hint="", who="journal")
    except AskError as error:
        # It may have been in what could not be read.
        raise AskError("\n".join([str(error), *warnings])) from None
    return msgspec.structs.replace(reply, warnings=warnings)
