"""Values that policies ask a polled source for and that it does not have: mostly a name that was mistyped.

They read as NaN, which is no error: a value may be missing for good reasons. So each name is told, once.
"""

import logging

from bayplan.kube.yaml import suggest
from bayplan.snapshot.sources import Reading

log = logging.getLogger(__name__)


class Missing:
    """Tells which values of one source were asked for in vain."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._told: set[str] = set()

    def tell(self, reading: Reading) -> None:
        """Look at what was asked of this reading. One without any values has been told of elsewhere."""
        if not reading.fields:
            return
        for field in sorted(reading.missed - self._told):
            self._told.add(field)
            name, there = self._name(field), map(self._name, reading.fields)
            log.warning("a policy reads Source(%r), which no node has%s", name, suggest(name, there))

    def _name(self, field: str) -> str:
        return f"{self._source}.{field}" if field else self._source
