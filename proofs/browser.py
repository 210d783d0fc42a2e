"""A page opened in an installed Chromium: what it fetches, says, overflows and hides from those who do not see it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.report.pdf import find_browser

WIDTHS = (1280, 390)
THEMES = ("light", "dark")
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
)
GRAVE = ("serious", "critical")


@dataclass
class Seen:
    """What was seen of one page at one width in one theme."""

    width: int
    theme: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Beside that for the page itself."""
    overflow: int = 0
    """Pixels that the page is wider than the screen, its folded parts open."""
    violations: list[str] = field(default_factory=list)

    @property
    def grave(self) -> list[str]:
        return [one for one in self.violations if one.startswith(GRAVE)]


def axe_script() -> str | None:
    """The text of axe-core: from the file that AXE_CORE names, or from axe-playwright-python; None without either."""
    said = os.environ.get("AXE_CORE")
    spec = importlib.util.find_spec("axe_playwright_python")
    if not said and spec and spec.submodule_search_locations:
        said = str(Path(spec.submodule_search_locations[0]) / "axe.min.js")
    return Path(said).read_text(encoding="utf-8") if said and Path(said).is_file() else None


def need_axe(what: str) -> str:
    """The text of axe-core; ends the proof where that or a browser is missing.

    Args:
        what: What would be opened.
    """
    if find_browser() is None:
        sys.exit(f"no Chromium in the PATH, so there is nothing to open {what} with")
    axe = axe_script()
    if axe is None:
        sys.exit("no axe-core: pip install 'warmstart[browser]', or name its axe.min.js by AXE_CORE")
    return axe


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=find_browser(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def look(browser: Any, page: Path, width: int, theme: str, axe: str | None, picture: Path | None = None) -> Seen:
    """Open a page and look at it.

    Args:
        axe: The text of axe-core; None to leave it out.
        picture: Where to save a picture of the whole page.
    """
    seen = Seen(width, theme)
    # Without bypass_csp the page's own policy would keep axe-core out, too.
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True, offline=True
    )
    tab = context.new_page()
    tab.on("console", lambda one: seen.messages.append(one.text))
    tab.on("pageerror", lambda one: seen.messages.append(str(one)))
    tab.on("request", lambda one: seen.requests.append(one.url))
    tab.goto(page.resolve().as_uri())
    if picture is not None:
        tab.screenshot(path=str(picture), full_page=True)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    seen.overflow = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if axe is not None:
        tab.evaluate(axe)
        found = tab.evaluate("axe.run()")["violations"]
        seen.violations = [f"{one['impact']} {one['id']}: {one['nodes'][0]['html'][:120]}" for one in found]
    context.close()
    seen.requests = [url for url in seen.requests if not url.startswith(("data:", page.resolve().as_uri()))]
    return seen
