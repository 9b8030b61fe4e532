"""``python -m tests.parity``: so many cases, the figure at the end, status 1 on a disagreement."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.controlplane.binaries import find_or_build, say_on_stderr
from tests.controlplane.plane import ControlPlane
from tests.parity.run import Disagreement, Report, both, write_down


def main() -> int:
    """Run, tell, and say how it went."""
    parser = argparse.ArgumentParser(prog="parity", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bayplan-parity-"))

    told = 0

    def tell(disagreement: Disagreement) -> None:
        print(disagreement.told(), f"# kept in {write_down(folder, disagreement)}\n", sep="\n", flush=True)

    def progress(report: Report) -> None:
        nonlocal told
        if report.cases // 200 > told // 200 and report.cases < asked.cases:
            told = report.cases
            print(report.figure(), flush=True)

    with (
        ControlPlane(find_or_build(say=say_on_stderr)) as plane,
        both(plane, seed=asked.seed) as run,
    ):
        report = run.cases(asked.cases, tell, progress)
    print(report.table())
    print(report.figure())
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
