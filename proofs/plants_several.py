"""The faults planted in files of rank, choose and relate: several texts a row, texts by id, marked entities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plants import ALL, JSON, LINES, plant
from sheets import ROWS, Sheet

QRELS = ("qrels",)


def _set(kind: str, task: str, name: str, *choices: Any, formats: tuple[str, ...] = ALL) -> None:
    def change(sheet: Sheet) -> None:
        sheet.row[name] = sheet.random.choice(choices)

    plant(kind, formats, task=task)(change)


_set("relevance", "rank", "label", 0.5, -1.5)
_set("relevance", "rank", "label", "0.5", "1.25", formats=QRELS)
_set("id-unknown", "rank", "query_id", "q999", "Q1", formats=QRELS)
_set("id-unknown", "rank", "document_id", "d999", "q1", formats=QRELS)
_set("choice", "choose", "label", -1, -7)
_set("choice", "choose", "label", 0.5, "none of these", "-1", formats=LINES)
_set("texts-type", "choose", "endings", "one text", 5, [], None, {"a": "b"}, formats=JSON)


@plant("query-alone", (*ALL, *QRELS), task="rank")
def _(sheet: Sheet) -> None:
    sheet.planted_row -= sheet.planted_row % 2  # a query has two rows, and is reported at its first
    for row in sheet.rows[sheet.planted_row : sheet.planted_row + 2]:
        row["label"] = 0


@plant("id-twice", QRELS, task="rank", high=ROWS // 2 - 1)
def _(sheet: Sheet) -> None:
    name = sheet.random.choice(("queries", "documents"))
    sheet.texts[name][sheet.planted_row + 1]["id"] = sheet.texts[name][sheet.planted_row]["id"]
    sheet.expected = (name, sheet.planted_row + 1)


@plant("qrels-parts", QRELS, raw=True, task="rank")
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = sheet.random.choice((b"q1 0 d1\n", b"q1 0 d1 1 run\n", b"q1,0,d1,1\n"))


@plant("choice-few", task="choose")
def _(sheet: Sheet) -> None:
    sheet.row.update(endings=sheet.row["endings"][:1], label=0)


@plant("choice-past", task="choose")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = len(sheet.row["endings"]) + sheet.random.randrange(9)


def _marks(kind: str, *changes: Callable[[str], str]) -> None:
    def change(sheet: Sheet) -> None:
        sheet.row["text"] = sheet.random.choice(changes)(sheet.row["text"])

    plant(kind, task="relate")(change)


def _swap(text: str, one: str, two: str) -> str:
    """Put each of two marks where the other is."""
    return two.join(part.replace(two, one) for part in text.split(one))


def _late(text: str, tag: str) -> str:
    """Close the first entity after the second, or open the second within the first."""
    plain = text.replace(tag, "")
    return f"{plain}{tag}" if tag == "</e1>" else plain.replace("<e1>", "<e1>My <e2>")


_marks("mark-missing", *(lambda text, tag=tag: text.replace(tag, "") for tag in ("<e1>", "</e1>", "<e2>", "</e2>")))
_marks("mark-repeated", *(lambda text, tag=tag: f"{text} or <{tag}>so</{tag}>" for tag in ("e1", "e2")))
_marks("mark-order", *(lambda text, tag=tag: _swap(text, f"<{tag}>", f"</{tag}>") for tag in ("e1", "e2")))
_marks("mark-empty", lambda text: text.replace("</e1>", "").replace("<e1>", "<e1> </e1>"))
_marks("mark-overlap", *(lambda text, tag=tag: _late(text, tag) for tag in ("<e2>", "</e1>")))
_marks("mark-reserved", *(lambda text, tag=tag: f"{text} {tag}" for tag in ("[E1]", "[/E1]", "[E2]", "[/E2]")))


def _places(kind: str, *changes: dict[str, Any]) -> None:
    """Entities by their places, in columns of their own."""

    def change(sheet: Sheet) -> None:
        sheet.options.update({"data.columns.first": "first", "data.columns.second": "second"})
        for row in sheet.rows:
            row["text"] = row["plain"]
        sheet.row.update(sheet.random.choice(changes))

    plant(kind, JSON, task="relate")(change)


_places("mark-outside", {"first": [0, 9999]}, {"second": [9990, 9999]})
_places("mark-missing", {"first": None}, {"second": None})
_places("mark-repeated", {"text": "A <e1>garden</e1> fed a <e2>river</e2>"})
_places("mark-empty", {"text": "My house met a river", "first": [2, 3], "second": [15, 20]})
_places("mark-overlap", {"first": [0, 9], "second": [2, 12]})
