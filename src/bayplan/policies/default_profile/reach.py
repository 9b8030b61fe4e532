"""Which nodes can reach a volume, or a pool of storage: its affinity over their labels."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan import Label, NodeTable, Strings
from bayplan.blocks import Expression, NodeSelector, NodeSelectorTerm, Selector, matching
from bayplan.policies.default_profile.last_time import LastTime

Bools = NDArray[np.bool_]
Numbers = NDArray[np.intp]


def reachable_from(nodes: NodeTable, affinity: NodeSelector | None) -> Bools:
    """The nodes that an affinity allows; all where there is none."""
    if affinity is None:
        return np.ones(len(nodes), dtype=np.bool_)
    allowed = np.zeros(len(nodes), dtype=np.bool_)
    for term in affinity.node_selector_terms or ():
        allowed |= _allowed(nodes, term)
    return allowed


def _allowed(nodes: NodeTable, term: NodeSelectorTerm) -> Bools:
    # kube-scheduler shows a volume's affinity the labels of a node and not its name: what is asked of names
    # is taken to hold.
    if term.match_fields and not term.match_expressions:
        return np.ones(len(nodes), dtype=np.bool_)
    return matching(nodes, NodeSelectorTerm(term.match_expressions))


def affinity_of(selector: Selector) -> NodeSelector | None:
    """A label selector over nodes as an affinity; one that asks for nothing is none."""
    labels = (Expression(key, "In", (value,)) for key, value in (selector.match_labels or {}).items())
    expressions = (*labels, *(selector.match_expressions or ()))
    return NodeSelector((NodeSelectorTerm(expressions),)) if expressions else None


class Places:
    """Many affinities at once, each with a number, counted from 0.

    There is a local volume, or a pool, for each node. Those that want one value of one label are looked up
    all together, by the value that each node has.
    """

    def __init__(self, affinities: Iterable[NodeSelector | None]) -> None:
        self._affinities: tuple[NodeSelector | None, ...] = ()
        self._wanting: dict[str, _Wanting] = {}
        self._others: list[int] = []
        self._add(tuple(affinities))

    def also(self, affinity: NodeSelector | None) -> "Places":
        """The same affinities, and one more with the next number."""
        grown = Places(())
        grown._affinities = self._affinities
        grown._wanting = dict(self._wanting)
        grown._others = list(self._others)
        wanted = _single(affinity)
        if wanted is not None and wanted[0] in self._wanting:
            grown._wanting[wanted[0]] = self._wanting[wanted[0]].copy()
        grown._add((affinity,))
        return grown

    def _add(self, affinities: tuple[NodeSelector | None, ...]) -> None:
        for number, affinity in enumerate(affinities, start=len(self._affinities)):
            wanted = _single(affinity)
            if wanted is None:
                self._others.append(number)
                continue
            key, value = wanted
            by_value = self._wanting.setdefault(key, _Wanting({}, LastTime())).by_value
            if by_value.setdefault(value, number) != number:
                self._others.append(number)
        self._affinities += affinities

    def __len__(self) -> int:
        return len(self._affinities)

    def pairs(self, nodes: NodeTable) -> tuple[Numbers, Numbers]:
        """Rows of nodes, each beside the number of an affinity that allows it."""
        rows: list[Numbers] = [np.empty(0, dtype=np.intp)]
        numbers: list[Numbers] = [np.empty(0, dtype=np.intp)]
        for key, wanting in self._wanting.items():
            label = nodes[Label(key)]
            assert isinstance(label, Strings)
            of_node = wanting.by_code(label)[label.codes]
            rows.append(np.flatnonzero(of_node >= 0))
            numbers.append(of_node[rows[-1]])
        for number in self._others:
            rows.append(np.flatnonzero(reachable_from(nodes, self._affinities[number])))
            numbers.append(np.full(len(rows[-1]), number, dtype=np.intp))
        return np.concatenate(rows), np.concatenate(numbers)


@dataclass(frozen=True)
class _Wanting:
    """Numbers of the affinities that want one value of a certain label."""

    by_value: dict[str, int]
    kept: LastTime[Numbers]

    def copy(self) -> "_Wanting":
        """One that can grow by itself."""
        return _Wanting(dict(self.by_value), LastTime())

    def by_code(self, label: Strings) -> Numbers:
        """The number for each code of the label, and -1 last, for a node that does not have it."""

        def find() -> Numbers:
            codes = label.find(self.by_value)
            found = np.full(len(label.values) + 1, -1, dtype=np.intp)
            found[codes[codes >= 0]] = np.array(list(self.by_value.values()), dtype=np.intp)[codes >= 0]
            return found

        return self.kept.of(label.values, work_out=find)


def _single(affinity: NodeSelector | None) -> tuple[str, str] | None:
    """Label and value, of an affinity that wants nothing else."""
    terms = (affinity.node_selector_terms if affinity else None) or ()
    if len(terms) != 1 or terms[0].match_fields or len(terms[0].match_expressions or ()) != 1:
        return None
    (one,) = terms[0].match_expressions or ()
    values = one.values or ()
    return (one.key, values[0]) if one.operator == "In" and len(values) == 1 else None
