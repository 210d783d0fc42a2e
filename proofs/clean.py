"""Real data sets: checking them must find no error, and no label that looks misspelt."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from common import SHARED
from warmstart import tasks
from warmstart.data.findings import Finding
from warmstart.pipeline.check_data import check_data
from warmstart.recipe import make_recipe
from warmstart.runtime.progress import silent

_NUMBERED: dict[str, Any] = {"data.header": False}
FILES: dict[str, dict[str, Any]] = {
    "open/banking77/banking_data/*.csv": {"label": "category"},
    "open/sms_spam/SMSSpamCollection": {**_NUMBERED, "label": "1", "text": "2", "data.format": "tsv"},
    "open/boolq/combined.jsonl.gz": {"text": "question", "pair": "passage", "data.drop": ["unlabelled"]},
    "open/boolq/dev.jsonl.gz": {"text": "question", "pair": "passage", "label": "answer"},
    "open/jsick/*.tsv": {"text": "sentence_A_Ja", "pair": "sentence_B_Ja", "label": "entailment_label_Ja"},
    "open/jglue/datasets/jsts*/*.json": {
        "task": "score",
        "text": "sentence1",
        "pair": "sentence2",
        "data.format": "jsonl",
    },
    "open/jglue/datasets/jnli*/*.json": {"text": "sentence1", "pair": "sentence2", "data.format": "jsonl"},
    "open/jglue/datasets/jsquad*/*.json": {"task": "span"},
    "open/xquad/*.json": {"task": "span"},
    # Some of its answers are off by white space, which is an error in the file.
    "open/covidqa_early/data/*/*.json": {"task": {"name": "span", "misplaced_answers": "nearest"}},
    "open/korsts/KorSTS/*.tsv": {"task": "score", "text": "sentence1", "pair": "sentence2", "label": "score"},
    "open/korsts/KorNLI/*.tsv": {"text": "sentence1", "pair": "sentence2", "label": "gold_label"},
    "open/wnut17/wnut17train.conll": {"task": "tag"},
    "open/wnut17/emerging.dev.conll": {"task": "tag"},
    "open/wnut17/emerging.test.annotated": {"task": "tag", "data.format": "conll"},
    "open/wikiann_en/[dt][er]*": {"task": "tag", "data.format": "conll"},
    "open/ner_wikipedia_ja/ner.json": {"task": "tag"},
    "measure-only/conll2003_en/eng.*": {"task": "tag", "data.format": "conll"},
    "measure-only/rt-polarity/*.tsv": {**_NUMBERED, "label": "1", "text": "2"},
    "measure-only/mlit/*.tsv": {**_NUMBERED, "label": "1", "text": "2"},
    "measure-only/imdb/*.csv.gz": {"text": "review", "label": "sentiment"},
    "measure-only/glue_rte/*.tsv": {"text": "sentence1", "pair": "sentence2"},
    "measure-only/mrpc/*.tsv": {"text": "#1 String", "pair": "#2 String", "label": "Quality"},
    "measure-only/stsb/*.csv": {
        **_NUMBERED,
        "task": "score",
        "text": "6",
        "pair": "7",
        "label": "5",
        "data.format": "tsv",
        "data.extra_columns": "ignore",
    },
}
"""Files beside the checkout, and how each is read."""


def real_findings(cache: Path) -> dict[str, list[Finding]]:
    """The findings in each real file, by its name; none where there are no files beside the checkout."""
    findings: dict[str, list[Finding]] = {}
    for pattern, options in FILES.items():
        for path in sorted((SHARED / "data").glob(pattern)):
            findings[str(path.relative_to(SHARED / "data"))] = findings_of(path, options, cache)
    for name, rows in rewritten().items():
        cache.mkdir(parents=True, exist_ok=True)
        path = cache / "rewritten.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("label", "text"), *rows])
        findings[name] = findings_of(path, {}, cache)
    return findings


def rewritten() -> dict[str, list[tuple[str, str]]]:
    """Labels and texts of the sets whose files have a form of their own, by the file's name."""
    sets: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((SHARED / "data").glob("open/clinc150/data_*.json")):
        parts = json.loads(path.read_text(encoding="utf-8"))
        sets[str(path.relative_to(SHARED / "data"))] = [(label, text) for text, label in parts["train"]]
    for path in sorted((SHARED / "data").glob("measure-only/trec_qc/*.label")):
        lines = path.read_text(encoding="latin-1").splitlines()
        sets[str(path.relative_to(SHARED / "data"))] = [(line.split(" ")[0], line.partition(" ")[2]) for line in lines]
    return sets


def findings_of(path: Path, options: dict[str, Any], cache: Path) -> list[Finding]:
    """Check one file as the command does."""
    columns = {f"data.columns.{name}": options[name] for name in ("text", "pair", "label") if name in options}
    rest = {name: value for name, value in options.items() if name not in ("text", "pair", "label")}
    recipe = make_recipe({"model": "none", "data.train": str(path), **columns, **rest})
    schema = tasks.find(recipe.task.name).schema(tasks.options_of(recipe.task.name, recipe.task.options))
    return list(check_data(recipe, schema, cache, silent).findings)
