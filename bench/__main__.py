"""All benchmarks, one after another, never two at once: they would measure each other.

    make bench                       # all, and writes the figures into docs/benchmarks
    make bench ARGS="wire scale"     # some of them
    make bench ARGS=--quick          # a short look; prints only

Each part is a process of its own. One that fails does not keep the others from running: the last lines
say which failed, and the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.busy import Busy

DOCS = Path("docs") / "benchmarks"
ROOT = Path(__file__).parents[1]
QUIET_CORES = 0.2
_LISTENING_SECONDS = 2.0


@dataclass(frozen=True)
class Part:
    """One benchmark: what it asks, and about how many minutes it takes on two cores."""

    name: str
    about: str
    minutes: float
    quick_minutes: float

    def argv(self, *, quick: bool) -> list[str]:
        """The command; the short version leaves what is recorded as it is."""
        command = [sys.executable, "-m", f"bench.{self.name}"]
        if quick:
            return [*command, "--quick"]
        page = DOCS / self.name
        return [*command, f"--json={page}.json", f"--plot={page}.svg", f"--docs={page}.md"]


PARTS = (
    Part("wire", "a verb over HTTP, beside Go and Flask", 12, 1),
    Part("cluster", "pods a second of a real kube-scheduler", 33, 5),
    Part("state", "time to ready, memory, cost of events", 4, 2),
    Part("scale", "cost against nodes and policies", 1, 1),
    Part("bind", "the bind verb, beside the API server itself", 1, 1),
)

Run = Callable[[Sequence[str]], int]


def main(arguments: Sequence[str] | None = None, run: Run | None = None) -> int:
    """Run what was asked for; the exit code."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="python -m bench", description="All benchmarks, one after another.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="short versions, printed and not recorded")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.parts if name not in names]:
        parser.error(f"there is no benchmark {', '.join(unknown)}: there are {', '.join(names)}")
    wanted = [part for part in PARTS if part.name in (options.parts or names)]
    _announce(wanted, quick=options.quick)
    failed = []
    for part in wanted:
        print(f"\n=== {part.name}: {part.about}\n", flush=True)
        start = time.monotonic()
        code = (run or _run)(part.argv(quick=options.quick))
        print(f"\n=== {part.name}: {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
        if code:
            failed.append(f"{part.name} (exit code {code})")
    if not options.quick:
        (run or _run)([sys.executable, "-m", "bench.summary"])
    done = "nothing was recorded" if options.quick else f"recorded in {DOCS}"
    print(f"\n{len(wanted) - len(failed)} of {len(wanted)} ended well; {done}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


def _announce(wanted: Sequence[Part], *, quick: bool) -> None:
    minutes = sum(part.quick_minutes if quick else part.minutes for part in wanted)
    print(f"{', '.join(part.name for part in wanted)}: about {minutes:.0f} minutes on two cores", flush=True)
    busy = Busy()
    time.sleep(_LISTENING_SECONDS)
    if (others := busy.by_others()) > QUIET_CORES:
        print(
            f"!!! THE MACHINE IS BUSY: others use {others:.1f} of {os.cpu_count()} cores"
            f" (load {os.getloadavg()[0]:.1f}). It is measured along; ratios suffer less than times.",
            flush=True,
        )


def _run(argv: Sequence[str]) -> int:
    return subprocess.run(argv, cwd=ROOT, check=False).returncode  # noqa: S603 - our own modules


if __name__ == "__main__":
    sys.exit(main())
