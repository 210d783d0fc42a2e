"""Every kind of fault that reading and checking can name, in one table: code, tests and docs are made from it."""

from __future__ import annotations

from dataclasses import dataclass

from warmstart.data.findings import Severity


@dataclass(frozen=True)
class Kind:
    """One kind of fault: what it is called, how bad it is, and what it means."""

    name: str
    severity: Severity
    meaning: str


def _table(severity: Severity, kinds: dict[str, str]) -> tuple[Kind, ...]:
    return tuple(Kind(name, severity, meaning) for name, meaning in kinds.items())


FILES = _table(
    "error",
    {
        "no-file": "there is no such file, or it is a folder",
        "no-format": "the suffix names no format",
        "no-rows": "the file has no rows, or none that has an answer",
        "gzip": "a gzip file is damaged, or gzip bytes have another name",
        "parquet": "the file is not readable as Parquet",
        "hub": "a data set's name is none, or the set cannot be loaded",
        "changed": "the file changed while it was read",
        "disk": "what was written to the cache cannot be read back",
        "encoding": "bytes that are not in the stated encoding, as in a file of two encodings",
        "encoding-name": "an encoding that Python does not know",
        "encoding-mark": "a byte order mark contradicts the stated encoding, or UTF-16 has none",
        "cells-few": "a row has fewer cells than the first one",
        "cells-many": "a row has more cells than the first one",
        "quote-open": "a quoted cell is never closed",
        "quote-after": "text follows a closing quote",
        "delimited": "not readable as delimited text for another reason",
        "lone-cr": "a carriage return stands alone outside quotes",
        "blank-line": "a blank line between rows",
        "header-repeated": "two columns have one name",
        "header-nul": "NUL characters in the header: UTF-16 read as something else",
        "column-missing": "a wanted column is not there",
        "column-unknown": "a row handed over in Python holds a column that no task asks for",
        "json": "a line is not JSON",
        "json-object": "a line is JSON, but no object",
        "json-key": "a key stands twice in one object",
        "squad": "a SQuAD file lacks a key, or has something else there than belongs there",
    },
)
VALUES = _table(
    "error",
    {
        "text-empty": "the text is empty",
        "text-blank": "the text is only white space",
        "text-type": "the text is a number, null or something else that is no text",
        "nul": "a NUL character",
        "surrogate": "a lone surrogate, half of a character",
        "answer-missing": "a row has no answer",
        "label-type": "a label is neither text, whole number nor boolean",
        "label-fraction": "a column of labels holds fractions",
        "label-blank": "an empty label among several",
        "labels-type": "several labels are wanted and the cell is no list",
        "number": "a score is no number",
        "number-finite": "a score is infinite or NaN",
        "label-one": "all training rows have one label",
        "label-unseen": "a label of dev or test is not in the training rows",
        "relevance": "how relevant a document is, is not said by a whole number",
        "qrels-parts": "a line of a qrels file has not the four parts query, 0, document, relevance",
        "id-unknown": "a row names a query or a document that is in none of their files",
        "id-twice": "two texts of a file of queries or documents have one id",
        "choice": "which text is right is said neither by a whole number from 0 on nor by the text itself",
        "texts-type": "several texts are wanted and the value is no list of them",
        "ranges-form": "places in a text are not said as start and end",
        "entities-form": "entities are not said as start, end and label",
        "word-empty": "a line of a CoNLL file has a tag and no word",
        "word-place": "a word is said to stand outside the text, or where there is only white space",
        "word-overlap": "two words share characters",
        "tag": "a tag that is neither O nor a prefix, a dash and a type",
        "tag-type": "a tag without a type, as B or I-",
        "tag-scheme": "tags that are in no one scheme: mixed ones, or an I- that follows nothing",
        "entity-place": "an entity is said to stand outside the text, or where there is only white space",
        "entity-name": "an entity's text is not what stands at its place",
        "entity-overlap": "two entities share characters",
        "answers-form": "answers are not said as text and start",
        "answer-blank": "an answer has no text",
        "answer-place": "an answer does not stand in its context where it says",
        "answer-impossible": "a question is said to have no answer and has one, or the other way round",
        "id-missing": "a row has no id, or nothing in another column that every row must fill",
        "part-empty": "a part that is to be held out would have no rows",
        "choice-few": "fewer than two endings to choose from",
        "choice-past": "the right ending's number is past the last ending",
        "mark-missing": "one of two entities is not marked, or its mark is not closed",
        "mark-repeated": "an entity is marked twice",
        "mark-order": "a mark is closed before it is opened",
        "mark-empty": "nothing but white space is marked",
        "mark-overlap": "two marked entities overlap",
        "mark-outside": "an entity's place is past the end of the text",
        "mark-reserved": "the text holds a token that is kept for the encoder, as [E1]",
    },
)
READING = _table(
    "note",
    {
        "bom": "the file starts with a byte order mark, which is skipped",
        "blank-end": "blank lines at the end of the file, skipped",
        "cache": "the stored copy of the rows was damaged; they were read again",
        "held-out": "how many rows were held out of the training file",
        "negatives": "which rows a ranking is learned from, and what they are set against",
        "labels-none": "rows without any label, where several are allowed",
        "tag-read": "the scheme that a CoNLL file's tags were found to be in",
        "document": "lines of a CoNLL file that begin a document (-DOCSTART-), which are no sentences",
        "text-space": "texts that start or end with white space",
        "answers-none": "questions without any answer",
        "answer-repeated": "an answer that stands twice at one question",
        "plausible": "plausible answers of a SQuAD file, which are not read",
    },
) + _table(
    "warning",
    {
        "line-ends": "some rows end in CR LF, some in LF",
        "unlabelled": "rows without an answer were dropped, as asked",
        "extra-cells": "cells past the first row's were ignored, as asked",
        "label-space": "a label starts or ends with white space",
        "label-repeated": "a label stands twice in one row",
        "label-types": 'labels of several types, as 1 and "1", become one label',
        "tag-stray": "a B- in an IOB1 file where an I- would say the same",
        "word-start": "all words of a CoNLL file start alike, as with en:",
        "entity-inside": "an entity begins or ends inside a word, so the model cannot give it exactly",
        "id-repeated": "two rows have one id",
    },
)
TEXTS = _table(
    "warning",
    {
        "text-na": "the whole text is a word for nothing: NA, null, nan, none",
        "text-short": "the text is a single character",
        "text-long": "the text is far longer than the others",
        "text-no-letters": "the text has no letter: numbers or signs alone",
        "text-url": "the text is an address alone",
        "text-quoted": "the text stands in quotes as a whole: perhaps they should have been read as such",
        "same-start": "all texts start with the same 10 or more characters",
        "cut-before": "many texts end at exactly the same length: cut before they came here",
        "control": "control characters",
        "zero-width": "characters without width inside words",
        "soft-hyphen": "soft hyphens, which are not seen",
        "bidi": "a change of writing direction that is not closed",
        "replacement": "U+FFFD, left where a character could not be decoded",
        "private-use": "characters that have a meaning in one font only",
        "noncharacter": "code points that are no characters",
        "mojibake": "UTF-8 that was decoded as something else, as in Ã©",
        "html-tag": "HTML tags, as &lt;br /&gt;",
        "html-entity": "HTML entities, as &amp;amp;",
        "escape": "escapes left as text, as \\n or \\u00e9",
        "mixed-script": "Latin and Cyrillic letters in one word",
        "line-separator": "line ends that hardly any program shows: U+2028, U+2029, U+0085",
        "not-nfc": "letters whose accents are characters of their own",
        "pair-same": "a text equals its pair",
        "duplicate": "the same text and answer again, to the letter",
        "duplicate-near": "the same text and answer again but for case, spacing or width",
        "window-cut": "texts longer than the window, whose rest is not seen",
    },
)
ANSWERS = _table(
    "warning",
    {
        "label-spelling": 'labels that differ in case or spacing alone, as "Pos" and "pos "',
        "label-width": "labels that differ in full and half width or another compatible form alone",
        "label-nfc": "a label whose accents are characters of their own",
        "label-hidden": "a label with control characters or ones without width",
        "label-na": "a label that is a word for nothing: NA, null, nan, none",
        "label-long": "a label of more than 100 characters: perhaps the wrong column",
        "label-single": "a label that a single row has",
        "label-numbers": "labels that are many different numbers: perhaps a score",
        "label-many": "more than half of the rows have a label of their own: perhaps the wrong column",
        "imbalance": "more than 95% of the rows have one label",
        "label-is-text": "a row's label is its text",
        "label-in-text": "every text holds its label: it would be learned by reading it",
        "label-conflict": "the same text with different answers",
        "score-same": "all scores are the same",
        "score-outlier": "a score far from all others",
        "shared": "training rows that are in dev or test as well",
        "shared-conflict": "a text of dev or test has another answer in training",
        "query-alone": "a query has no relevant document, so it says nothing about a ranking",
        "label-untested": "a label of the training rows that test has not",
    },
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in (*FILES, *VALUES, *READING, *TEXTS, *ANSWERS)}
"""Every kind by its name."""
