"""Warns of fields that a policy reads and a polled source does not have: mostly a mistyped name.

Such a field reads as NaN, which is no error, since a value may be missing for good reasons. So each name is
logged once.
"""

import logging

from bayplan.kube.yaml import suggest
from bayplan.snapshot.sources import Reading

log = logging.getLogger(__name__)


class Missing:
    """Logs the missing fields of one source, each once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._told: set[str] = set()

    def tell(self, reading: Reading) -> None:
        """Log the fields that policies missed in this reading; an empty reading is logged elsewhere."""
        if not reading.fields:
            return
        for field in sorted(reading.missed - self._told):
            self._told.add(field)
            name, there = self._name(field), map(self._name, reading.fields)
            log.warning("a policy reads Source(%r), which no node has%s", name, suggest(name, there))

    def _name(self, field: str) -> str:
        return f"{self._source}.{field}" if field else self._source
