"""Reloads the candidate configuration when its files change, or when the live one names another.

A candidate that cannot be loaded is refused by itself: the old candidate goes on, and the live configuration
can still be reloaded.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayplan.config.candidate import COUNTED, Candidate, candidate_path, candidate_source, load_candidate
from bayplan.config.flags import Loaded
from bayplan.runtimes.generations import Generations
from bayplan.runtimes.reload import Reloader
from bayplan.runtimes.shadow import ShadowOptions, shadow_options
from bayplan.runtimes.watched_task import WatchedTask

log = logging.getLogger(__name__)


def _plain_options(live: Loaded, candidate: Candidate) -> ShadowOptions:
    return shadow_options(live.config.shadow, candidate)


class CandidateReloader:
    """Keeps a server's candidate up to date with its files and with the live configuration."""

    def __init__(
        self,
        live: Loaded,
        options: ShadowOptions | None,
        generations: Generations[Any],
        *,
        load: Callable[..., Candidate] = load_candidate,
        options_for: Callable[[Loaded, Candidate], ShadowOptions] = _plain_options,
        counted: frozenset[str] = COUNTED,
    ) -> None:
        """``load`` reads a candidate as `load_candidate` does; ``options_for`` makes its options."""
        self._live = live
        self._generations = generations
        self._load_candidate = load
        self._options_for = options_for
        self._counted = counted
        self._candidate = options.candidate if options is not None else None
        self._path = candidate_path(live)
        self._reloader: Reloader | None = None
        self._task: WatchedTask | None = None
        generations.shadow.problem = self._problem

    def start(self) -> None:
        """Begin to watch the candidate's files, if there is a candidate."""
        if self._path is not None:
            self._watch(self._path)

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
        self._reloader = self._task = None

    def ask(self) -> None:
        """Reload the candidate now, as SIGHUP does."""
        if self._reloader is not None:
            self._reloader.ask()

    def follow(self, live: Loaded) -> None:
        """Follow a changed live configuration: another candidate, none, or other settings for it."""
        before, self._live = self._live.config.shadow, live
        path = candidate_path(live)
        if path != self._path:
            self.stop()
            self._path = path
            self._generations.metrics.shadow.reload_ok.set(1)
            if path is not None:
                self._watch(path)
                self.ask()
            else:
                self._candidate = None
                self._generations.adopt_candidate(None)
                log.info("shadow: no candidate any more")
        elif self._candidate is not None and live.config.shadow != before:
            self._generations.adopt_candidate(self._options_for(live, self._candidate))

    def _watch(self, path: Path) -> None:
        files, flags = candidate_source(path)
        known = self._candidate.loaded if self._candidate is not None else replace(self._live, policies=[])
        self._reloader = Reloader(
            files,
            flags,
            known,
            adopt=lambda loaded: self._adopt(Candidate(path.name, loaded, counted=self._counted)),
            on_result=self._generations.metrics.shadow.reloaded,
            load=lambda: self._load_candidate(path, self._live, strict=True).loaded,
            what=f"candidate {path.name}",
        )
        self._task = WatchedTask(self._reloader.run(), "the files of the candidate are not watched")

    def _problem(self) -> str:
        if self._reloader is None or self._task is None:
            return ""
        return self._task.problem or self._reloader.problem

    def _adopt(self, candidate: Candidate) -> None:
        self._generations.adopt_candidate(self._options_for(self._live, candidate))
        self._candidate = candidate
        names = ", ".join(policy.name for policy in candidate.loaded.policies)
        log.info("shadow: %s was loaded; its policies: %s", candidate.file, names)
        if candidate.ignored:
            log.info("%s", candidate.ignored)
