"""The faults that are planted in files of entities: CoNLL, and JSON with places."""

from __future__ import annotations

from plants import plant
from sheets import Sheet, clean_rows

CONLL = ("conll",)
JSON = ("jsonl",)


def _change(sheet: Sheet, word: int, line: bytes) -> None:
    """Replace a line of the planted sentence; its number must be reported."""
    lines = sheet.chunks[sheet.planted_row].splitlines(keepends=True)
    lines[word] = line
    sheet.chunks[sheet.planted_row] = b"".join(lines)
    sheet.expected = ("line", sum(chunk.count(b"\n") for chunk in sheet.chunks[: sheet.planted_row]) + word + 1)


def _line(kind: str, word: int, *choices: bytes) -> None:
    def change(sheet: Sheet) -> None:
        _change(sheet, word, sheet.random.choice(choices))

    plant(kind, CONLL, raw=True, task="tag")(change)


def _entity(kind: str, *changes: dict[str, object]) -> None:
    def change(sheet: Sheet) -> None:
        entity = sheet.random.choice(sheet.row["entities"])
        entity.update(sheet.random.choice(changes))

    plant(kind, JSON, task="tag")(change)


_line("word-empty", 5, b"\tO\n", b"  \tO\n")
_line("cells-few", 5, b"met\n", b"met O\n")
_line("cells-many", 5, b"met\tVB\tO\n", b"met\tO\t\n")
_line("tag", 4, b"River\tPER\n", b"River\tNNP\n", b"River\t\n", b"River\tb-PER\n")
_line("tag-type", 4, b"River\tB\n", b"River\tB-\n", b"River\tI- \n")
_line("tag-scheme", 6, b",\tI-PER\n", b",\tE-LOC\n", b",\tU-LOC\n")
_line("tag-scheme", 2, b"Hill\tE-LOC\n", b"Hill\tI-PER\n")
_entity("entity-place", {"end": 9999}, {"start": 4, "end": 5})
_entity("entity-name", {"text": "Nowhere"}, {"name": "Nowhere"})
_entity("entities-form", {"start": -1}, {"start": "4"}, {"end": 0}, {"label": None}, {"label": ""}, {"end": 7.5})


@plant("entity-overlap", JSON, task="tag")
def _(sheet: Sheet) -> None:
    one = sheet.random.choice(sheet.row["entities"])
    sheet.row["entities"].append({**one, "label": "OTHER"})


def _words(kind: str, *changes: dict[str, object]) -> None:
    def change(sheet: Sheet) -> None:
        sheet.options["data.columns.words"] = "places"
        for row in sheet.rows:
            start, row["places"] = 0, []
            for word in row["words"]:
                row["places"].append({"start": start, "end": start + len(word)})
                start += len(word) + 1
        sheet.row["places"][3].update(sheet.random.choice(changes))

    plant(kind, JSON, task="tag")(change)


_words("word-place", {"end": 9999})
_words("word-overlap", {"start": 1, "end": 3})
_words("ranges-form", {"start": 30, "end": 20}, {"start": None}, {"end": "9"})


@plant("document", CONLL, raw=True, task="tag", low=1)
def _(sheet: Sheet) -> None:
    sheet.expected = ("line", sum(chunk.count(b"\n") for chunk in sheet.chunks[: sheet.planted_row]) + 1)
    sheet.chunks.insert(sheet.planted_row, b"-DOCSTART-\tO\n\n")


@plant("tag-read", CONLL, task="tag")
def _(sheet: Sheet) -> None:
    sheet.expected = ("train", 0)


@plant("tag-stray", CONLL, task="tag")
def _(sheet: Sheet) -> None:
    for row in sheet.rows:
        row["tags"] = [tag.replace("B-", "I-") for tag in row["tags"]]
    sheet.row["tags"][1] = "B-LOC"
    sheet.expected = ("line", sum(len(row["words"]) + 1 for row in sheet.rows[: sheet.planted_row]) + 2)


@plant("word-start", CONLL, task="tag")
def _(sheet: Sheet) -> None:
    for row in sheet.rows:
        row["words"] = [f"en:{word}" for word in row["words"]]
    sheet.expected = ("train", 0)


@plant("label-unseen", (*CONLL, *JSON), task="tag")
def _(sheet: Sheet) -> None:
    sheet.test = clean_rows("tag", 100)
    sheet.test[sheet.planted_row]["tags"][1:3] = ["B-NEW", "I-NEW"]
    sheet.test[sheet.planted_row]["entities"][0]["label"] = "NEW"
    sheet.expected = ("test", sheet.planted_row)
