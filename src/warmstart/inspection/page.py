"""A page of pictures as one HTML file: nothing is fetched, no script is needed, in light and dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --muted: #59636e; --line: #d5dae0; --heat: #2a66c8;
  --cold: #b4450b; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8ebee; --muted: #a3adb8; --line: #39414a;
  --heat: #3a78d8; --cold: #c8622a; } .map { filter: invert(1); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK JP", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.note { color: var(--muted); max-width: 50rem; }
.box { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .2rem .45rem; text-align: right; font-weight: 400; border-bottom: 1px solid var(--line); }
th { color: var(--muted); }
.map { display: block; width: 5rem; height: 5rem; image-rendering: pixelated; border: 1px solid #8884; }
.maps td { padding: .15rem; border: 0; text-align: center; font-size: .75rem; }
svg text { fill: var(--ink); font: 13px system-ui, "Noto Sans", "Noto Sans CJK JP", sans-serif; }
svg line { stroke: var(--heat); } svg .token:hover line { stroke: var(--ink); stroke-opacity: 1; }
.words { line-height: 2.1; max-width: 50rem; } .words span { padding: .15rem .1rem; border-radius: .2rem; }
"""


@dataclass(frozen=True)
class PageSection:
    """A part of a page; `html` is markup, the other texts are plain. No two parts have the same heading."""

    heading: str
    html: str
    note: str = ""


def write_html(title: str, note: str, sections: Sequence[PageSection]) -> str:
    """The text of a page."""
    parts = [
        f"<section><h2>{escape(section.heading)}</h2>"
        + (f'<p class="note">{escape(section.note)}</p>' if section.note else "")
        # What is wider than the screen is scrolled, also by keyboard.
        + f'<div class="box" tabindex="0" role="region" aria-label="{escape(section.heading)}">{section.html}</div>'
        + "</section>"
        for section in sections
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f'<body><main><h1>{escape(title)}</h1><p class="note">{escape(note)}</p>\n'
        f"{''.join(parts)}</main></body></html>\n"
    )


def shade(value: float, largest: float) -> str:
    """The style of a cell or a word: blue for a number above 0, orange below, the stronger the larger."""
    strength = 0.0 if not largest else min(abs(value) / largest, 1.0)
    colour = "--heat" if value > 0 else "--cold"
    return f"background: color-mix(in srgb, var({colour}) {round(50 * strength)}%, transparent)"
