"""The error about a file that cannot be read, with a suggestion from the files beside it."""

from collections.abc import Iterable
from pathlib import Path

from bayplan.kube.yaml import did_you_mean


def unread(path: Path | str, error: OSError, *, or_else: str = "") -> str:
    """``pod.yml: No such file or directory; did you mean 'pod.yaml'?``.

    ``or_else`` is what to do where no name is close.
    """
    close = file_meant(path) if isinstance(error, FileNotFoundError) else ""
    return f"{path}: {error.strerror or error}{close or or_else}"


def file_meant(path: Path | str, others: Iterable[str] = ()) -> str:
    """``; did you mean 'pod.yaml'?`` of the files beside one that is not there, and of ``others``."""
    try:
        names = [file.name for file in Path(path).parent.iterdir() if file.is_file()]
    except OSError:
        names = []
    return did_you_mean(Path(path).name, [*others, *names])
