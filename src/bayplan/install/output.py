"""Objects as a text, or as files: one stream of YAML, a List in JSON, or a file each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayplan.install.errors import InstallError
from bayplan.install.evaluate import to_yaml

Object = dict[str, Any]


def as_stream(objects: Sequence[Object]) -> str:
    """Documents of YAML, one after the other."""
    return "---\n".join(map(to_yaml, objects))


def as_list(objects: Sequence[Object]) -> str:
    """A List, in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"


def write_each(objects: Sequence[Object], directory: Path, *, host_files: dict[str, str]) -> list[Path]:
    """A file for each object, in the order of their application; files for hosts in a folder of their own.

    ``kubectl apply -f DIR`` does not look into folders, which is why.
    """
    texts = {
        f"{number:02d}-{one['kind'].lower()}-{one['metadata']['name']}.yaml": to_yaml(one)
        for number, one in enumerate(objects, 1)
    }
    texts |= {f"control-plane/{name}": text for name, text in host_files.items()}
    written = []
    try:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            written.append(path)
    except OSError as error:
        raise InstallError(f"{directory}: {error.strerror or error}") from error
    return written
