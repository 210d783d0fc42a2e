"""Matplotlib's SVG for a page: in the colours of the page's themes, with unique ids, without outside references."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

from warmstart.errors import MissingExtraError

INK, MUTED, LINE, PAPER = "#000000", "#000001", "#000002", "#000003"
SERIES = ("#000011", "#000012", "#000013", "#000014", "#000015", "#000016")
HEAT = "#000021"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    HEAT: "var(--heat)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, 1)},
}
"""Placeholders for the page's colours, which differ in light and dark mode."""
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "warmstart",
    "text.parse_math": False,
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
LARGE = 600
"""Pixels of both sides beyond which a chart is scrolled on a phone, rather than made too small to read."""
_FONTS = re.compile(r"font-family:[^;]*;?\s*")


def style() -> dict[str, object]:
    """The settings of charts; a missing matplotlib is an error that names the extra."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError("a report needs matplotlib: pip install 'warmstart[report]'") from None
    return dict(_STYLE)


def inline(figure: object, name: str, title: str, description: str) -> str:
    """A figure as an `<svg>` element of a page, with a title and a description for screen readers.

    Args:
        name: Makes its ids differ from those of the page's other charts.
    """
    import warnings

    text = io.StringIO()
    with warnings.catch_warnings():
        # The page's fonts have the characters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)  # type: ignore[attr-defined]
    root = ElementTree.fromstring(text.getvalue())
    _own(root, name)
    for number, (tag, words) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = words
        root.insert(number, element)
    # Matplotlib counts in points, a page in pixels: three points are four pixels.
    width, height = (f"{float(size) * 4 / 3:.0f}" for size in root.attrib["viewBox"].split()[2:])
    box = {"viewBox": root.attrib["viewBox"], "width": width, "height": height}
    root.attrib.clear()
    attributes = {"class": "large"} if min(int(width), int(height)) > LARGE else {}
    attributes |= {"role": "img", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-desc"}
    root.attrib.update({**box, **attributes})
    return ElementTree.tostring(root, encoding="unicode")


def _own(root: ElementTree.Element, name: str) -> None:
    """Remove namespaces, unused ids, fonts and colours; prefix the other ids with the chart's name."""
    used = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            used.update(re.findall(r"url\(#([^)]+)\)", value))
            if key.endswith("href"):
                used.add(value.removeprefix("#"))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        if element.tag != "text":
            element.text = None
        for key in list(element.attrib):
            value = element.attrib.pop(key)
            key = key.rpartition("}")[2]
            if key == "id":
                if value in used:
                    element.set("id", f"{name}-{value}")
                continue
            value = re.sub(r"url\(#", f"url(#{name}-", value)
            if key == "href":
                value = f"#{name}-{value.removeprefix('#')}"
            elif key == "style":
                value = _themed(_FONTS.sub("", value))
            elif key == "d":
                value = " ".join(value.split())
            element.set(key, value)


def _themed(value: str) -> str:
    return re.sub(r"#[0-9a-f]{6}", lambda match: _VARIABLES.get(match[0], match[0]), value)
