"""Keeps freed memory for the next request, instead of returning it to the kernel each time.

A request of 15,000 names and its answer take a few megabytes for some milliseconds. The C library of Linux
returns such memory at once, and the kernel fills each page with zeros when it is used again: 900 pages for a
pod, a quarter of the time of both answers.
"""

import ctypes
import os
import sys

# From malloc.h of glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 64 * 1024 * 1024
# A larger block, such as a request with 2,000 full nodes or the data of a policy, is returned in any case:
# between blocks that are in use, it could stay for good.
_LARGE_BYTES = 24 * 1024 * 1024
_CHOSEN_BY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> None:
    """Let malloc keep up to 64 MB; unless the environment has settings for malloc, or it is not glibc's."""
    if sys.platform != "linux" or any(name in os.environ for name in _CHOSEN_BY):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
