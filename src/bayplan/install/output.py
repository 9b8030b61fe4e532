"""Objects as a text, or as files: one stream of YAML, a List in JSON, or a file each."""

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bayplan.install.errors import InstallError
from bayplan.install.evaluate import to_yaml

Object = dict[str, Any]
_OURS = re.compile(r"\d{2}-[a-z]+-.+\.yaml")


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
    _refuse_leftovers(directory, texts)
    texts |= {f"control-plane/{name}": text for name, text in host_files.items()}
    written = []
    try:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise InstallError(f"{directory}: {error.strerror or error}") from error
    return written


def _refuse_leftovers(directory: Path, fresh: Collection[str]) -> None:
    """Files of another set of objects have other numbers: old ones would be applied after the new ones."""
    there = sorted(path.name for path in directory.glob("*.yaml")) if directory.is_dir() else []
    old = [name for name in there if _OURS.fullmatch(name) and name not in fresh]
    if old:
        more = f" and {len(old) - 1} more" if len(old) > 1 else ""
        raise InstallError(
            f"{directory}: {old[0]}{more} of an earlier time would be applied, too: remove what is there, or"
            " name another folder"
        )
