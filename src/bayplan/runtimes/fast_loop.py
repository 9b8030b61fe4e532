"""The event loop that servers run on."""

from collections.abc import Callable, Coroutine

from bayplan.state.sources.threads import run_apart

try:
    import uvloop
except ImportError:  # not on every platform
    uvloop = None  # type: ignore[assignment]


def run_in_fast_loop(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run ``main`` on uvloop if it is installed, else on asyncio's own loop."""
    run_apart(main(), loop_factory=uvloop.new_event_loop if uvloop else None)
