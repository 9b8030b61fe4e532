"""Python's garbage collector, kept away from what stays."""

import gc

# A decision is thousands of small objects, of which next to none is in a cycle.
_THRESHOLD = (20_000, 20, 20)


def keep_what_is_here() -> None:
    """Never go through the objects that are here again, and seldom through those to come.

    Those of a cluster are hundreds of thousands that will stay: going through them all would stop the server
    for most of a second, again and again.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLD)
