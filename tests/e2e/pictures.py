"""The README's pictures: the demo runs, and Chromium photographs its page, light and dark.

make pictures
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.e2e import chromium_binary
from tests.e2e.browser import chromium, watched

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
            seen.page.wait_for_timeout(wait_milliseconds if not taken else 1000)
            picture = folder / f"page-{scheme}.png"
            seen.page.screenshot(path=picture)
            taken.append(picture)
    return taken


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
            for picture in take(browser, f"http://127.0.0.1:{ports[2]}/", FOLDER):
                size = picture.stat().st_size
                print(f"{picture.name}: {size // 1000} kB")
                if size > MAX_BYTES:
                    sys.exit(f"{picture.name} is larger than {MAX_BYTES // 1000} kB")
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
