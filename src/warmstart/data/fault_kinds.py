"""Every kind of fault that reading and checking can report, in one table: code, tests and docs are made from it."""

from __future__ import annotations

from dataclasses import dataclass

from warmstart.data.findings import Severity


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault: its name, its severity and its meaning."""

    name: str
    severity: Severity
    meaning: str


def _table(severity: Severity, kinds: dict[str, str]) -> tuple[FaultKind, ...]:
    return tuple(FaultKind(name, severity, meaning) for name, meaning in kinds.items())


FILES = _table(
    "error",
    {
        "no-file": "there is no such file, or it is a folder",
        "no-format": "the suffix is not that of a known format",
        "no-rows": "the file has no rows, or none that has an answer",
        "gzip": "a gzip file is damaged, or a gzip file is named otherwise",
        "parquet": "the file is not readable as Parquet",
        "hub": "a data set has no valid name, or cannot be loaded",
        "changed": "the file changed while it was read",
        "disk": "what was written to the cache cannot be read back",
        "encoding": "bytes that are not in the stated encoding, as in a file of two encodings",
        "encoding-name": "an encoding that Python does not have",
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
        "column-missing": "a column that the task reads is not there",
        "column-unknown": "a row given in Python has a column that the task does not read",
        "json": "a line is not JSON",
        "json-object": "a line is JSON, but not an object",
        "json-key": "a key occurs twice in one object",
        "squad": "a SQuAD file lacks a key, or has an unexpected value there",
    },
)
VALUES = _table(
    "error",
    {
        "text-empty": "the text is empty",
        "text-blank": "the text is only white space",
        "text-type": "the text is a number, null or something else that is not text",
        "nul": "a NUL character",
        "surrogate": "a lone surrogate, half of a character",
        "answer-missing": "a row has no answer",
        "label-type": "a label is neither text, integer nor boolean",
        "label-fraction": "a column of labels holds fractions",
        "label-blank": "an empty label among several",
        "labels-type": "a list of labels is expected and the cell is not one",
        "number": "a score is not a number",
        "number-finite": "a score is infinite or NaN",
        "label-one": "all training rows have one label",
        "label-unseen": "a label of dev or test is not in the training rows",
        "relevance": "the relevance of a document is not a whole number",
        "qrels-parts": "a line of a qrels file does not have the four parts query, 0, document, relevance",
        "id-unknown": "a row refers to a query or a document that is in none of their files",
        "id-twice": "two texts of a file of queries or documents have the same id",
        "choice": "the right text is given neither by its number from 0 on nor by the text itself",
        "texts-type": "a list of texts is expected and the value is not one",
        "ranges-form": "ranges of a text are not given as start and end",
        "entities-form": "entities are not given as start, end and label",
        "word-empty": "a line of a CoNLL file has a tag but no word",
        "word-place": "a word lies outside the text, or where there is only white space",
        "word-overlap": "two words overlap",
        "tag": "a tag is neither O nor a prefix, a dash and a type",
        "tag-type": "a tag has no type, as B or I-",
        "tag-scheme": "the tags are not in one scheme: mixed ones, or an I- that follows nothing",
        "entity-place": "an entity lies outside the text, or where there is only white space",
        "entity-name": "an entity's text is not what its span covers",
        "entity-overlap": "two entities overlap",
        "answers-form": "answers are not given as text and start",
        "answer-blank": "an answer has no text",
        "answer-place": "an answer is not at its start in the context",
        "answer-impossible": "a question is marked as impossible and has an answer, or the other way round",
        "id-missing": "a row has no id, or no value in another required column",
        "part-empty": "a part to hold out would have no rows",
        "choice-few": "there are fewer than two endings to choose from",
        "choice-past": "the number of the right ending is past the last one",
        "mark-missing": "one of two entities is not marked, or its mark is not closed",
        "mark-repeated": "an entity is marked twice",
        "mark-order": "a mark is closed before it is opened",
        "mark-empty": "nothing but white space is marked",
        "mark-overlap": "two marked entities overlap",
        "mark-outside": "an entity's span is past the end of the text",
        "mark-reserved": "the text contains a token reserved for the encoder, as [E1]",
    },
)
READING = _table(
    "note",
    {
        "bom": "the file starts with a byte order mark, which is skipped",
        "blank-end": "blank lines at the end of the file, skipped",
        "cache": "the stored copy of the rows was damaged; they were read again",
        "held-out": "how many rows were held out of the training file",
        "negatives": "which rows a ranking is trained on, and with which negatives",
        "labels-none": "rows without any label, where several are allowed",
        "tag-read": "the scheme that was detected for a CoNLL file's tags",
        "document": "lines of a CoNLL file that begin a document (-DOCSTART-), which are not sentences",
        "text-space": "texts that start or end with white space",
        "answers-none": "questions without any answer",
        "answer-repeated": "an answer that occurs twice for one question",
        "plausible": "plausible answers of a SQuAD file, which are not read",
    },
) + _table(
    "warning",
    {
        "line-ends": "some rows end in CR LF, some in LF",
        "unlabelled": "rows without an answer were dropped, as requested",
        "extra-cells": "cells past the first row's were ignored, as requested",
        "label-space": "a label starts or ends with white space",
        "label-repeated": "a label occurs twice in one row",
        "label-types": 'labels of several types, as 1 and "1", become one label',
        "tag-stray": "a B- in an IOB1 file where an I- would mean the same",
        "word-start": "all words of a CoNLL file start with the same characters, as en:",
        "entity-inside": "an entity begins or ends inside a word, so the model cannot predict it exactly",
        "id-repeated": "two rows have the same id",
    },
)
TEXTS = _table(
    "warning",
    {
        "text-na": "the whole text is a placeholder: NA, null, nan, none",
        "text-short": "the text is a single character",
        "text-long": "the text is far longer than the others",
        "text-no-letters": "the text has no letter: only numbers or signs",
        "text-url": "the text is only a web address",
        "text-quoted": "the whole text is in quotes: perhaps they should have been parsed",
        "same-start": "all texts start with the same 10 or more characters",
        "cut-before": "many texts have exactly the same greatest length: probably truncated before",
        "control": "control characters",
        "zero-width": "zero-width characters inside words",
        "soft-hyphen": "soft hyphens, which are invisible",
        "bidi": "a change of writing direction that is not undone",
        "replacement": "U+FFFD, left where a character could not be decoded",
        "private-use": "private-use characters, which only one font defines",
        "noncharacter": "code points that are not characters",
        "mojibake": "UTF-8 that was decoded as something else, as in Ã©",
        "html-tag": "HTML tags, as &lt;br /&gt;",
        "html-entity": "HTML entities, as &amp;amp;",
        "escape": "escape sequences left as text, as \\n or \\u00e9",
        "mixed-script": "Latin and Cyrillic letters in one word",
        "line-separator": "line separators that most programs do not show: U+2028, U+2029, U+0085",
        "not-nfc": "letters whose accents are separate characters (not NFC)",
        "pair-same": "a text equals its pair",
        "duplicate": "a row repeats the text and answer of another exactly",
        "duplicate-near": "a row repeats the text and answer of another except for case, spacing or width",
        "window-cut": "texts longer than the window, of which the encoder does not see all",
    },
)
ANSWERS = _table(
    "warning",
    {
        "label-spelling": 'labels that differ only in case or spacing, as "Pos" and "pos "',
        "label-width": "labels that differ only in full and half width or another compatible form",
        "label-nfc": "a label whose accents are separate characters (not NFC)",
        "label-hidden": "a label with control or zero-width characters",
        "label-na": "a label that is a placeholder: NA, null, nan, none",
        "label-long": "a label of more than 100 characters: perhaps the wrong column",
        "label-single": "a label that only one row has",
        "label-numbers": "labels that are many different numbers: perhaps a score",
        "label-many": "more than half of the rows have a label of their own: perhaps the wrong column",
        "imbalance": "more than 95% of the rows have one label",
        "label-is-text": "a row's label is its text",
        "label-in-text": "every text contains its label: a model can learn to copy it",
        "label-conflict": "the same text with different answers",
        "score-same": "all scores are the same",
        "score-outlier": "a score far from all others",
        "shared": "training rows that are also in dev or test",
        "shared-conflict": "a text of dev or test has another answer in training",
        "query-alone": "a query without a relevant document, which says nothing about a ranking",
        "label-untested": "a label of the training rows that no test row has",
    },
)
FAULT_KINDS: dict[str, FaultKind] = {kind.name: kind for kind in (*FILES, *VALUES, *READING, *TEXTS, *ANSWERS)}
"""Every kind by its name."""
