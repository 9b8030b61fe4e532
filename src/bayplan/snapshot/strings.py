"""A text column: one value per node, compared as a whole.

Each distinct text is kept once and nodes hold its number, so comparing 5,000 nodes is one NumPy
operation instead of 5,000 string comparisons.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
_SPARE = 1_000
_MANY = 1_000


class Strings:
    """A column of text: ``nodes["zone"] == "a"``, ``!=``, ``.isin(["a", "b"])`` give one bool for each node.

    A node without the text equals nothing; ``.present`` tells which nodes have one.
    """

    __hash__ = None  # type: ignore[assignment]
    # Makes NumPy arrays leave comparisons with this column to this class.
    __array_ufunc__ = None
    __slots__ = ("_codes_by_value", "_found", "codes", "values")

    def __init__(
        self, codes: NDArray[np.int32], values: tuple[str, ...], known: dict[str, int] | None = None
    ) -> None:
        """``known`` are the codes by value, if the caller has them already."""
        self.codes = codes
        self.values = values
        self._codes_by_value = {value: code for code, value in enumerate(values)} if known is None else known
        self._found: tuple[list[str], NDArray[np.int32]] | None = None

    @classmethod
    def intern(cls, texts: Iterable[str | None]) -> "Strings":
        """A column of these texts; ``None`` for a node without one."""
        given = list(texts)
        distinct = dict.fromkeys(given)
        distinct.pop(None, None)
        known = {text: code for code, text in enumerate(distinct) if text is not None}
        codes: dict[str | None, int] = {None: ABSENT}
        codes.update(known)
        rows = np.fromiter(map(codes.__getitem__, given), dtype=np.int32, count=len(given))
        return cls(rows, tuple(known), known)

    def extended(self, texts: Iterable[str | None]) -> "Strings":
        """A copy with more rows at the end."""
        return self._with(texts, lambda more: np.concatenate([self.codes, more]))

    def patched(self, rows: NDArray[np.intp], texts: Iterable[str | None]) -> "Strings":
        """A copy with other texts in these rows."""

        def put(more: NDArray[np.int32]) -> NDArray[np.int32]:
            codes = self.codes.copy()
            codes[rows] = more
            return codes

        return self._with(texts, put)

    def _with(
        self, texts: Iterable[str | None], lay: Callable[[NDArray[np.int32]], NDArray[np.int32]]
    ) -> "Strings":
        seen = dict(self._codes_by_value)
        more = [ABSENT if text is None else seen.setdefault(text, len(seen)) for text in texts]
        codes = lay(np.array(more, dtype=np.int32))
        if len(seen) == len(self.values):
            return self.with_codes(codes)
        column = Strings(codes, tuple(seen), seen)
        # Nodes come and go, and leave texts behind that no node has any more.
        many = len(seen) > 2 * len(column) + _SPARE
        return Strings.intern(column[row] for row in range(len(column))) if many else column

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which nodes have a text."""
        return np.not_equal(self.codes, ABSENT)

    def isin(self, texts: Iterable[str]) -> NDArray[np.bool_]:
        """Which nodes have one of these texts."""
        if isinstance(texts, str):
            raise TypeError(f"isin wants several texts, such as [{texts!r}]; for one there is ==")
        wanted = np.zeros(len(self.values) + 1, dtype=np.bool_)
        wanted[self.find(list(texts))] = True
        # The code of an absent text is -1: the last place.
        wanted[ABSENT] = False
        return wanted[self.codes]

    def find(self, texts: Collection[str]) -> NDArray[np.int32]:
        """The code of each of these texts; `ABSENT` for one that no node has."""
        wanted = texts if isinstance(texts, list) else list(texts)
        # A source names its nodes in the same order each time: comparing is faster than looking up.
        last = self._found
        if last is not None and last[0] == wanted:
            return last[1]
        found = map(self._codes_by_value.get, wanted, repeat(ABSENT))
        codes = np.fromiter(found, dtype=np.int32, count=len(wanted))
        if len(wanted) >= _MANY:
            codes.flags.writeable = False
            self._found = (wanted, codes)
        return codes

    def with_codes(self, codes: NDArray[np.int32]) -> "Strings":
        """A column with other codes of the same texts."""
        return Strings(codes, self.values, self._codes_by_value)

    def take(self, rows: NDArray[np.intp]) -> "Strings":
        """The column of these rows."""
        return self.with_codes(self.codes[rows])

    def __eq__(self, other: object) -> NDArray[np.bool_]:  # type: ignore[override]
        if other is None:
            return ~self.present
        if isinstance(other, str):
            code = self._codes_by_value.get(other)
            if code is None:
                return np.zeros(len(self), dtype=np.bool_)
            return np.equal(self.codes, code)
        if isinstance(other, Strings) and len(other) == len(self):
            here = [other._codes_by_value.get(value, ABSENT - 1) for value in self.values]
            translated = np.array([*here, ABSENT - 1], dtype=np.int32)[self.codes]
            return np.equal(translated, other.codes)
        raise TypeError(f"cannot compare a column of text with {type(other).__name__}")

    def __ne__(self, other: object) -> NDArray[np.bool_]:  # type: ignore[override]
        if isinstance(other, str) and (code := self._codes_by_value.get(other)) is not None:
            return np.not_equal(self.codes, code)
        return ~(self == other)

    def _no_numbers(self, _: object) -> NoReturn:
        raise TypeError(
            "this column is text, which is not larger or smaller, and cannot be added up; for numbers say so"
            " where it is named, as in Label(KEY, float)"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_numbers
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_numbers

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = self.codes[row]
        return None if code == ABSENT else self.values[code]

    def __repr__(self) -> str:
        return f"Strings({len(self)} nodes, {len(self.values)} distinct)"
