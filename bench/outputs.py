"""Where the figures of a benchmark go: to the terminal, into a file as JSON, a picture and a page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.busy import Busy
from bench.report import MarkersMissing, check_markers, describe, machine, write_between_markers


class Outputs:
    """What the command line asked for, and the machine that the figures are from."""

    def __init__(
        self, about: str, arguments: Sequence[str] | None = None, *, quick: str, rounds: int | None = None
    ) -> None:
        """``about`` says what is measured, ``quick`` what is left out then; ``rounds`` can be asked for."""
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("--quick", action="store_true", help=quick)
        if rounds is not None:
            parser.add_argument("--rounds", type=int, default=rounds, help=f"{rounds} unless told otherwise")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
        parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the picture there")
        parser.add_argument("--docs", type=Path, metavar="FILE.md", help="put the tables into that page")
        options = parser.parse_args(arguments)
        self.quick: bool = options.quick
        self.rounds: int = options.rounds if rounds is not None else 0
        if rounds is not None and self.rounds < 1:
            parser.error("--rounds must be 1 at least")
        self.command = _command(
            quick=self.quick, rounds=self.rounds if self.rounds != (rounds or 0) else None
        )
        self._json: Path | None = options.json
        self._plot: Path | None = options.plot
        self._docs: Path | None = options.docs
        if self._docs is not None:
            # Now, not after all the minutes that it takes.
            try:
                check_markers(self._docs)
            except MarkersMissing as missing:
                parser.error(str(missing))
        self.machine = machine()
        self._busy = Busy()
        print(describe(self.machine) + "\n", flush=True)

    def keep(self, figures: dict[str, Any]) -> None:
        """Write down what is known so far: a run that is ended early keeps what it has."""
        if self._json is not None:
            whole = {"command": self.command, "machine": self.machine, **figures}
            self._json.write_text(json.dumps(whole, indent=1) + "\n")

    def finish(self, text: str, picture: str, *, caption: str = "") -> None:
        """Print the tables, and put them and the picture where they belong; every child has ended by now.

        With a ``caption``, the page shows the picture above its tables, where it lies beside the page.
        """
        others = f"Others used {self._busy.by_others():.0%} of a core meanwhile."
        print(f"\n{text}\n\n{others}", flush=True)
        if self._plot is not None:
            self._plot.write_text(picture)
        if self._docs is not None:
            parts = [f"Made by `{self.command}` on {describe(self.machine)} {others}"]
            beside = self._plot is not None and self._plot.parent.resolve() == self._docs.parent.resolve()
            if caption and self._plot is not None and beside:
                parts.append(f"![{caption}]({self._plot.name})")
            write_between_markers(self._docs, "\n\n".join([*parts, text]))


def rows(head: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def _command(*, quick: bool, rounds: int | None) -> str:
    """What to type for the same figures, without where they go."""
    words = ["python", "-m", f"bench.{Path(sys.argv[0]).stem}", *(["--quick"] if quick else [])]
    words += [f"--rounds {rounds}"] if rounds is not None else []
    return " ".join(words)
