"""Debian's Chromium, driven by Playwright: it brings no browser of its own here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright


@contextlib.contextmanager
def chromium(program: Path) -> Iterator[Browser]:
    """A browser that is gone when the block ends."""
    # Chromium's own sandbox cannot be set up by root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of a browser, with all that it complained about and all that it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")


@contextlib.contextmanager
def watched(browser: Browser, *, width: int = 1280, height: int = 900, **options: Any) -> Iterator[Watched]:
    """A page of that size, in a profile of its own."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(15_000)
    try:
        yield Watched(context.new_page())
    finally:
        context.close()
