"""A server that is down is one problem, and not one for each kind of object that is watched there."""

import time


class Complaints:
    """What the informers of one API server have complained of, so that it is logged once a round."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def is_new(self, problem: str, *, pause_seconds: float) -> bool:
        """Whether nobody has said so and is still waiting to try again; who hears yes says it now."""
        now = time.monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        if problem in self._until:
            return False
        self._until[problem] = now + pause_seconds
        return True
