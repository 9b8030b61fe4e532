"""What policy authors import: hooks, verdicts, arguments; and how policies are found and loaded."""

import sys
import types
from typing import Any


class _Room(types.ModuleType):
    def __call__(self, cls: Any) -> Any:
        from bayplan.policy.hooks import policy

        return policy(cls)


sys.modules[__name__].__class__ = _Room
