"""Asking a running server why, and kube-scheduler's own words to compare with."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from tests.e2e.extender import COMMAND, Extender

DISKS_AND_REGIONS = """
    import bayplan

    NO_SSD = bayplan.Reason("no ssd", detail="its disk is {disk}", helped_by={"nodes"})
    DISK = bayplan.Label("disk")

    @bayplan.policy
    class Disks:
        @bayplan.filter
        def disk(self, pod, nodes):
            disk = nodes[DISK]
            return NO_SSD.where(disk != "ssd", disk=disk)

    @bayplan.policy
    class Regions:
        @bayplan.filter
        def region(self, pod, node):
            if node.labels.get("region") != "east":
                return "too far away, wants region east"

    @bayplan.policy
    class Ranks:
        @bayplan.score(range=(0, 10))
        def rank(self, pod, node):
            return int(node.labels.get("rank", 0))
"""


def why(pod: str, *servers: Extender | str, flags: tuple[str, ...] = ()) -> dict[str, Any]:
    """What ``bayplan why -o json`` says; it must exit with 0."""
    found: dict[str, Any] = json.loads(run(pod, *servers, flags=("-o", "json", *flags)))
    return found


def run(pod: str, *servers: Extender | str, flags: tuple[str, ...] = ()) -> str:
    urls = [s if isinstance(s, str) else f"http://127.0.0.1:{s.page_port}" for s in servers]
    command = [str(COMMAND), "why", pod, *flags, *(f"--server={url}" for url in urls)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(pod: str, *flags: str) -> str:
    """What it says where it must exit with 1."""
    ended = subprocess.run([COMMAND, "why", pod, *flags], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout
    return ended.stderr


def in_event(message: str) -> dict[str, int]:
    """The counts of a FailedScheduling event, by reason."""
    said = re.match(r"0/\d+ nodes are available: (.*?)\.( |$)", message)
    assert said is not None, message
    # A comma may be part of a reason; a number begins the next one.
    return {text: int(count) for count, text in re.findall(r"(\d+) (.*?)(?=, \d+ |$)", said[1])}


def in_why(said: dict[str, Any]) -> dict[str, int]:
    return {group["reason"]: group["count"] for group in said["refused"]}
