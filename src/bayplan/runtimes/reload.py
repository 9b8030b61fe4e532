"""Reloads a configuration without a restart: validated and dry-run first, then all of it or none."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import ParamSpec, TypeVar

from bayplan.authoring.editions import anew
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.raised import safe_text
from bayplan.client.daemon_threads import DaemonThreads
from bayplan.config.check import dry_run
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError
from bayplan.config.unchangeable import needs_restart
from bayplan.config.watching import Fingerprint, WatchedFiles

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

# Two threads that use one of msgspec's types for the first time can crash the interpreter. On SIGHUP both the
# live files and a candidate's are loaded, so one load waits for the other, but not for one that hangs.
_one_at_a_time = threading.Lock()
_TURN_SECONDS = 20.0
# Files must look the same twice, this far apart, before they are read: an editor may be half-way through.
_LOOK_SECONDS = 1.0
_LOAD_SECONDS = 60.0


class Reloader:
    """Watches the files of a configuration, and adopts their changes.

    Files are read in a thread: a file system may be slow, and the event loop has requests to answer.
    """

    def __init__(
        self,
        files: Sequence[str],
        flags: Flags,
        loaded: Loaded,
        *,
        adopt: Callable[[Loaded], None],
        on_result: Callable[[str], None] = lambda _: None,
        load: Callable[[], Loaded] | None = None,
        what: str = "configuration",
        look_seconds: float = _LOOK_SECONDS,
        load_seconds: float = _LOAD_SECONDS,
    ) -> None:
        """``load`` reads the files; by default as a replacement of the configuration ``loaded``."""
        self.problem = ""
        """Why the last change was refused; ``""`` if it was not."""
        self._files = files
        self._flags = flags
        self._started = loaded
        self._adopt = adopt
        self._on_result = on_result
        self._try = load or self._changed
        self._what = what
        self._look_seconds = look_seconds
        self._load_seconds = load_seconds
        self._watched = WatchedFiles(files, flags, loaded)
        self._known = self._seen = self._watched.fingerprint()
        self._put_off: Fingerprint | None = None
        self._load: _Load | None = None
        self._asked = asyncio.Event()
        self._threads = DaemonThreads("bayplan-look", limit=1)

    def ask(self) -> None:
        """Reload now, as SIGHUP does, whether or not a file has changed."""
        self._asked.set()

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            asked = await self._pause()
            try:
                await self._look(asked=asked)
            except Exception:
                log.exception("looking for changes of the %s: this is a bug in Bayplan", self._what)

    async def _aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` in a thread of our own."""
        look = partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _pause(self) -> bool:
        """Wait until it is time to look again; True if a reload was asked for."""
        try:
            async with asyncio.timeout(self._look_seconds):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    async def _look(self, *, asked: bool) -> None:
        found = await self._aside(self._watched.fingerprint, widely=bool(self.problem))
        settled = found == self._seen and found != self._known
        self._seen = found
        if not (asked or settled):
            return
        if self._load is not None and not self._load.over:
            # Reported once; tried again when the other load has ended.
            if asked or found != self._put_off:
                self._put_off = found
                self._refuse("still loading the previous change, which hangs; if it never ends, restart")
            return
        await self._reload()

    async def _reload(self) -> None:
        # A refused change is tried again only when its files change again, or others beside them do: an
        # imported file may still be on its way.
        found = await self._aside(self._watched.fingerprint, widely=True)
        self._known, self._put_off = found, None
        loaded: Loaded | None = None
        try:
            loaded = await self._loaded()
            watched = await self._aside(WatchedFiles, self._files, self._flags, loaded)
            before = dict(found)
            # A file that changed while loading counts as another change.
            now = await self._aside(watched.fingerprint)
            known = tuple((path, before.get(path, seen)) for path, seen in now)
            self._adopt(loaded)
        except BaseException as error:
            if loaded is not None:
                loaded.edition.forget()
            if not isinstance(error, Exception):
                raise
            expected = isinstance(error, ConfigError | PolicyError | OSError)
            self._refuse(str(error) if expected else f"{type(error).__name__}: {error}")
            return
        self.problem, self._watched, self._known = "", watched, known
        self._on_result("ok")

    async def _loaded(self) -> Loaded:
        load = self._load = _Load(self._try)
        load.start()
        try:
            done, _ = await asyncio.wait({load.result}, timeout=self._load_seconds)
            if not done:
                raise ConfigError(f"loading takes longer than {self._load_seconds:g} s")
            return load.result.result()
        finally:
            load.result.cancel()

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        log.error("the new %s is not used, the old one stays: %s", self._what, problem)
        self._on_result("refused")

    def _changed(self) -> Loaded:
        return load_changed(self._files, self._flags, self._started)


def load_changed(
    files: Sequence[str],
    flags: Flags,
    started: Loaded,
    *,
    check: Callable[..., list[str]] = dry_run,
    fixed: Callable[[Loaded, Loaded], list[str]] = needs_restart,
) -> Loaded:
    """Load the configuration anew; `ConfigError` if it cannot replace the ``started`` one.

    ``check`` lists its problems, ``fixed`` the changes that need a restart.
    """
    with anew():
        loaded = load_all(files, flags)
        if problems := check(loaded, where=f"{flags.config}: " if flags.config else ""):
            raise ConfigError("; ".join(problems))
        if changed := fixed(started, loaded):
            raise ConfigError(f"restart the server to change {', '.join(changed)}")
    return loaded


class _Load(threading.Thread):
    """One attempt to load, in a daemon thread: loading may hang, and then nothing waits for it."""

    def __init__(self, work: Callable[[], Loaded]) -> None:
        super().__init__(name="bayplan-reload", daemon=True)
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Loaded] = self._loop.create_future()
        """The result; cancelled when it came too late."""
        self.over = False

    def run(self) -> None:
        """Load, and set the result."""
        loaded: Loaded | None = None
        error: Exception | None = None
        turn = _one_at_a_time.acquire(timeout=_TURN_SECONDS)
        try:
            loaded = self._work()
        except Exception as raised:
            error = raised
        except BaseException as raised:
            error = RuntimeError(f"{type(raised).__name__}: {safe_text(raised)}")
        finally:
            if turn:
                _one_at_a_time.release()
        # The loop is closed if the server has stopped meanwhile.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, loaded, error)

    def _settle(self, loaded: Loaded | None, error: Exception | None) -> None:
        self.over = True
        if self.result.cancelled():
            if loaded is not None:
                loaded.edition.forget()
        elif loaded is not None:
            self.result.set_result(loaded)
        elif error is not None:
            self.result.set_exception(error)
