"""A child process with a log file, which cannot outlive the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane import die_with_parent
from tests.controlplane.waiting import wait_until

TAIL_LINES = 25


class ChildDied(RuntimeError):
    """A child ended though nobody stopped it; the message ends with the tail of its log."""


class Child:
    """One running program.

    Start it from a thread that lives as long as the child should: Linux counts the end of the
    starting *thread* as the death of the parent.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] = {}
    ) -> None:
        """Start `argv` with only PATH, HOME and `env` set; both outputs go to `log`.

        Little environment, because proxies or the KUBERNETES_* of a CI pod would change what
        Go programs do.
        """
        self.name = name
        self.log_file = log
        launcher = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*launcher, *map(str, argv)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(log.parent), **env},
                # A Ctrl-C at the terminal reaches pytest alone, which then stops us in order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, also of a child that has ended."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, minus the signal that ended it, or None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """Everything the program has written so far."""
        return self.log_file.read_text(errors="replace")

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines it has written, under a heading."""
        tail = "\n".join(self.log().splitlines()[-lines:])
        return f"--- the end of {self.log_file} ---\n{tail}"

    def check(self) -> None:
        """Raise `ChildDied` unless the program runs."""
        if not self.alive:
            raise ChildDied(f"{self.name} (pid {self.pid}) ended with {self.exit_code}\n{self.log_tail()}")

    def wait_until(self, condition: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait for `condition`, and no longer than the program lives."""

        def alive_and_well() -> bool:
            self.check()
            return condition()

        wait_until(alive_and_well, timeout_seconds, what=f"{self.name} is ready", explain=self.log_tail)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing inside the block, and does not know it; sockets stay open, and take in what comes.

        A signal waits for a thread that takes it, and on a busy machine the others go on until then: so the
        block begins when all of them stand still.
        """
        os.kill(self.pid, signal.SIGSTOP)
        try:
            wait_until(self._stands_still, 10, what=f"{self.name} is frozen", poll_seconds=0.001)
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _stands_still(self) -> bool:
        tasks = list(Path(f"/proc/{self.pid}/task").iterdir())
        # The name before the state is in brackets, and may have any in it.
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)

    def wait_ended(self, timeout_seconds: float = 10.0) -> int:
        """Wait for the program to end by itself; its exit code."""
        wait_until(
            lambda: not self.alive,
            timeout_seconds,
            what=f"{self.name} ends by itself",
            explain=self.log_tail,
        )
        return self._process.wait()

    def stop(self, grace_seconds: float = 5.0) -> None:
        """End the program: SIGTERM, a time of grace, SIGKILL. Stopping twice is harmless."""
        if not self.alive:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
