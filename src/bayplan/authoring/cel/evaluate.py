"""Evaluates an expression over nodes, once for each distinct set of the values that it reads.

Answers are kept: the same parts of a pod and of a node always give the same answer.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.cel.compile import Compiled
from bayplan.authoring.cel.parts import Parts
from bayplan.authoring.cel.split import Rule, split
from bayplan.authoring.cel.words import of_evaluation
from bayplan.authoring.lift import BadResult
from bayplan.kube.pod import Pod
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable

# The limits of what is kept: texts of pods, answers, and bytes of their keys.
MEMORY_LIMIT = 100_000
MEMORY_BYTES = 32 * 1024 * 1024
_SHOWN = 120


class ExpressionFailed(Exception):
    """An expression failed."""


class Evaluator:
    """One expression, and its answers so far."""

    def __init__(self, compiled: Compiled, *, policy: str, where: str, wanted: tuple[type, ...]) -> None:
        self._compiled = compiled
        self._policy = f"policy {policy!r}"
        self._where = where
        self._wanted = wanted
        reads = compiled.reads
        self._parts = {name: Parts(name, paths, reads.tested) for name, paths in reads.paths.items() if paths}
        whole = not reads.columns and "node" in self._parts and wanted == (bool,)
        self._rule = split(compiled) if whole else None
        self._known: dict[str, dict[Hashable, Any]] = {}
        self._count = 0
        self._bytes = 0

    def over(self, pod: Pod, nodes: NodeTable) -> NDArray[Any]:
        """The answer for each node."""
        columns = self._compiled.reads.columns
        if "node" not in self._parts and not columns:
            return np.array([self._answer(pod, "node", "")] * len(nodes) if len(nodes) else [])
        pod_text = self._text("pod", pod)
        if self._rule is not None:
            found = self._certain(self._rule, pod_text, nodes[self._parts["node"]])
            if found is not None:
                return found
        texts = [_values(nodes, self._parts["node"])] if "node" in self._parts else []
        keys: list[Hashable] = list(texts[0]) if texts else []
        if columns:
            keys = list(zip(*texts, *(_values(nodes, name) for name in columns), strict=True))
        known = self._remembered(pod_text)
        answers = list(map(known.get, keys))
        if None in answers:
            self._learn(known, pod_text, keys, nodes.names)
            answers = [known[key] for key in keys]
        return np.array(answers)

    def _certain(self, rule: Rule, pod_text: str, texts: Strings) -> NDArray[np.bool_] | None:
        """The answer for each node, if it is certain for all of them; see `split`."""
        said = rule(_value(pod_text), texts.values)
        count = len(texts.values)
        true, false = np.broadcast_to(said.true, count), np.broadcast_to(said.false, count)
        found = true[texts.codes]
        # Only the candidates' answers must be certain.
        return found if (found | false[texts.codes]).all() else None

    def about(self, pod: Pod, victim: Pod) -> Any:
        """The answer for a victim."""
        return self._answer(pod, "victim", self._text("victim", victim))

    def _answer(self, pod: Pod, variable: str, text: str) -> Any:
        """The answer for one text."""
        known = self._remembered(pod_text := self._text("pod", pod))
        if text not in known:
            known[text] = self._run({"pod": _value(pod_text), variable: _value(text)})
            self._grown(text)
        return known[text]

    def _text(self, variable: str, pod: Pod) -> str:
        return self._parts[variable].text(pod) if variable in self._parts else ""

    def _remembered(self, pod_text: str) -> dict[Hashable, Any]:
        # Replaced and not cleared, since another thread may still use the old dict.
        if self._count > MEMORY_LIMIT or self._bytes > MEMORY_BYTES:
            self._known, self._count, self._bytes = {}, 0, 0
        if pod_text not in self._known:
            # Counted here, since the entry stays even if every answer fails.
            self._grown(pod_text)
        return self._known.setdefault(pod_text, {})

    def _grown(self, text: str) -> None:
        self._count += 1
        self._bytes += len(text)

    def _learn(
        self, known: dict[Hashable, Any], pod_text: str, keys: Sequence[Any], names: Sequence[str]
    ) -> None:
        pod, columns = _value(pod_text), self._compiled.reads.columns
        for row, key in enumerate(keys):
            if key in known:
                continue
            text, values = self._split(key)
            column = {n: value for n, value in zip(columns, values, strict=True) if value is not None}
            try:
                known[key] = self._run({"pod": pod, "node": _value(text), "column": column})
            except Exception as error:
                error.add_note(f"on node {names[row]}")
                raise
            self._grown(text)

    def _split(self, key: Any) -> tuple[str, tuple[Any, ...]]:
        """The two parts of a key: the node's text, and its values in columns."""
        if not self._compiled.reads.columns:
            return key, ()
        return (key[0], key[1:]) if "node" in self._parts else ("", key)

    def _run(self, data: dict[str, Any]) -> Any:
        try:
            value = self._compiled.program.eval(data=data)
            plain = value.value()
        except (RuntimeError, TypeError) as error:
            # The library cannot convert an optional to Python, and raises this.
            said = "returned an optional; add .orValue(...)" if isinstance(error, TypeError) else str(error)
            raise self._failed(said) from None
        if type(plain) in self._wanted:
            return plain
        kind = value.type().name()
        if kind == "ERROR":
            raise self._failed(str(plain))
        want = "true or false" if bool in self._wanted else "a number"
        # Labels and annotations are texts, also those with a number in them.
        hint = "; double(...) reads a text as a number" if kind == "STRING" and want == "a number" else ""
        raise BadResult(
            f"{self._where}: {self._policy} returned {kind.lower()}, want {want}{hint}, in: {self._shown}"
        )

    def _failed(self, message: str) -> ExpressionFailed:
        return ExpressionFailed(f"{self._policy}: {of_evaluation(message)}, in: {self._shown}")

    @property
    def _shown(self) -> str:
        text = " ".join(self._compiled.text.split())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _value(text: str) -> Any:
    return msgspec.json.decode(text) if text else {}


def _values(nodes: NodeTable, name: str | Parts) -> list[Any]:
    column = nodes[name]
    if isinstance(column, Strings):
        # An absent text has code -1, which is the last index.
        texts = (*column.values, None)
        return [texts[code] for code in column.codes.tolist()]
    values: list[Any] = column.tolist()
    return values
