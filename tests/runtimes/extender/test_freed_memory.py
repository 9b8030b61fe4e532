"""Freed memory is used again without the kernel, in a process of its own: the setting is for good."""

import os
import platform
import subprocess
import sys

import pytest

# Two blocks, each as large as an answer about 25,000 nodes, used and freed again and again.
ROUNDS = 20
PAGES = 2 * 2_000_000 // 4096
PROGRAM = f"""
import resource
import numpy as np
from bayplan.runtimes.extender.freed_memory import keep_freed_memory

def use():
    first, second = np.empty(2_000_000, np.uint8), np.empty(2_000_000, np.uint8)
    first[:] = second[:] = 1

keep_freed_memory()
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    use()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // {ROUNDS})
"""


def new_pages_a_round(**environment: str) -> int:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=plain | environment, capture_output=True, text=True, check=True
    )
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc has this setting")
def test_freed_memory_is_used_again() -> None:
    assert new_pages_a_round() < PAGES // 20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc has this setting")
def test_settings_of_the_environment_are_left_alone() -> None:
    # With this setting of theirs, every block comes from the kernel.
    assert new_pages_a_round(MALLOC_MMAP_THRESHOLD_="65536") > PAGES // 2
