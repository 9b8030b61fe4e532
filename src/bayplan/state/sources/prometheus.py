"""The Prometheus source: reads the results of instant queries, one series per node."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from bayplan.snapshot.sources import Match
from bayplan.state.sources.http import SourceError, SourceHttp

Values = dict[str, dict[str, float]]


class _Series(Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_VECTOR = msgspec.json.Decoder(list[_Series])


@dataclass(frozen=True)
class Prometheus:
    """Instant queries to a Prometheus server; each query is a field of the source."""

    url: str
    queries: Mapping[str, str]
    node_label: str
    match: Match

    async def fetch(self, http: SourceHttp) -> Values:
        """The values by node."""
        found: Values = {}
        for field, query in self.queries.items():
            content = await http.read(f"{self.url.rstrip('/')}/api/v1/query", params={"query": query})
            for node, value in self._read(content, query).items():
                found.setdefault(node, {})[field] = value
        return found

    def _read(self, content: bytes, query: str) -> dict[str, float]:
        try:
            answer = _ANSWER.decode(content)
            if answer.status != "success":
                raise SourceError(f"query {query!r}: {answer.error}")
            if answer.data.result_type != "vector":
                raise SourceError(f"query {query!r} gives a {answer.data.result_type}; want a vector")
            series = _VECTOR.decode(answer.data.result)
        except msgspec.MsgspecError as error:
            raise SourceError(f"query {query!r}: not an answer of Prometheus: {error}") from error
        values: dict[str, float] = {}
        for each in series:
            label = each.metric.get(self.node_label)
            if label is None:
                known = ", ".join(sorted(each.metric)) or "none"
                raise SourceError(f"query {query!r}: no label {self.node_label!r}; there are: {known}")
            node = _without_port(label) if self.match == "internalIP" else label
            if node in values:
                raise SourceError(
                    f"query {query!r}: two series for {node}; make it one, as with `max by"
                    f" ({self.node_label}) (...)`"
                )
            values[node] = float(each.value[1])
        return values


def _without_port(instance: str) -> str:
    """``10.0.0.1`` out of ``10.0.0.1:9100``, ``::1`` out of ``[::1]:9100``."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, _, port = instance.rpartition(":")
    return host if host and port.isdecimal() and ":" not in host else instance
