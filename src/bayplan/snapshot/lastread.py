"""When each column was last read: what nobody reads any more is let go.

A configuration that is loaded anew may read other columns, and each one that is kept is computed again at
every event of a node.
"""

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Values = TypeVar("Values")

# Views go on as fast as events and requests come: these are some seconds to an hour.
STEPS = 1_000
MANY = 300


class LastRead:
    """Shared by tables that follow one another; policy threads note, the thread of the events takes steps."""

    __slots__ = ("_at", "_step")

    def __init__(self) -> None:
        self._at: dict[object, int] = {}
        self._step = 0

    def note(self, column: object) -> None:
        """The column is read now."""
        self._at[column] = self._step

    def next_step(self) -> None:
        """The view goes on to another table."""
        self._step += 1
        if self._step % STEPS == 0:
            for column in list(self._at):
                if not self._lately(column):
                    self._at.pop(column, None)

    def of(self, columns: Mapping[Key, Values]) -> list[tuple[Key, Values]]:
        """Those that were read lately, copied out at once: other threads may add some meanwhile.

        The last ones, where there are many: whoever makes a pod chooses the labels that it asks about.
        """
        found = [(column, values) for column, values in list(columns.items()) if self._lately(column)]
        if len(found) <= MANY:
            return found
        return sorted(found, key=lambda one: self._at.get(one[0], 0), reverse=True)[:MANY]

    def _lately(self, column: object) -> bool:
        return self._step - self._at.get(column, -STEPS - 1) <= STEPS
