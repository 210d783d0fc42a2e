"""What the comparison page says in numbers: rows of result pages, read from them when the page is made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
NOT_MEASURED = "**Not measured here.**"
FEW = "8 training rows a label"
MORE = "64 training rows a label"
STUDIES = ("defaults", "libraries")
SOURCES = {
    "trainer": ("defaults", "trainer"),
    "setfit": ("defaults", "setfit"),
    "autogluon": ("defaults", "autogluon"),
    "tfidf": ("defaults", "tfidf"),
    "frozen": ("defaults", "frozen"),
    "sentence_transformers": ("tasks", "rank"),
    "fastai": ("libraries", "fastai"),
    "flair": ("libraries", "flair"),
    "spacy": ("libraries", "spacy"),
    "transformers": ("tasks", "tag span score relate choose"),
}
"""Where a tool was measured: a page, and its method there, or the tasks in which it was the peer."""

Table = tuple[str, list[str], list[list[str]]]


def against(tool: str) -> str:
    """A table of warmstart beside a tool, of the rows that the result pages have; else that there are none."""
    page, what = SOURCES.get(tool, ("", ""))
    if not page or not (RESULTS / f"{page}.md").is_file():
        return NOT_MEASURED
    head, rows = _methods(page, what) if page in STUDIES else _peers(page, what.split())
    if not rows:
        return NOT_MEASURED
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\nFrom [{_title(page)}](../results/{page}.md)."


def _methods(page: str, method: str) -> tuple[list[str], list[list[str]]]:
    """Of a study: the sets with few rows, with its own method first and the other one beside it."""
    size = FEW if page == "defaults" else MORE
    rows = []
    for heading, _, lines in tables(page):
        own = next((line for line in lines if line[0] == "defaults"), None)
        other = next((line for line in lines if line[0] == method), None)
        if heading.endswith(f", {size}") and own and other:
            rows.append([heading.removesuffix(f", {size}"), own[1], other[1], other[2], other[3]])
    return [f"{size}: data", "warmstart fit", method, "its points more or less", "95% over test rows"], rows


def _peers(page: str, tasks: list[str]) -> tuple[list[str], list[list[str]]]:
    """Of the tasks: the headline metric of each set, with the peer's and the difference."""
    rows = []
    for _, head, lines in tables(page):
        if "peer" in head:
            columns = [head.index(name) for name in ("dataset", "metric", "warmstart", "peer", "difference")]
            rows += [[line[column] for column in columns] for line in lines if line[head.index("task")] in tasks]
    return ["data", "metric", "warmstart", "peer", "warmstart's points more or less"], rows


def tables(page: str) -> Iterator[Table]:
    """The tables of a result page, each with the heading above it, its head and its rows."""
    heading, lines = "", []
    for line in [*(RESULTS / f"{page}.md").read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line.strip("|").split("|")])
        elif lines:
            yield heading, lines[0], lines[2:]
            lines = []
        if match := re.match(r"#+ (.+)", line):
            heading = match[1]


def _title(page: str) -> str:
    return (RESULTS / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
