"""What every example starts with: an encoder with a new head, its tokenizer, rows from a CSV; transformers alone."""

import csv
import sys
from dataclasses import dataclass
from typing import Any

from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments


@dataclass
class Start:
    """A model, its tokenizer, tokenized rows and the arguments of a short training."""

    model: Any
    tokenizer: Any
    rows: list[dict[str, Any]]
    texts: list[str]
    labels: list[int]
    arguments: TrainingArguments


def start(**arguments: Any) -> Start:
    """Load the encoder and the CSV (message, topic) of the command line: `python examples/X.py ENCODER CSV`."""
    encoder, path = sys.argv[1:3]
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
        table = list(csv.DictReader(file))
    topics = sorted({row["topic"] for row in table})
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(topics))
    texts, labels = [row["message"] for row in table], [topics.index(row["topic"]) for row in table]
    rows = [{**tokenizer(text), "labels": label} for text, label in zip(texts, labels, strict=True)]
    common = {"output_dir": "runs/example", "report_to": "none", "save_strategy": "no", "max_steps": 6}
    return Start(model, tokenizer, rows, texts, labels, TrainingArguments(**{**common, **arguments}))
