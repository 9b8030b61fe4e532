"""The nodes of a decision: which are shown, in which order. Sorted and cut here, whatever their number."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.engine.decision import NOBODY
from bayplan.engine.entry import Entry, Voice

PAGE_NODES = 50
_MAX_PAGE = 1_000_000
_VOICE = re.compile(r"v(\d{1,4})")


class NodeQuery(Struct, frozen=True, kw_only=True):
    """What the table shows; all of it by node, best first, where nothing is said."""

    sort: str = ""
    """``node``, ``verdict``, ``total``, or ``v3`` for voice number 3."""
    order: str = ""
    """``asc`` or ``desc``."""
    node: str = ""
    """Part of a name."""
    show: str = ""
    """``passed`` or ``refused``."""
    group: str = ""
    """Number of a group of refused nodes, as `Entry.groups` counts them."""
    page: int = 1


@dataclass(frozen=True)
class Chosen:
    """One page of nodes."""

    places: list[int]
    """Which nodes of the entry, in order."""
    found: int
    """How many fit in all."""
    page: int
    last: int
    sort: str
    order: str


def choose(entry: Entry, query: NodeQuery) -> Chosen:
    """The page of nodes that is asked for, or the nearest one that there is."""
    sort = query.sort if _sortable(entry, query.sort) else ("total" if entry.total is not None else "verdict")
    order = (
        query.order if query.order in ("asc", "desc") else ("asc" if sort in ("node", "verdict") else "desc")
    )
    places = np.flatnonzero(_fits(entry, query))
    keys = _keys(entry, sort)[places]
    ranked = places[_ranked(keys, descending=order == "desc")]
    last = max(1, -(-len(ranked) // PAGE_NODES))
    page = max(1, min(query.page, last, _MAX_PAGE))
    shown = ranked[(page - 1) * PAGE_NODES : page * PAGE_NODES]
    return Chosen(shown.tolist(), len(ranked), page, last, sort, order)


def speakers(entry: Entry) -> list[tuple[int, Voice]]:
    """The voices that said something of the nodes, with their numbers."""
    return [
        (number, voice)
        for number, voice in enumerate(entry.voices)
        if voice.rows is not None or voice.normalised is not None
    ]


def shares(entry: Entry, place: int) -> list[tuple[int, float]]:
    """What each voice adds to the total of a node, 0 to 100, by its number."""
    heard = [(number, voice) for number, voice in speakers(entry) if not voice.shadow]
    said = [
        (number, voice.weight, float(voice.normalised[place]))
        for number, voice in heard
        if voice.normalised is not None and not np.isnan(voice.normalised[place])
    ]
    weights = sum(weight for _, weight, _ in said) or 1.0
    return [(number, score * weight / weights) for number, weight, score in said]


def _sortable(entry: Entry, sort: str) -> bool:
    if found := _VOICE.fullmatch(sort):
        return int(found[1]) in dict(speakers(entry))
    return sort in ("node", "verdict") or (sort == "total" and entry.total is not None)


def _fits(entry: Entry, query: NodeQuery) -> NDArray[np.bool_]:
    fits = np.ones(len(entry.rows), dtype=np.bool_)
    if query.show in ("passed", "refused"):
        fits &= (entry.refused_by == NOBODY) == (query.show == "passed")
    if query.node:
        fits &= np.fromiter((query.node in name for name in entry.nodes), dtype=np.bool_, count=len(fits))
    if query.group:
        mine = np.zeros_like(fits)
        mine[_group(entry, query.group)] = True
        fits &= mine
    return fits


def _group(entry: Entry, group: str) -> Any:
    """The nodes of a group; none where there is no such group."""
    for number, (voice, _, places) in enumerate(entry.groups()):
        if group == str(number) and voice.rows is not None:
            return voice.rows[places]
    return []


def _keys(entry: Entry, sort: str) -> NDArray[Any]:
    """What the nodes are sorted by."""
    if sort == "node":
        return np.array(entry.nodes, dtype=np.str_)
    if sort == "verdict":
        # Those that passed come first, then by who refused them.
        return entry.refused_by.astype(np.float64)
    if sort == "total" and entry.total is not None:
        return entry.total
    voice = entry.voices[int(sort[1:])]
    if voice.normalised is not None:
        return voice.normalised
    codes = np.zeros(len(entry.rows))
    if voice.rows is not None:
        codes[voice.rows] = voice.codes
    return codes


def _ranked(keys: NDArray[Any], *, descending: bool) -> NDArray[np.intp]:
    """The order of the keys; equal ones stay as they were, and no opinion comes last either way."""
    if keys.dtype.kind == "U":
        order = np.argsort(keys, kind="stable")
        return order[::-1] if descending else order
    return np.argsort(-keys if descending else keys, kind="stable")
