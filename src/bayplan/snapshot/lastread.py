"""Tracks when each column was last read, so that unused columns are dropped.

After a reload policies may read other columns, and each column that is kept is updated at every event.
"""

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Values = TypeVar("Values")

# A view takes a step for each snapshot after an event: so many steps are some seconds to an hour.
STEPS = 1_000
MANY = 300


class LastRead:
    """When each column was last read. Shared by tables; policy threads note, the event loop steps."""

    __slots__ = ("_at", "_step")

    def __init__(self) -> None:
        self._at: dict[object, int] = {}
        self._step = 0

    def note(self, column: object) -> None:
        """Note that the column is read now."""
        self._at[column] = self._step

    def next_step(self) -> None:
        """Count a step of the view to its next table."""
        self._step += 1
        if self._step % STEPS == 0:
            for column in list(self._at):
                if not self._lately(column):
                    self._at.pop(column, None)

    def of(self, columns: Mapping[Key, Values]) -> list[tuple[Key, Values]]:
        """The columns that were read lately, as a copy, since other threads may add columns meanwhile.

        At most `MANY`, those read last: pods choose the labels that they ask about, so there is no other
        bound.
        """
        found = [(column, values) for column, values in list(columns.items()) if self._lately(column)]
        if len(found) <= MANY:
            return found
        return sorted(found, key=lambda one: self._at.get(one[0], 0), reverse=True)[:MANY]

    def _lately(self, column: object) -> bool:
        return self._step - self._at.get(column, -STEPS - 1) <= STEPS
