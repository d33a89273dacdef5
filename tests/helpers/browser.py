"""Pages of reports and of the site in Chromium, by Playwright, which need not be installed."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@contextlib.contextmanager
def opened(path: Path, folder: Path | None = None, **options: Any) -> Iterator[Any]:
    """A page that a browser has opened, with these options of its context.

    The test fails if the page, or one that is opened after it, writes an error to the console, or asks for anything
    but its own file and files of `folder`. It is skipped without Playwright or Chromium.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium: apt install chromium")
    errors: list[str] = []
    addresses: set[str] = set()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(**options)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: addresses.add(request.url))
        page.goto(path.resolve().as_uri())
        yield page
        browser.close()
    assert errors == []
    allowed = ("data:", f"{folder.resolve().as_uri()}/" if folder else path.resolve().as_uri())
    assert [address for address in sorted(addresses) if not address.startswith(allowed)] == []
