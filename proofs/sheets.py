"""Small clean data files that faults are planted in, with the line of every row known from the writing."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spreadsheets import write_spreadsheet

ROWS = 40
LABELS = ("good", "bad", "fair")
WORDS = ("window", "river", "letter", "garden", "engine", "market", "summer", "planet", "bridge", "candle")
SEPARATOR = ";"
ENDINGS = ["ending0", "ending1", "ending2"]
"""The columns of a row's endings, where it is cells."""


def clean_rows(task: str, start: int = 0) -> list[dict[str, Any]]:
    """Rows that nothing is wrong with; some texts run over two lines."""
    own = {"tag": _tagged, "rank": _judged, "choose": _chosen, "relate": _related}
    if task in own:
        return [own[task](number) for number in range(start, start + ROWS)]
    rows = []
    for number in range(start, start + ROWS):
        one, two = WORDS[number % 10], WORDS[(number // 10 + number * 3) % 10]
        gap = "\n" if number % 7 == 3 else " "
        text = f"{one.capitalize()} and {two} met,{gap}number {number}" + " once more" * (number % 4)
        if task == "span":
            answers = [{"text": two, "answer_start": text.index(two)}]
            rows.append({"id": f"q{number}", "question": f"{two}, or who?", "context": text, "answers": answers})
            continue
        label: Any = LABELS[number % 3]
        if task == "score":
            label = number % 5 + 0.5
        if task == "many":
            label = [LABELS[number % 3], "all"]
        rows.append({"id": f"r{number}", "text": text, "pair": f"A {two} of {number} days", "label": label})
    return rows


def _tagged(number: int) -> dict[str, Any]:
    """A row of words with tags, and the same as a text with spans."""
    one, two = WORDS[number % 10].capitalize(), WORDS[(number // 10 + number * 3) % 10].capitalize()
    words = ["Here", one, "Hill", "and", two, "met", ",", "number", str(number), "of", f"Road{number}"]
    words += ["once", "more"] * (number % 4)
    tags = ["O", "B-LOC", "I-LOC", "O", "B-PER", *["O"] * 5, "B-LOC", *["O"] * (len(words) - 11)]
    text = " ".join(words)
    entities = [
        {"start": text.index(name), "end": text.index(name) + len(name), "label": label}
        for name, label in ((f"{one} Hill", "LOC"), (f"{two} met"[:-4], "PER"), (words[10], "LOC"))
    ]
    if one == two:  # the first span is that of the other entity
        entities[1]["start"] = text.index(f"{two} met")
        entities[1]["end"] = entities[1]["start"] + len(two)
    return {"id": f"r{number}", "text": text, "entities": entities, "words": words, "tags": tags}


def _judged(number: int) -> dict[str, Any]:
    """A query, of which there are half as many as rows, and a document; every other one is relevant."""
    one, two = WORDS[number // 2 % 10], WORDS[(number // 10 + number * 3) % 10]
    ids = {"id": f"r{number}", "query_id": f"q{number // 2}", "document_id": f"d{number}"}
    texts = {"query": f"where is {one} {number // 2}?", "document": f"The {two} stands by the {one} of {number} days"}
    return {**ids, **texts, "label": 1 - number % 2}


def _chosen(number: int) -> dict[str, Any]:
    """A text with two or three endings."""
    one, two = WORDS[number % 10], WORDS[(number // 10 + number * 3) % 10]
    endings = [f"it saw a {two}", f"{one} number {number} left", "all went home"][: 2 + number % 2]
    return {"id": f"r{number}", "text": f"The {one} of {number} days came:", "endings": endings, "label": number % 2}


def _related(number: int) -> dict[str, Any]:
    """A text with two marked entities, and the same without marks and with their spans."""
    one, two = WORDS[number % 10].capitalize(), WORDS[(number // 10 + number * 3) % 10]
    plain = f"{one} house number {number} met {two} road at last"
    first, second = [0, len(one)], [plain.index(" met ") + 5, plain.index(" met ") + 5 + len(two)]
    text = f"<e1>{one}</e1> house number {number} met <e2>{two}</e2> road at last"
    label = ("Other", "Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)")[number % 3]
    return {"id": f"r{number}", "text": text, "plain": plain, "first": first, "second": second, "label": label}


@dataclass
class Sheet:
    """One file in the making: where the fault goes, and what else it needs."""

    format: str
    task: str
    random: random.Random
    rows: list[dict[str, Any]]
    test: list[dict[str, Any]] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    pair: bool = False
    id: str | None = None
    texts: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """Files of texts with ids beside the rows, by their names: queries and documents."""
    planted_row: int = 0
    """The row the fault is planted in."""
    expected: tuple[str, int | None] = ("train", None)
    """The file and row it must be reported at; None for the planted row, -1 for the file as a whole."""
    chunks: list[bytes] = field(default_factory=list)
    """The bytes of the header (in CSV, TSV and JSON) and of each row."""
    starts: list[int] = field(default_factory=list)
    """The line, or row number, at which each row starts."""

    @property
    def row(self) -> dict[str, Any]:
        return self.rows[self.planted_row]

    @property
    def chunk(self) -> int:
        """The index of the planted row among the chunks."""
        return self.planted_row + (self.format in {"csv", "tsv", "json"})


def names(sheet: Sheet) -> list[str]:
    """The columns of the file."""
    if sheet.task == "span":
        return ["id", "question", "context", "answers"]
    if sheet.task == "rank":
        return ["id", "query", "document", "label"]
    if sheet.task == "choose":
        return ["id", "text", *(["endings"] if sheet.format in {"jsonl", "parquet"} else ENDINGS), "label"]
    if sheet.task == "relate":
        return ["id", "text", *(["first", "second"] if sheet.options else []), "label"]
    if sheet.task == "tag":
        return ["id", "text", "entities", *(["places"] if "places" in sheet.row else [])]
    return ["id", "text", *(["pair"] if sheet.pair else []), "label"]


def encode(sheet: Sheet, rows: list[dict[str, Any]]) -> tuple[list[bytes], list[int]]:
    """Bytes of header and rows, and the line each row starts at."""
    columns = names(sheet)
    if sheet.format == "json":
        return _squad(rows), list(range(1, len(rows) + 1))
    if sheet.format == "conll":
        return _sentences(rows)
    if sheet.format == "qrels":
        lines = [f"{row['query_id']} 0 {row['document_id']} {row['label']}\n" for row in rows]
        return [line.encode() for line in lines], list(range(1, len(rows) + 1))
    if sheet.task == "choose":
        rows = [{**row, **_spread(row["endings"])} for row in rows]
    if sheet.format == "jsonl":
        lines = [json.dumps({name: row[name] for name in columns}) + "\n" for row in rows]
        return [line.encode() for line in lines], list(range(1, len(rows) + 1))
    chunks, starts, line = [], [], 1
    for cells in [columns, *([_cell(row[name]) for name in columns] for row in rows)]:
        if sheet.format == "tsv":
            text = "\t".join(cell.replace("\n", " ") for cell in cells) + "\n"
        else:
            out = io.StringIO(newline="")
            csv.writer(out, lineterminator="\n").writerow(cells)
            text = out.getvalue()
        chunks.append(text.encode("utf-8", "surrogatepass"))
        starts.append(line)
        line += text.count("\n")
    return chunks, starts[1:]


def _spread(endings: Any) -> dict[str, str]:
    """A row's endings, each in a column."""
    given = endings if isinstance(endings, list) else []
    return dict(zip(ENDINGS, [*given, "", "", ""], strict=False))


def texts_by_id(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, str]]]:
    """The files of queries and documents that judgements name by id."""
    names = {"queries": "query", "documents": "document"}
    return {
        file: [{"id": key, "text": text} for key, text in {row[f"{name}_id"]: row[name] for row in rows}.items()]
        for file, name in names.items()
    }


def _squad(rows: list[dict[str, Any]]) -> list[bytes]:
    """Rows nested as SQuAD has them, each question under a paragraph of its own."""
    chunks = ['{"data": [{"title": "all", "paragraphs": [\n']
    for number, row in enumerate(rows, 1):
        item = {name: value for name, value in row.items() if name != "context"}
        paragraph = {"context": row["context"], "qas": [item]}
        chunks.append(json.dumps(paragraph) + (",\n" if number < len(rows) else "]}]}\n"))
    return [chunk.encode() for chunk in chunks]


def _sentences(rows: list[dict[str, Any]]) -> tuple[list[bytes], list[int]]:
    """Bytes of each sentence, a word and its tag a line, and the line it starts at."""
    chunks, starts, line = [], [], 1
    for row in rows:
        text = "".join(f"{word}\t{tag}\n" for word, tag in zip(row["words"], row["tags"], strict=True)) + "\n"
        chunks.append(text.encode())
        starts.append(line)
        line += text.count("\n")
    return chunks, starts


def parquet(sheet: Sheet, rows: list[dict[str, Any]], path: Path) -> list[int]:
    """Write Parquet, and give the row numbers."""
    columns = {name: [row[name] for row in rows] for name in names(sheet)}
    if any(isinstance(value, str) for value in columns["label"]) and sheet.task == "score":
        columns["label"] = [str(value) for value in columns["label"]]
    arrays = {name: _array(values) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), path)
    return list(range(1, len(rows) + 1))


def spreadsheet(sheet: Sheet, rows: list[dict[str, Any]], path: Path) -> list[int]:
    """Write a spreadsheet, and give the numbers of its rows."""
    columns = names(sheet)
    if sheet.task == "choose":
        rows = [{**row, **_spread(row["endings"])} for row in rows]
    write_spreadsheet([columns, *([_cell(row[name]) for name in columns] for row in rows)], path)
    return list(range(2, len(rows) + 2))


def _array(values: list[Any]) -> Any:
    if any(isinstance(value, bytes) for value in values):  # text that is not UTF-8, which Arrow writes unseen
        return pa.array([v if isinstance(v, bytes) else v.encode() for v in values], pa.binary()).view(pa.string())
    return pa.array(values)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return SEPARATOR.join(value)
    return "" if value is None else str(value)
