"""Another configuration without a restart: validated and dry-run first, then whole or not at all."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.imports import anew
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags, Loaded
from bayplan.config.load import ConfigError
from bayplan.config.unchangeable import needs_restart
from bayplan.config.watching import Fingerprint, WatchedFiles

log = logging.getLogger(__name__)

# Twice the same before it is read: an editor may be half-way through.
_LOOK_SECONDS = 1.0
_LOAD_SECONDS = 60.0


class Reloader:
    """Watches the files of a configuration, and hands on what they become."""

    def __init__(
        self,
        files: Sequence[str],
        flags: Flags,
        loaded: Loaded,
        *,
        adopt: Callable[[Loaded], None],
        on_result: Callable[[str], None] = lambda _: None,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self.problem = ""
        """Why the last change was not taken over; ``""`` when it was."""
        self._files = files
        self._flags = flags
        self._loaded = loaded
        self._adopt = adopt
        self._on_result = on_result
        self._look_seconds = look_seconds
        self._watched = WatchedFiles(files, flags, loaded)
        self._known = self._watched.fingerprint()
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Reload now, as SIGHUP does, whether or not a file has changed."""
        self._asked.set()

    async def run(self) -> None:
        """Look for changes until cancelled."""
        seen = self._known
        while True:
            asked = await self._pause()
            found = self._watched.fingerprint()
            settled = found == seen and found != self._known
            seen = found
            if asked or settled:
                await self._reload(found)

    async def _pause(self) -> bool:
        """Wait for the next look; whether somebody asked for it."""
        try:
            async with asyncio.timeout(self._look_seconds):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    async def _reload(self, found: Fingerprint) -> None:
        # A file that cannot be used is not tried again until it changes again.
        self._known = found
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                loaded = await asyncio.to_thread(self._load)
            self._adopt(loaded)
        except TimeoutError:
            self.problem = f"loading takes longer than {_LOAD_SECONDS:.0f} s"
        except Exception as error:
            expected = isinstance(error, ConfigError | PolicyError | OSError)
            self.problem = str(error) if expected else f"{type(error).__name__}: {error}"
        else:
            self.problem = ""
            self._loaded = loaded
            self._watched = WatchedFiles(self._files, self._flags, loaded)
            self._known = self._watched.fingerprint()
            self._on_result("ok")
            return
        self._on_result("refused")
        log.error("the new configuration is not used, the old one stays: %s", self.problem)

    def _load(self) -> Loaded:
        with anew():
            loaded, problems = load_checked(self._files, self._flags)
            if problems:
                raise ConfigError("; ".join(problems))
            fixed = needs_restart(self._loaded, loaded)
            if fixed:
                raise ConfigError(f"restart the server to change {', '.join(fixed)}")
        return loaded
