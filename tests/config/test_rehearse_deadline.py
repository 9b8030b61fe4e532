"""A hook that never returns is found in the dry run, before anything is served."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import bayplan
from bayplan.authoring.load import load
from bayplan.config.rehearse import rehearse

# In place of an endless loop, which would take half of the processor for the rest of the tests.
WAITS = """\
import threading
import bayplan

released = threading.Event()

@bayplan.filter
def waits(pod, node):
    released.wait()

@bayplan.score
def quick(pod, node):
    return 1
"""


def test_a_hook_that_never_returns_is_named(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(WAITS)
    (definition,) = load(str(file))
    policy = definition.make()

    with pytest.raises(bayplan.PolicyError, match=r"^slow.py:6 waits: still running after 0.1 s in the dry"):
        rehearse([policy], pods_known=True, limit_seconds=0.1)

    released: threading.Event = policy.hooks[0].function.__globals__["released"]
    released.set()
    assert rehearse([policy], pods_known=True, limit_seconds=10) == []
