"""The README's pictures: the demo runs, is asked why a pod waits, and Chromium photographs its page.

make pictures
"""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.e2e import chromium_binary
from tests.e2e.browser import chromium, watched
from tests.e2e.terminal import picture, printed

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
MAX_BYTES = 300_000
_BAYPLAN = Path(sys.executable).parent / "bayplan"
_START_SECONDS = 30.0
# So long the demo runs before the picture: plots of a moment show nothing.
_MILLISECONDS = 75_000


def take(
    browser: Browser, address: str, folder: Path, *, wait_milliseconds: int = _MILLISECONDS
) -> list[Path]:
    """Photograph the first page, light and dark."""
    taken: list[Path] = []
    for scheme in ("light", "dark"):
        with watched(browser, width=1280, height=820, color_scheme=scheme) as seen:
            seen.page.goto(address)
            expect(seen.page.locator("#live")).to_have_text("live")
            seen.page.wait_for_timeout(1000 if taken else wait_milliseconds)
            taken.append(folder / f"page-{scheme}.png")
            seen.page.screenshot(path=taken[-1])
    return taken


def take_why(address: str, folder: Path) -> Path:
    """Ask why the first pod that found no node waits, and draw the terminal."""
    with urllib.request.urlopen(f"{address}api/decisions?verb=filter&result=refused") as answer:
        namespace, name = json.load(answer)[-1]["pod"].split("/")
    asked = ["why", f"pod/{name}", "-n", namespace]
    output = printed([_BAYPLAN, *asked, "--server", address.rstrip("/")])
    # Who runs the demo finds it at the usual port, and need not say so; only this one has another.
    output = output.replace(address.rstrip("/"), "http://127.0.0.1:8890")
    drawn = folder / "why.svg"
    drawn.write_text(picture(f"bayplan {' '.join(asked)}", output))
    return drawn


def main() -> None:
    """Run the demo, take the pictures, say how large they are."""
    ports = [free_port() for _ in range(3)]
    flags = ("--listen", "--ops-listen", "--page-listen")
    addresses = [f"{flag}=127.0.0.1:{port}" for flag, port in zip(flags, ports, strict=True)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium(chromium_binary.find()) as browser:
        demo = Child("bayplan demo", [_BAYPLAN, "demo", *addresses], log=Path(folder) / "log")
        try:
            demo.wait_until(lambda: _answers(ports[2]), _START_SECONDS)
            address = f"http://127.0.0.1:{ports[2]}/"
            for taken in [*take(browser, address, FOLDER), take_why(address, FOLDER)]:
                size = taken.stat().st_size
                print(f"{taken.name}: {size // 1000} kB")
                if size > MAX_BYTES:
                    sys.exit(f"{taken.name} is larger than {MAX_BYTES // 1000} kB")
        finally:
            demo.stop()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/state")
        return connection.getresponse().status == 200
    return False


if __name__ == "__main__":
    main()
