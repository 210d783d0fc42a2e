"""The faults that are planted: each a kind, the formats it makes sense in, and how a clean file gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sheets import LABELS, ROWS, Sheet, clean_rows

PLAIN = ("csv", "tsv", "jsonl", "parquet")
SPREADSHEETS = ("xlsx", "ods")
ALL = (*PLAIN, *SPREADSHEETS)
LINES = ("csv", "tsv", "jsonl")
CELLS = ("csv", "tsv")
JSON = ("jsonl",)


@dataclass(frozen=True)
class Plant:
    """One kind and how it is planted: in the rows before they are written, or in the bytes afterwards."""

    kind: str
    formats: tuple[str, ...]
    rows: Callable[[Sheet], None] | None = None
    bytes: Callable[[Sheet], None] | None = None
    task: str = "classify"
    low: int = 0
    high: int = ROWS


PLANTS: list[Plant] = []


def plant(kind: str, formats: tuple[str, ...] = ALL, **more: object) -> Callable[[Callable[[Sheet], None]], None]:
    """Register a function that plants a kind; `raw=True` for one that changes bytes."""

    def register(function: Callable[[Sheet], None]) -> None:
        where = "bytes" if more.pop("raw", False) else "rows"
        PLANTS.append(Plant(kind, formats, **{where: function}, **more))  # type: ignore[arg-type]

    return register


def _whole(kind: str, texts: tuple[str, ...], formats: tuple[str, ...] = ALL) -> None:
    def change(sheet: Sheet) -> None:
        sheet.row["text"] = sheet.random.choice(texts)

    plant(kind, formats)(change)


def _inside(kind: str, pieces: tuple[str, ...], formats: tuple[str, ...] = ALL) -> None:
    def change(sheet: Sheet) -> None:
        text = sheet.row["text"]
        spots = [at for at in range(1, len(text)) if text[at - 1].isalpha() and text[at].isalpha()]
        at = sheet.random.choice(spots)
        sheet.row["text"] = text[:at] + sheet.random.choice(pieces) + text[at:]

    plant(kind, formats)(change)


def _label(kind: str, change_label: Callable[[str], str], formats: tuple[str, ...] = ALL) -> None:
    def change(sheet: Sheet) -> None:
        sheet.row["label"] = change_label(sheet.row["label"])

    plant(kind, formats)(change)


_whole("text-na", ("NA", "null", "nan", "None", "N/A", " NaN"))
_whole("text-short", ("x", "é", "犬"))
_whole("text-no-letters", ("12345 67", "?! ... 3", "😀😀"))
_whole("text-url", ("https://example.org/a?b=1", "www.example.org"))
_whole("text-empty", ("",))
_whole("text-blank", (" ", "   ", "\u3000 "))
_inside("nul", ("\0",), PLAIN)
_inside("control", ("\x07", "\x1b", "\x9d"), PLAIN)
_inside("zero-width", ("\u200b", "\ufeff", "\u2060", "\u200d"))
_inside("soft-hyphen", ("\u00ad",))
_inside("bidi", ("\u202e", "\u2067", "\u202c"))
_inside("replacement", ("\ufffd",))
_inside("private-use", ("\ue000", "\uf0b7", "\U000f1234"))
_inside("noncharacter", ("\U0001fffe", "\ufdd0"))  # XML, and so a spreadsheet, cannot hold U+FFFF
_inside("mojibake", ("Ã©", "â€™", "Â£", "ã‚¢"))
_inside("html-tag", ("<br />", "<B>", "</p>", '<a href="x">'))
_inside("html-entity", ("&amp;", "&#8217;", "&nbsp;", "&#x27;"))
_inside("escape", ("\\n ", "\\u00e9", "\\xe9"))
_inside("mixed-script", ("е", "о", "р"))
_inside("line-separator", ("\u2028", "\u2029", "\x85"))
_inside("not-nfc", ("e\u0301", "か\u3099"))
_inside("surrogate", ("\ud800", "\udfff"), JSON)
_label("label-space", lambda label: label + " ")
_label("label-spelling", str.upper)
_label("label-width", lambda label: "".join(chr(ord(one) + 0xFEE0) for one in label))
_label("label-nfc", lambda label: label + "e\u0301")
_label("label-hidden", lambda label: label[0] + "\u200b" + label[1:])
_label("label-na", lambda label: "NaN")
_label("label-long", lambda label: label * 40)
_label("label-single", lambda label: "seldom")
_label("answer-missing", lambda label: "")


@plant("text-space")
def _(sheet: Sheet) -> None:
    text = sheet.row["text"]
    sheet.row["text"] = sheet.random.choice((" " + text, text + " "))


@plant("text-quoted")
def _(sheet: Sheet) -> None:
    sheet.row["text"] = f'"{sheet.row["text"]}"'


@plant("text-long")
def _(sheet: Sheet) -> None:
    sheet.row["text"] = " ".join([sheet.row["text"]] * 100)


@plant("same-start")
def _(sheet: Sheet) -> None:
    for row in sheet.rows:
        row["text"] = "Review text: " + row["text"]
    sheet.expected = ("train", 0)


@plant("cut-before", high=ROWS - 12)
def _(sheet: Sheet) -> None:
    for row in sheet.rows[sheet.planted_row : sheet.planted_row + 12]:
        row["text"] = (row["text"] * 9)[:119] + "x"


@plant("text-type", JSON)
def _(sheet: Sheet) -> None:
    sheet.row["text"] = sheet.random.choice((5, None, 1.5, True, ["a"]))


@plant("pair-same")
def _(sheet: Sheet) -> None:
    sheet.pair = True
    sheet.row["pair"] = sheet.row["text"]


def _again(sheet: Sheet, text: str, label: str) -> None:
    """Put the planted row's text into another row; the later of the two must be reported."""
    other = sheet.random.choice([row for row in range(ROWS) if row != sheet.planted_row])
    sheet.rows[other]["text"], sheet.rows[other]["label"] = text, label
    sheet.expected = ("train", max(other, sheet.planted_row))


@plant("duplicate")
def _(sheet: Sheet) -> None:
    _again(sheet, sheet.row["text"], sheet.row["label"])


@plant("duplicate-near")
def _(sheet: Sheet) -> None:
    _again(sheet, sheet.row["text"].upper(), sheet.row["label"])


@plant("label-conflict")
def _(sheet: Sheet) -> None:
    _again(sheet, sheet.row["text"], LABELS[(LABELS.index(sheet.row["label"]) + 1) % 3])


@plant("label-is-text")
def _(sheet: Sheet) -> None:
    sheet.row["text"] = sheet.row["label"].title()


@plant("label-in-text", high=ROWS // 2)
def _(sheet: Sheet) -> None:
    for row in sheet.rows[sheet.planted_row :]:
        row["text"] += f" ({row['label']})"


@plant("label-one")
def _(sheet: Sheet) -> None:
    _label_all(sheet, lambda number: "good")


@plant("imbalance")
def _(sheet: Sheet) -> None:
    _label_all(sheet, lambda number: "bad" if number == sheet.planted_row else "good")


@plant("label-few")
def _(sheet: Sheet) -> None:
    for row in sheet.rows[sheet.planted_row % 30 :: 3][:3]:
        row["label"] = "seldom"
    sheet.planted_row %= 30


@plant("label-misspelt")
def _(sheet: Sheet) -> None:
    for number, row in enumerate(sheet.rows):
        row["label"] = "Überweisung" if number % 4 else "fair"
    sheet.row["label"] = sheet.random.choice(("Ueberweisung", "Uberweisung", "Überweisng", "Überwiesung"))


@plant("label-numbers")
def _(sheet: Sheet) -> None:
    _label_all(sheet, lambda number: str(number % 9 * 0.5))


@plant("label-many")
def _(sheet: Sheet) -> None:
    _label_all(sheet, lambda number: f"class {number // 2 if number < 20 else number}")


def _label_all(sheet: Sheet, label: Callable[[int], str]) -> None:
    for number, row in enumerate(sheet.rows):
        row["label"] = label(number)
    sheet.expected = ("train", -1)


@plant("label-unseen")
def _(sheet: Sheet) -> None:
    sheet.test = clean_rows("classify", 100)
    sheet.test[sheet.planted_row]["label"] = "unheard"
    sheet.expected = ("test", sheet.planted_row)


@plant("label-untested")
def _(sheet: Sheet) -> None:
    sheet.test = clean_rows("classify", 100)
    sheet.row["label"] = "untested"


@plant("shared")
def _(sheet: Sheet) -> None:
    sheet.test = clean_rows("classify", 100)
    sheet.random.choice(sheet.test).update(text=sheet.row["text"], label=sheet.row["label"])


@plant("shared-conflict")
def _(sheet: Sheet) -> None:
    sheet.test = clean_rows("classify", 100)
    given = sheet.random.choice(sheet.rows)
    other = LABELS[(LABELS.index(given["label"]) + 1) % 3]
    sheet.test[sheet.planted_row].update(text=given["text"], label=other)
    sheet.expected = ("test", sheet.planted_row)


@plant("unlabelled")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = ""
    sheet.options["data.drop"] = ["unlabelled"]


@plant("id-repeated")
def _(sheet: Sheet) -> None:
    sheet.id = "id"
    other = sheet.random.choice([row for row in range(ROWS) if row != sheet.planted_row])
    sheet.rows[other]["id"] = sheet.row["id"]
    sheet.expected = ("train", max(other, sheet.planted_row))


@plant("id-missing")
def _(sheet: Sheet) -> None:
    sheet.id = "id"
    sheet.row["id"] = ""


@plant("label-type", JSON)
def _(sheet: Sheet) -> None:
    sheet.row["label"] = {"is": "good"}


@plant("label-types", JSON, low=1)
def _(sheet: Sheet) -> None:
    sheet.row["label"] = sheet.random.choice((1, True))


@plant("label-fraction", ("parquet",))
def _(sheet: Sheet) -> None:
    for number, row in enumerate(sheet.rows):
        row["label"] = float(number % 3)
    sheet.expected = ("train", -1)


@plant("label-repeated", task="many")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = ["good", "good"]


@plant("label-blank", task="many")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = ["good", "", "all"]


@plant("labels-none", task="many")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = []


@plant("labels-type", JSON, task="many")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = sheet.random.choice((5, {"good": 1}, True))


@plant("number", task="score")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = sheet.random.choice(("3,5", "four", "1_000"))


@plant("number-finite", task="score")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = sheet.random.choice((float("nan"), float("inf"), float("-inf")))


@plant("score-outlier", task="score")
def _(sheet: Sheet) -> None:
    sheet.row["label"] = sheet.random.choice((999.0, -99.0, 1e9))


@plant("score-same", task="score")
def _(sheet: Sheet) -> None:
    for row in sheet.rows:
        row["label"] = 2.5
    sheet.expected = ("train", -1)


@plant("encoding", LINES, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = sheet.chunks[sheet.chunk].replace(b"met", b"m\xe9t")


@plant("encoding", ("parquet",))
def _(sheet: Sheet) -> None:
    sheet.row["text"] = sheet.row["text"].encode().replace(b"met", b"m\xe9t")


@plant("encoding-mark", LINES, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[:] = [b"".join(sheet.chunks).decode().encode("utf-16")]
    sheet.expected = ("line", 1)


@plant("bom", LINES, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[0] = b"\xef\xbb\xbf" + sheet.chunks[0]
    sheet.expected = ("line", 1)


@plant("blank-end", LINES, raw=True)
def _(sheet: Sheet) -> None:
    sheet.expected = ("line", b"".join(sheet.chunks).count(b"\n") + 1)
    sheet.chunks.append(b"\n" * sheet.random.randint(1, 3))


@plant("blank-line", LINES, raw=True, low=1)
def _(sheet: Sheet) -> None:
    sheet.chunks.insert(sheet.chunk, b"\n")


@plant("line-ends", CELLS, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = sheet.chunks[sheet.chunk][:-1] + b"\r\n"


@plant("cells-few", CELLS, raw=True)
def _(sheet: Sheet) -> None:
    separator = b"\t" if sheet.format == "tsv" else b","
    sheet.chunks[sheet.chunk] = sheet.chunks[sheet.chunk].rpartition(separator)[0] + b"\n"


def _one_more(sheet: Sheet) -> None:
    separator = b"\t" if sheet.format == "tsv" else b","
    sheet.chunks[sheet.chunk] = sheet.chunks[sheet.chunk][:-1] + separator + b"more\n"


plant("cells-many", CELLS, raw=True)(_one_more)


@plant("extra-cells", CELLS, raw=True)
def _(sheet: Sheet) -> None:
    sheet.options["data.extra_columns"] = "ignore"
    _one_more(sheet)


@plant("quote-open", ("csv",), raw=True)
def _(sheet: Sheet) -> None:
    # Behind an open quote there must be no other one, which would close it.
    rest = [chunk.replace(b'"', b"").replace(b",\n", b" ") for chunk in sheet.chunks[sheet.chunk :]]
    sheet.chunks[sheet.chunk :] = [b'"' + rest[0], *rest[1:]]


@plant("quote-after", ("csv",), raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = b'r1,"A text" goes on,good\n'


@plant("lone-cr", ("csv",), raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = b"r1,A text\rgoes on,good\n"


@plant("header-repeated", CELLS, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[0] = sheet.chunks[0].replace(b"id", b"text")
    sheet.expected = ("line", 1)


@plant("header-nul", CELLS, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[0] = sheet.chunks[0].replace(b"text", b"te\0xt")
    sheet.expected = ("line", 1)


@plant("column-missing", CELLS, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[0] = sheet.chunks[0].replace(b"text", b"review")
    sheet.expected = ("line", 1)


@plant("column-missing", JSON, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = sheet.chunks[sheet.chunk].replace(b'"text"', b'"review"')


@plant("json", JSON, raw=True)
def _(sheet: Sheet) -> None:
    chunk = sheet.chunks[sheet.chunk]
    sheet.chunks[sheet.chunk] = chunk[: sheet.random.randint(1, len(chunk) - 3)] + b"\n"


@plant("json-object", JSON, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = sheet.random.choice((b'["a", "b"]\n', b'"a"\n', b"3\n", b"null\n"))


@plant("json-key", JSON, raw=True)
def _(sheet: Sheet) -> None:
    sheet.chunks[sheet.chunk] = sheet.chunks[sheet.chunk].replace(b"{", b'{"text": "twice", ')


@plant("no-rows", LINES, raw=True)
def _(sheet: Sheet) -> None:
    del sheet.chunks[1 if sheet.format != "jsonl" else 0 :]
    sheet.expected = ("train", -1)


SPAN = {"formats": ("jsonl", "json"), "task": "span"}
SQUAD = {"formats": ("json",), "task": "span"}


@plant("answer-place", **SPAN)
def _(sheet: Sheet) -> None:
    [answer] = sheet.row["answers"]
    answer["answer_start"] += sheet.random.choice((1, 3, -1, 500, -500))


@plant("answer-place", **SPAN)
def _(sheet: Sheet) -> None:
    sheet.row["answers"][0]["text"] += " indeed"


@plant("answer-blank", **SPAN)
def _(sheet: Sheet) -> None:
    sheet.row["answers"][0]["text"] = sheet.random.choice(("", " "))


@plant("answers-form", **SPAN)
def _(sheet: Sheet) -> None:
    wrong = (
        "river",
        5,
        [5],
        [{"text": "river"}],
        [{"text": 5, "answer_start": 0}],
        {"text": ["a"], "answer_start": []},
    )
    sheet.row["answers"] = sheet.random.choice(wrong)


@plant("answers-none", **SPAN)
def _(sheet: Sheet) -> None:
    sheet.row["answers"] = []


@plant("answer-repeated", **SPAN)
def _(sheet: Sheet) -> None:
    sheet.row["answers"] *= 2


@plant("answer-impossible", **SQUAD)
def _(sheet: Sheet) -> None:
    sheet.row["is_impossible"] = impossible = sheet.random.choice((True, False))
    sheet.row["answers"] = sheet.row["answers"] if impossible else []


@plant("squad", **SQUAD)
def _(sheet: Sheet) -> None:
    if sheet.random.choice((True, False)):
        del sheet.row[sheet.random.choice(("id", "question"))]
    else:
        sheet.row["is_impossible"] = sheet.random.choice(("no", 0, []))


@plant("plausible", **SQUAD)
def _(sheet: Sheet) -> None:
    sheet.row["plausible_answers"] = sheet.row["answers"]
    sheet.expected = ("train", -1)


@plant("id-repeated", **SQUAD)
def _(sheet: Sheet) -> None:
    other = sheet.random.choice([row for row in range(ROWS) if row != sheet.planted_row])
    sheet.rows[other]["id"] = sheet.row["id"]
    sheet.expected = ("train", max(other, sheet.planted_row))
