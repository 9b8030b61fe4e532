"""Sources that read a JSON or YAML document from a web service or a file.

Three shapes are understood: ``{"node-a": 1.5}``, ``{"node-a": {"price": 1.5, "spot": true}}``, and a list of
objects that name their node. ``items`` says where in the document they are, ``key`` which field is the name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bayplan.kube.yaml import YamlError, read_documents, suggest
from bayplan.state.sources.http import SourceError, SourceHttp
from bayplan.state.sources.threads import aside

_MAX_FILE_BYTES = 8 * 1024 * 1024
# From this many nodes on, reading takes milliseconds and is done in a thread.
_MANY = 10_000


@dataclass(frozen=True)
class Shape:
    """Where the values are in a document."""

    items: str = ""
    """Dotted path to the object or list, such as ``data.nodes``; empty for the whole document."""
    key: str = "name"
    """The field of a list's objects that names the node."""

    async def read(self, document: Any) -> dict[str, Any]:
        """The values by node; uses a thread if there are many, so that the event loop is not blocked."""
        found = self._found(document)
        return self._values(found) if len(found) < _MANY else await aside(self._values, found)

    def values(self, document: Any) -> dict[str, Any]:
        """The values by node."""
        return self._values(self._found(document))

    def _found(self, document: Any) -> Mapping[str, Any] | list[Any]:
        found = document
        for step in filter(None, self.items.split(".")):
            if not isinstance(found, Mapping) or step not in found:
                hint = suggest(step, found) if isinstance(found, Mapping) else ""
                raise SourceError(f"items: no {step!r} in the document{hint}")
            found = found[step]
        if not isinstance(found, Mapping | list):
            raise SourceError(f"want an object or a list, got {type(found).__name__}")
        return found

    def _values(self, found: Mapping[str, Any] | list[Any]) -> dict[str, Any]:
        return dict(found) if isinstance(found, Mapping) else dict(map(self._item, found))

    def _item(self, item: Any) -> tuple[str, dict[str, Any]]:
        if not isinstance(item, Mapping) or not isinstance(item.get(self.key), str):
            raise SourceError(f"an item has no {self.key!r} that names its node: {str(item)[:80]}")
        return item[self.key], {name: value for name, value in item.items() if name != self.key}


@dataclass(frozen=True)
class WebDocument:
    """A document that a web service returns."""

    url: str
    shape: Shape

    async def fetch(self, http: SourceHttp) -> dict[str, Any]:
        """The values by node."""
        return await self.shape.read(await http.json(self.url))


@dataclass(frozen=True)
class FileDocument:
    """A document in a file, which is read at each poll."""

    path: Path
    shape: Shape

    async def fetch(self, http: SourceHttp) -> dict[str, Any]:
        """The values by node."""
        del http
        return await aside(self._read)

    def _read(self) -> dict[str, Any]:
        if self.path.suffix == ".json":
            try:
                return self.shape.values(msgspec.json.decode(self._content()))
            except msgspec.MsgspecError as error:
                raise SourceError(f"{self.path}: {error}") from error
        try:
            documents = list(read_documents(self._content(), source=str(self.path)))
        except YamlError as error:
            raise SourceError(str(error)) from error
        return self.shape.values(documents[0].data if documents else {})

    def _content(self) -> bytes:
        try:
            # Reading a pipe would block the thread for ever.
            if self.path.exists() and not self.path.is_file():
                raise SourceError(f"{self.path} is no file")
            with self.path.open("rb") as file:
                content = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            raise SourceError(f"{self.path}: {error.strerror or error}") from error
        if len(content) > _MAX_FILE_BYTES:
            raise SourceError(f"{self.path} is larger than {_MAX_FILE_BYTES} bytes")
        return content
