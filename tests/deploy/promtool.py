"""Prometheus' own tool, which reads rules and works expressions out over series that a test makes up."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.prometheus_binary import require


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    command = [str(require("promtool")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def inputs(series: Mapping[str, str]) -> list[dict[str, str]]:
    """Series by name with their values, one a minute, as a test has them: ``"0+1x30"``."""
    return [{"series": name, "values": values} for name, values in series.items()]


def complaints(folder: Path, test: dict[str, Any], *, rules: Sequence[Path] = ()) -> str:
    """What it has against what the test expects; ``""`` when it agrees."""
    file = folder / "test.yaml"
    content = {
        "rule_files": [str(each) for each in rules],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", **test}],
    }
    file.write_text(yaml.safe_dump(content, width=1000))
    ended = promtool("test", "rules", str(file))
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr
