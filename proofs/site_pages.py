"""Every page of the built site in Chromium, at two widths and in two themes.

No page or table may be wider than its place, every figure must have drawn pixels, every link and picture must lead
somewhere, nothing may be fetched from elsewhere, and axe-core may find nothing. Pictures of every page are kept to be
looked at.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from browser import THEMES, WIDTHS, chromium, need_axe
from common import ROOT, arguments, finish, write_page

PLACE = Path(os.environ.get("PICTURES") or ROOT / ".cache" / "proof-site")
SMALLEST = 40
"""Pixels; smaller drawings are icons of the theme."""
SCHEMES = {"light": "default", "dark": "slate"}
COLOURS = ["color-contrast", "link-in-text-block"]
HOST = "http://127.0.0.1"

MEASURE = """() => {
  const wide = [...document.querySelectorAll('article .md-typeset__scrollwrap')]
    .filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => `${box.scrollWidth - box.clientWidth} px: ${box.innerText.trim().slice(0, 60)}`);
  const scheme = document.body.dataset.mdColorScheme || '';
  return {overflow: document.documentElement.scrollWidth - window.innerWidth, tables: wide, scheme};
}"""


@dataclass
class View:
    """What was seen of one page at one width in one theme."""

    page: str
    width: int
    theme: str
    overflow: int = 0
    """Pixels that the page is wider than the screen."""
    tables: list[str] = field(default_factory=list)
    """Tables that must be scrolled sideways."""
    scheme: str = ""
    """What the site calls its colours."""
    blank: list[str] = field(default_factory=list)
    figures: int = 0
    requests: list[str] = field(default_factory=list)
    """To anywhere but the site itself."""
    violations: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """All that is wrong, in words; on a phone, tables may be scrolled."""
        where = f"{self.page} at {self.width} px, {self.theme}"
        wide = self.tables if self.width == max(WIDTHS) else []
        other = [self.scheme] if self.scheme not in ("", SCHEMES[self.theme]) else []
        kinds = {
            "other colours": other,
            "wide table": wide,
            "blank figure": self.blank,
            "request": self.requests,
            "axe": self.violations,
        }
        overflow = [f"{where}: {self.overflow} px too wide"] if self.overflow > 0 else []
        return overflow + [f"{where}: {kind}: {item}" for kind, items in kinds.items() for item in items]


class Links(HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a tag leads, and by what name it can be reached."""
        values = dict(attrs)
        target = values.get("src") if tag in {"img", "script"} else values.get("href") if tag in {"a", "link"} else None
        if target:
            self.targets.append(target)
        self.anchors |= {name for name in (values.get("id"), values.get("name")) if name}


def page_names(site: Path) -> list[str]:
    """The pages of a site by their addresses, without 404.html."""
    pages = (page.parent.relative_to(site).as_posix() for page in site.rglob("index.html"))
    return sorted("" if page == "." else f"{page}/" for page in pages)


def broken_links(site: Path, pages: list[str]) -> list[str]:
    """Links of pages that lead to no file or anchor of the site."""
    read = {page: Links((site / page / "index.html").read_text(encoding="utf-8")) for page in page_names(site)}
    broken = []
    for page in pages:
        for target in read[page].targets:
            parts = urlsplit(urljoin(f"{HOST}/{page}", target))
            if f"{parts.scheme}://{parts.netloc}" != HOST:
                continue
            path = unquote(parts.path).lstrip("/")
            file, anchor = site / path, unquote(parts.fragment)
            missing = not (file.is_file() or (file / "index.html").is_file())
            lost = anchor and path in read and anchor not in read[path].anchors
            if missing or lost:
                broken.append(f"{page or 'index'}: {target}")
    return broken


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a site, served on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def look(tab: Any, address: str, page: str, theme: str, axe: str | None, pictures: Path | None = None) -> list[View]:
    """Open a page and look at it at both widths.

    Args:
        axe: The text of axe-core; None to leave it out.
        pictures: Where to save pictures of the whole page.
    """
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(address + page)
    if axe is not None:
        tab.evaluate(axe)
    views = []
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        view = View(page or "index", width, theme, **tab.evaluate(MEASURE))
        view.blank, view.figures = blank_figures(tab)
        if pictures is not None:
            name = page.rstrip("/").replace("/", "-") or "index"
            tab.evaluate("window.scrollTo(0, 0)")
            tab.screenshot(path=str(pictures / f"{name}-{width}-{theme}.png"), full_page=True)
        if axe is not None:
            view.violations = violations(tab, width, theme, whole=not page)
        views.append(view)
    views[0].requests = [url for url in requests if not url.startswith((address, "data:", "blob:"))]
    return views


def violations(tab: Any, width: int, theme: str, whole: bool) -> list[str]:
    """What axe-core finds, without what it has seen already, as that takes most of the time.

    Colours do not depend on the width, and nothing but colours on the theme. Rows of a table are alike, so the first
    ten stand for all; the navigation is the same on every page, and looked at on the `whole` one.
    """
    first = {"light": theme == THEMES[0], "wide": width == WIDTHS[0]}
    if not any(first.values()):
        return []
    exclude = [["tbody tr:nth-child(n+11)"], *([] if whole else [[".md-sidebar--primary"]])]
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if not first["light"]:
        options["runOnly"] = COLOURS
    elif not first["wide"]:
        options["rules"] = {rule: {"enabled": False} for rule in COLOURS}
    results = tab.evaluate("([exclude, options]) => axe.run({exclude}, options)", [exclude, options])["violations"]
    return [
        f"{rule['impact']} {rule['id']}, {len(rule['nodes'])}: {' '.join(rule['nodes'][0]['html'].split())[:120]}"
        for rule in results
    ]


def blank_figures(tab: Any) -> tuple[list[str], int]:
    """Figures of one colour, that is with nothing drawn, and the number of figures."""
    from PIL import Image

    blank, count = [], 0
    for figure in tab.locator("article img, article svg").all():
        figure.scroll_into_view_if_needed()  # a lazy picture is loaded then
        box = figure.bounding_box()
        name = figure.get_attribute("src") or figure.get_attribute("aria-label") or "svg"
        if box is None or min(box["width"], box["height"]) < SMALLEST:
            if name != "svg":
                blank.append(f"{name}: no size")
            continue
        if figure.evaluate("f => f.tagName === 'IMG'"):
            figure.evaluate("f => f.decode().catch(() => null)")
        count += 1
        drawn = Image.open(io.BytesIO(figure.screenshot())).convert("RGB")
        if len(drawn.getcolors(maxcolors=1 << 24) or []) < 3:
            blank.append(name)
    return blank, count


def build(folder: Path) -> Path:
    """The site as it is now, with warnings as errors."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


def look_at_all(site: Path, pages: list[str], axe: str | None, pictures: Path | None) -> Iterator[View]:
    """Every page at both widths and in both themes."""
    with served(site) as address, chromium() as browser:
        # A context for each theme: the site remembers the colours that it was first opened with.
        contexts = {theme: browser.new_context(color_scheme=theme, bypass_csp=True) for theme in THEMES}
        for context in contexts.values():
            context.set_default_timeout(180_000)  # on a busy machine, a page takes its time
            # Nothing from elsewhere; and not the search, whose index would be built anew for every page.
            context.route(lambda url: not url.startswith((address, "data:", "blob:")), lambda route: route.abort())
            context.route("**/search_index.json", lambda route: route.abort())
        for page in pages:
            for theme, context in contexts.items():
                tab = context.new_page()
                tab.set_viewport_size({"width": WIDTHS[0], "height": 900})
                yield from look(tab, address, page, theme, axe, pictures)
                tab.close()


def main() -> None:
    """Build the site, open its pages, and say what was seen."""
    args = arguments(__doc__ or "", 0, "pages, spread over the site; 0 for all")
    axe = need_axe("a page")
    PLACE.mkdir(parents=True, exist_ok=True)
    site = build(PLACE / "site")
    every = page_names(site)
    pages = every[:: -(-len(every) // args.n)] if args.n else every
    views = list(look_at_all(site, pages, axe, PLACE))
    faults = broken_links(site, pages) + [fault for view in views for fault in view.faults()]
    for fault in faults:
        print(fault, file=sys.stderr)
    figures = sum(view.figures for view in views)
    if args.write and not faults:
        write_page("site", "Every page of the site", "make proof-site", told(len(pages), views))
    finish({"pages": len(pages), "views": len(views), "figures": figures, "faults": len(faults)})
    sys.exit(1 if faults else 0)


def told(pages: int, views: list[View]) -> str:
    """The page of results."""
    figures = sum(view.figures for view in views)
    return f"""\
**{len(views)} of {len(views)}** views of {pages} pages of this site are clean: no page is wider than the screen, no
table wider than its place at {max(WIDTHS)} px, all {figures} views of a figure have drawn pixels, no link or picture is
missing, nothing is fetched from elsewhere, and axe-core finds no violation.

Each page is opened in headless Chromium at {WIDTHS[0]} and at {WIDTHS[1]} pixels, in light and dark mode. On a phone,
wide tables are scrolled inside the page. The search, whose index every page would build, is left out. The
pictures are kept in `.cache/proof-site/`."""


if __name__ == "__main__":
    main()
