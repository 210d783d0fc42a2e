"""Rows of CoNLL files: a word and its tag a line, a blank line after each sentence.

A row is a sentence: its words joined by one space (`text`), their places in it (`words`), and what the tags say as
places and labels (`entities`). So the scheme of a file's tags matters here and nowhere else. It is found by a first
reading of the whole file, since a single line does not tell IOB1 from BIO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

from warmstart.data.findings import Findings
from warmstart.data.lines import lines
from warmstart.data.source import GIVES, Record, Source, Wanted
from warmstart.errors import DataError
from warmstart.text import tag_schemes as schemes
from warmstart.text.alignment import join_words
from warmstart.text.tag_schemes import OUTSIDE, Detector, Scheme

DOCUMENT = "-DOCSTART-"
"""The first word of a line that says where a document begins; it is no word of a sentence."""
FEW = 20
"""Below so many words, what all have in common says little."""
COMMENT = "If the line is a comment, remove it: none is read here."
_SPACE = re.compile(r"[ \t]+")  # other white space, as U+00A0, is part of a word


@dataclass
class _Sentence:
    """Words and tags, each with its line."""

    lines: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def records(file: str, source: Source, wanted: Sequence[Wanted], findings: Findings) -> Iterator[Record]:
    """Give each sentence's line and its wanted values; a line that is no word with a tag of the scheme is an error."""
    columns = _Columns(file, wanted)
    scheme: Scheme = "BIO"
    if columns.tagged:
        scheme = _scheme(file, _sentences(file, source, columns, Findings()), findings)
    alike, count, first = "", 0, 0
    for sentence in _sentences(file, source, columns, findings):
        alike = commonprefix([alike, *sentence.words] if count else sentence.words)  # noqa: RUF071 - these are no paths
        first, count = first or sentence.lines[0], count + len(sentence.words)
        row = _row(sentence, scheme)
        yield sentence.lines[0], [row[want.column.name] for want in wanted]
    if alike and count >= FEW:
        message = f"all {count:,} words start with {alike!r}, which is learned as part of them; remove it?"
        findings.add("word-start", "warning", message, file, first)


def _row(sentence: _Sentence, scheme: Scheme) -> dict[str, object]:
    text, places = join_words(sentence.words)
    entities = [
        {"start": places[first][0], "end": places[after - 1][1], "label": kind}
        for first, after, kind in schemes.spans(sentence.tags, scheme)
    ]
    return {"text": text, "words": [{"start": start, "end": end} for start, end in places], "entities": entities}


class _Columns:
    """Which columns of a file hold the words and the tags; the first data line says how many there are."""

    def __init__(self, file: str, wanted: Sequence[Wanted]) -> None:
        self.file = file
        names = {want.column.name: want.name for want in wanted}
        for name, given in names.items():
            if name not in GIVES["conll"]:
                raise DataError(
                    f"{file}: a CoNLL file has no {name!r}. It gives {', '.join(GIVES['conll'])}, as --task tag reads "
                    "them; is it another format (--format), or another task?",
                    "column-missing",
                )
            if given != name and (name == "text" or not given.isdigit() or given == "0"):
                raise DataError(
                    f"{file}: no column {given!r} for {name!r}. Columns of a CoNLL file are numbered from 1: "
                    "say which hold the words and the tags, as --column words=1 --column entities=4 (data.columns).",
                    "column-missing",
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
            raise DataError(
                f"{self.file}:{line}: found {self.width} column{'s' * (self.width > 1)}, expected {least} or more: "
                "a word, its tag, and white space or a tab between them. State which columns hold them with "
                "--column words=1 --column entities=2 (data.columns).",
                "cells-few",
            )

    def take(self, line: int, body: str) -> tuple[str, str]:
        """The word and the tag of a line."""
        cells = self._cells(body)
        if len(cells) != self.width:
            raise self._wrong_width(line, body, len(cells))
        word = cells[(self._word or 1) - 1]
        if not word.strip():
            raise DataError(
                f"{self.file}:{line}: the word is empty. Expected one: fill it in, remove the line, or, where the "
                "sentence ends here, leave the line blank.",
                "word-empty",
            )
        tag = cells[(self._tag or self.width) - 1] if self.tagged else OUTSIDE
        self._check_tag(line, body, tag)
        return word, tag

    def _cells(self, body: str) -> list[str]:
        return body.split("\t") if self._tabs else _SPACE.split(body.strip(" \t"))

    def _wrong_width(self, line: int, body: str, found: int) -> DataError:
        advice = "Complete the line." if found < self.width else "Remove what is too much."
        if found > self.width and not self._tabs:
            advice = "If a word holds a space, separate all columns by tabs."
        if body.startswith("#"):
            advice = COMMENT
        return DataError(
            f"{self.file}:{line}: found {found} columns, expected {self.width} as in line {self.line}. {advice}",
            "cells-few" if found < self.width else "cells-many",
        )

    def _check_tag(self, line: int, body: str, tag: str) -> None:
        prefix, kind = schemes.split(tag)
        if tag == OUTSIDE or (prefix in set("BIESLU") and kind.strip()):
            return
        if prefix in set("BIESLU"):
            what, advice, fault = "has no type", f"Write one, as {prefix}-NAME.", "tag-type"
        else:
            what, fault = "is no tag", "tag"
            advice = "If the tags are in another column than the last, say --column entities=NUMBER (data.columns)."
            advice = COMMENT if body.startswith("# ") else advice
        raise DataError(f"{self.file}:{line}: {tag!r} {what}. Expected O, or such as B-PER. {advice}", fault)


def _number(name: str) -> int | None:
    """A column's number, or None where it was not said."""
    return int(name) if name.isdigit() else None


def _sentences(file: str, source: Source, columns: _Columns, findings: Findings) -> Iterator[_Sentence]:
    """Every sentence with its words; lines that begin a document are left out and counted."""
    columns.width = documents = first = 0
    found = _Sentence()
    for number, line in enumerate(lines(file, source.encoding, findings), 1):
        body = line.rstrip("\r\n")
        begins = _SPACE.split(body, maxsplit=1)[0] == DOCUMENT
        if begins or not body.strip():
            documents, first = documents + begins, first or number * begins
            if found.words:
                yield found
                found = _Sentence()
            continue
        if not columns.width:
            columns.start(number, body)
        word, tag = columns.take(number, body)
        found.lines.append(number)
        found.words.append(word)
        found.tags.append(tag)
    if found.words:
        yield found
    if documents:
        message = f"lines that begin a document ({DOCUMENT}), no sentences of their own"
        findings.add("document", "note", message, file, first, documents)


def _scheme(file: str, sentences: Iterator[_Sentence], findings: Findings) -> Scheme:
    """The scheme that all tags of a file are in, told as a finding."""
    seen, start = Detector(), 0
    for sentence in sentences:
        start = start or sentence.lines[0]
        for line, tag in zip(sentence.lines, sentence.tags, strict=True):
            seen.look(tag, line)
        seen.look(None)
    scheme = seen.scheme
    if not seen.fits:
        line, what = seen.first[scheme]
        others = [f"{other} {seen.faults[other]:,} (line {seen.first[other][0]})" for other in schemes.PREFIXES]
        raise DataError(
            f"{file}:{line}: found {what}, but the file's other tags are {scheme}. How many tags contradict each "
            f"scheme, and where first: {', '.join(others)}. Expected a file in one of them: correct the line.",
            "tag-scheme",
        )
    if stray := seen.faults[scheme]:
        line, what = seen.first[scheme]
        message = f"{what} in a file of IOB1, where I- would say the same; read as the first word of an entity"
        findings.add("tag-stray", "warning", message, file, line, stray)
    if start:
        findings.add("tag-read", "note", f"the tags are {scheme}", file, start)
    return scheme
