"""Rows of CoNLL files: a word and its tag per line, a blank line after each sentence.

A row is a sentence: its words joined by one space (`text`), their spans in it (`words`), and what the tags encode as
labelled spans (`entities`). So the scheme of a file's tags matters here and nowhere else. It is detected by a first
reading of the whole file, since a single line does not tell IOB1 from BIO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.schema import Row
from warmstart.data.source import BUILT_IN_COLUMNS, FileColumn, Record, Source
from warmstart.data.text_lines import read_lines
from warmstart.errors import DataError, Location
from warmstart.text import tag_schemes as schemes
from warmstart.text.alignment import join_words
from warmstart.text.tag_schemes import OUTSIDE, Scheme, SchemeDetector

DOCUMENT = "-DOCSTART-"
"""The first word of a line that begins a document; it is not a word of a sentence."""
MIN_WORDS = 20
"""With fewer words, what all have in common means little."""
COMMENT = "If the line is a comment, remove it: comments are not supported."
_SPACE = re.compile(r"[ \t]+")  # other whitespace, such as U+00A0, is part of a word


@dataclass
class _Sentence:
    """Words and tags, each with its line."""

    lines: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    """The lines that are wrong; the sentence is then no row."""


def records(file: str, source: Source, columns: Sequence[FileColumn], findings: Findings) -> Iterator[Record]:
    """Yield each sentence's line and its values in `columns`; any line without a word and a valid tag is an error."""
    layout = _Layout(file, columns)
    scheme: Scheme = "BIO"
    if layout.tagged:
        scheme = _detect_scheme(file, _sentences(file, source, layout, Findings()), findings)
    prefix, count, first = "", 0, 0
    for sentence in _sentences(file, source, layout, findings):
        if sentence.faults:
            yield from sentence.faults
            continue
        prefix = commonprefix([prefix, *sentence.words] if count else sentence.words)  # noqa: RUF071 - not paths
        first, count = first or sentence.lines[0], count + len(sentence.words)
        row = _row(sentence, scheme)
        yield sentence.lines[0], [row[column.target.name] for column in columns]
    if prefix and count >= MIN_WORDS:
        message = f"all {count:,} words start with {prefix!r}, which is learned as part of them; remove it?"
        findings.add("word-start", "warning", message, Location(file, first))


def _row(sentence: _Sentence, scheme: Scheme) -> Row:
    text, spans = join_words(sentence.words)
    entities = [
        {"start": spans[first][0], "end": spans[after - 1][1], "label": kind}
        for first, after, kind in schemes.tags_to_spans(sentence.tags, scheme)
    ]
    return {"text": text, "words": [{"start": start, "end": end} for start, end in spans], "entities": entities}


class _Layout:
    """Which columns of a file hold the words and the tags; the first data line tells how many there are."""

    def __init__(self, file: str, columns: Sequence[FileColumn]) -> None:
        self.file = file
        names = {column.target.name: column.name for column in columns}
        provided = BUILT_IN_COLUMNS["conll"]
        for name, own in names.items():
            if name not in provided:
                raise DataError(
                    f"a CoNLL file has no {name!r}. It provides {', '.join(provided)}, as --task tag reads "
                    "them; is it another format (--format), or another task?",
                    "column-missing",
                    location=Location(file),
                    column=name,
                )
            if own != name and (name == "text" or not own.isdigit() or own == "0"):
                raise DataError(
                    f"no column {own!r} for {name!r}. Columns of a CoNLL file are numbered from 1: state "
                    "which hold the words and the tags, as --column words=1 --column entities=4 (data.columns).",
                    "column-missing",
                    location=Location(file),
                    column=name,
                )
        self.tagged = "entities" in names
        self._word = _number(names.get("words", "words"))
        self._tag = _number(names.get("entities", "entities"))
        self.width = self.line = 0
        self._tabs = False

    def start(self, line: int, body: str) -> None:
        """Take the layout from the first data line."""
        self._tabs = "\t" in body
        self.width, self.line = len(self._cells(body)), line
        least = max(self._word or 1, self._tag or 1, 2 if self.tagged else 1)
        if self.width < least:
            raise Fault(
                f"found {self.width} column{'s' * (self.width > 1)}, expected {least} or more: "
                "a word, its tag, and whitespace or a tab between them. State which columns hold them with "
                "--column words=1 --column entities=2 (data.columns).",
                "cells-few",
            ).at(Location(self.file, line))

    def parse(self, body: str) -> tuple[str, str]:
        """The word and the tag of a line."""
        cells = self._cells(body)
        if len(cells) != self.width:
            raise self._wrong_width(body, len(cells))
        word = cells[(self._word or 1) - 1]
        if not word.strip():
            raise Fault(
                "the word is empty. Expected one: fill it in, remove the line, or, where the "
                "sentence ends here, leave the line blank.",
                "word-empty",
            )
        tag = cells[(self._tag or self.width) - 1] if self.tagged else OUTSIDE
        self._check_tag(body, tag)
        return word, tag

    def _cells(self, body: str) -> list[str]:
        return body.split("\t") if self._tabs else _SPACE.split(body.strip(" \t"))

    def _wrong_width(self, body: str, width: int) -> Fault:
        advice = "Complete the line." if width < self.width else "Remove the extra ones."
        if width > self.width and not self._tabs:
            advice = "If a word holds a space, separate all columns by tabs."
        if body.startswith("#"):
            advice = COMMENT
        problem = f"found {width} columns, expected {self.width} as in line {self.line}. {advice}"
        return Fault(problem, "cells-few" if width < self.width else "cells-many")

    def _check_tag(self, body: str, tag: str) -> None:
        prefix, kind = schemes.split_tag(tag)
        if tag == OUTSIDE or (prefix in set("BIESLU") and kind.strip()):
            return
        if prefix in set("BIESLU"):
            state, advice, fault = "has no type", f"Write one, as {prefix}-NAME.", "tag-type"
        else:
            state, fault = "is not a tag", "tag"
            advice = "If the tags are not in the last column, pass --column entities=NUMBER (data.columns)."
            advice = COMMENT if body.startswith("# ") else advice
        raise Fault(f"{tag!r} {state}. Expected O, or such as B-PER. {advice}", fault)


def _number(name: str) -> int | None:
    """A column's number, or None where it was not given."""
    return int(name) if name.isdigit() else None


def _sentences(file: str, source: Source, layout: _Layout, findings: Findings) -> Iterator[_Sentence]:
    """Every sentence with its words; lines that begin a document are left out and counted."""
    layout.width = documents = first = 0
    sentence = _Sentence()
    for number, line in enumerate(read_lines(file, source.encoding, findings), 1):
        body = line.rstrip("\r\n")
        begins = _SPACE.split(body, maxsplit=1)[0] == DOCUMENT
        if begins or not body.strip():
            documents, first = documents + begins, first or number * begins
            if sentence.words or sentence.faults:
                yield sentence
                sentence = _Sentence()
            continue
        if not layout.width:
            layout.start(number, body)
        try:
            word, tag = layout.parse(body)
        except Fault as fault:
            sentence.faults.append((number, fault))
            continue
        sentence.lines.append(number)
        sentence.words.append(word)
        sentence.tags.append(tag)
    if sentence.words or sentence.faults:
        yield sentence
    if documents:
        message = f"lines that begin a document ({DOCUMENT}), not sentences of their own"
        findings.add("document", "note", message, Location(file, first), documents)


def _detect_scheme(file: str, sentences: Iterator[_Sentence], findings: Findings) -> Scheme:
    """The scheme that all tags of a file are in, reported as a finding."""
    detector, start = SchemeDetector(), 0
    for sentence in sentences:
        if sentence.faults:
            continue
        start = start or sentence.lines[0]
        for line, tag in zip(sentence.lines, sentence.tags, strict=True):
            detector.observe(tag, line)
        detector.observe(None)
    scheme = detector.scheme
    if not detector.fits:
        line, fault = detector.first[scheme]
        others = [f"{other} {detector.faults[other]:,} (line {detector.first[other][0]})" for other in schemes.PREFIXES]
        raise DataError(
            f"found {fault}, but the file's other tags are {scheme}. How many tags contradict each "
            f"scheme, and where first: {', '.join(others)}. Expected a file in one of them: correct the line.",
            "tag-scheme",
            location=Location(file, line),
        )
    if redundant := detector.faults[scheme]:
        line, fault = detector.first[scheme]
        message = f"{fault} in a file of IOB1, where I- would mean the same; read as the first word of an entity"
        findings.add("tag-stray", "warning", message, Location(file, line), redundant)
    if start:
        findings.add("tag-read", "note", f"the tags are {scheme}", Location(file, start))
    return scheme
