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
        "no-format": "the suffix is not one of a known format",
        "no-rows": "the file has no rows, or none with an answer",
        "compression": "a compressed file is damaged, is a zip of several files, or has the wrong suffix",
        "bomb": "a file that unpacks to far more than its size",
        "sheet": "a spreadsheet cannot be read, or it is open which of its sheets is meant",
        "cell-error": "a formula of a spreadsheet shows an error, such as #REF!",
        "delimiter": "the cells of a CSV or TSV file are separated by another character",
        "parquet": "the file cannot be read as Parquet",
        "hub": "a dataset has no valid name, or cannot be loaded",
        "changed": "the file changed while it was read",
        "disk": "what was written to the cache cannot be read back",
        "encoding": "bytes that are not valid in the stated encoding, such as in a file that mixes two",
        "encoding-name": "an encoding that Python does not know",
        "encoding-mark": "a byte order mark contradicts the stated encoding, or UTF-16 has none",
        "cells-few": "a row has fewer cells than the first one",
        "cells-many": "a row has more cells than the first one",
        "quote-open": "a quoted cell is never closed",
        "quote-after": "text follows a closing quote",
        "delimited": "not readable as CSV or TSV for another reason",
        "lone-cr": "a carriage return without a line feed, outside quotes",
        "blank-line": "a blank line between rows",
        "header-repeated": "two columns have the same name",
        "header-nul": "NUL characters in the header: UTF-16 read as something else",
        "column-missing": "a column that the task reads is missing",
        "column-types": "a column of a data frame has values of several types",
        "column-unknown": "a row passed in Python has a column that the task does not read",
        "json": "a line is not JSON",
        "json-object": "a line is JSON, but not an object",
        "json-key": "a key occurs twice in an object",
        "squad": "a SQuAD file lacks a key, or has an unexpected value there",
    },
)
VALUES = _table(
    "error",
    {
        "text-empty": "the text is empty",
        "text-blank": "the text is nothing but whitespace",
        "text-type": "the text is a number, null or something else that is not text",
        "nul": "a NUL character",
        "surrogate": "a lone surrogate, half of a character",
        "answer-missing": "a row has no answer",
        "label-type": "a label is neither text, integer nor boolean",
        "label-fraction": "a column of labels contains fractions",
        "label-blank": "an empty label among several",
        "labels-type": "the cell is not the list of labels that was expected",
        "probability-form": "the cell is not a mapping from labels to probabilities, or lacks one of them",
        "probability-range": "a probability is negative, or above 1",
        "probability-sum": "the probabilities of a row do not sum to 1",
        "votes-form": "the cell is not the list of annotators' labels, or their counts, that was expected",
        "number": "a score is not a number",
        "number-finite": "a score is infinite or NaN",
        "label-one": "all training rows have the same label",
        "label-unseen": "a label of dev or test is not in the training rows",
        "relevance": "the relevance of a document is not an integer",
        "qrels-parts": "a line of a qrels file does not consist of query, 0, document and relevance",
        "id-unknown": "a row refers to a query or document that is in none of the given files",
        "id-twice": "two queries or two documents have the same id",
        "choice": "the right ending is given neither by its index, counted from 0, nor by its text",
        "texts-type": "the value is not the list of texts that was expected",
        "ranges-form": "the positions in a text are not given as start and end",
        "entities-form": "entities are not given as start, end and label",
        "word-empty": "a line of a CoNLL file has a tag but no word",
        "word-place": "a word lies outside the text, or covers only whitespace",
        "word-overlap": "two words overlap",
        "tag": "a tag is neither O nor a prefix, a dash and a type",
        "tag-type": "a tag has no type, such as B or I-",
        "tag-scheme": "the tags do not follow one scheme: schemes are mixed, or an I- follows no entity",
        "entity-place": "an entity lies outside the text, or covers only whitespace",
        "entity-name": "the text given for an entity is not the text of its span",
        "entity-overlap": "two entities overlap",
        "answers-form": "answers are not given as text and start",
        "answer-blank": "an answer has no text",
        "answer-place": "an answer is not at its start in the context",
        "answer-impossible": "a question marked as impossible has an answer, or one not marked has none",
        "id-missing": "a row has no id, or no value in another required column",
        "part-empty": "a split to hold out would have no rows",
        "choice-few": "a row has fewer than two endings",
        "choice-past": "the index of the right ending is past the last one",
        "mark-missing": "one of the two entities is not marked, or its mark is not closed",
        "mark-repeated": "an entity is marked twice",
        "mark-order": "a mark is closed before it is opened",
        "mark-empty": "nothing but whitespace is marked",
        "mark-overlap": "two marked entities overlap",
        "mark-outside": "the position of an entity is past the end of the text",
        "mark-reserved": "the text contains a token that marks entities, such as [E1]",
    },
)
READING = _table(
    "note",
    {
        "bom": "the file starts with a byte order mark, which is skipped",
        "cell-format": "cells of a spreadsheet whose number format is not applied",
        "blank-end": "blank lines at the end of the file, which are skipped",
        "cache": "the cached copy of the rows was damaged, so the file was read again",
        "held-out": "how many rows were held out from the training file",
        "fraction": "how many of the training rows are used, if `data.fraction` is set",
        "negatives": "which rows a ranking model is trained on, and with which negatives",
        "labels-none": "rows without any label, in multi-label data",
        "tag-read": "the scheme that was detected for a CoNLL file's tags",
        "document": "lines that begin a document in a CoNLL file (-DOCSTART-), which are skipped",
        "text-space": "texts that start or end with whitespace",
        "answers-none": "questions without any answer",
        "answer-repeated": "an answer that is given twice for one question",
        "plausible": "plausible answers of a SQuAD file, which are not read",
    },
) + _table(
    "warning",
    {
        "column-unread": "a column that the task could read, such as `pair`, is not read: no option names it",
        "line-ends": "some lines end in CR LF, others in LF",
        "unlabelled": "rows without an answer were dropped, as requested",
        "empty": "blank rows and rows without text were dropped, as requested",
        "extra-cells": "cells beyond those of the first row were ignored, as requested",
        "label-space": "a label starts or ends with whitespace, which is left out only around a separator of labels",
        "label-tie": "two labels of a row are equally probable, so which one counts as the answer is arbitrary",
        "label-repeated": "a label occurs twice in one row",
        "label-types": 'labels of different types, such as 1 and "1", become the same label',
        "tag-stray": "a B- in an IOB1 file where an I- would mean the same",
        "word-start": "all words of a CoNLL file start with the same characters, such as en:",
        "entity-inside": "an entity begins or ends inside a word, so the model cannot predict it exactly",
        "single-sentence": "a row has one sentence, and so no pair for next-sentence or sentence-order prediction",
        "id-repeated": "two rows have the same id",
    },
)
TEXTS = _table(
    "warning",
    {
        "text-na": "the whole text is a placeholder: NA, null, nan, none",
        "text-short": "the text is a single character",
        "text-long": "the text is far longer than the others",
        "text-no-letters": "the text has no letters, only digits or symbols",
        "text-url": "the text is only a web address",
        "text-quoted": "the whole text is in quotes, which should perhaps have been parsed",
        "same-start": "all texts start with the same 10 or more characters",
        "cut-before": "many texts have exactly the maximum length: they were probably truncated before",
        "control": "control characters",
        "zero-width": "zero-width characters inside words",
        "soft-hyphen": "soft hyphens, which are invisible",
        "bidi": "a change of writing direction that is never ended",
        "replacement": "U+FFFD, which replaces a character that could not be decoded",
        "private-use": "private-use characters, whose meaning depends on the font",
        "noncharacter": "code points that are not characters",
        "mojibake": "UTF-8 that was decoded as another encoding, such as Ã©",
        "html-tag": "HTML tags, such as &lt;br /&gt;",
        "html-entity": "HTML entities, such as &amp;amp;",
        "escape": "escape sequences left in the text, such as \\n or \\u00e9",
        "mixed-script": "Latin and Cyrillic letters in one word",
        "line-separator": "line separators that most programs do not display: U+2028, U+2029, U+0085",
        "not-nfc": "letters whose accents are separate characters (not NFC)",
        "pair-same": "a text equals its pair",
        "duplicate": "a row repeats the text and answer of another exactly",
        "duplicate-near": "a row repeats the text and answer of another except for case, spacing or width",
        "window-cut": "texts longer than the window, which the encoder sees only in part",
    },
)
ANSWERS = _table(
    "warning",
    {
        "label-spelling": 'labels that differ only in case or spacing, such as "Pos" and "pos "',
        "label-width": "labels that differ only in width (full or half) or in another compatibility form",
        "label-nfc": "a label whose accents are separate characters (not NFC)",
        "label-hidden": "a label with control or zero-width characters",
        "label-na": "a label that is a placeholder: NA, null, nan, none",
        "label-long": "a label of more than 100 characters: perhaps the wrong column",
        "label-misspelt": "a label that looks like a misspelling of a frequent one",
        "label-single": "a label that only one row has",
        "label-few": "a label that has fewer than 5 rows",
        "label-numbers": "labels that are many different numbers: perhaps a task for regression (score)",
        "label-many": "more than half of the rows have a label of their own: perhaps the wrong column",
        "imbalance": "more than 80% of the rows have the same label",
        "label-is-text": "a row's label is its text",
        "label-in-text": "many texts contain their label, so a model can simply copy it",
        "label-conflict": "the same text with different answers",
        "score-same": "all scores are the same",
        "score-outlier": "a score that is far from all others",
        "shared": "training rows that are also in dev or test",
        "shared-conflict": "a text of dev or test has a different answer in the training rows",
        "query-alone": "a query without a relevant document, which cannot be used to evaluate a ranking",
        "label-untested": "a label of the training rows that does not occur in the test rows",
    },
)
FAULT_KINDS: dict[str, FaultKind] = {kind.name: kind for kind in (*FILES, *VALUES, *READING, *TEXTS, *ANSWERS)}
"""Every kind by its name."""
