"""score: a number for a text."""

import torch
import transformers

from contracts.cases import Case
from small import reviews

ROWS = [{"text": text, "label": 1.0 if label == "pos" else -1.0} for text, label in reviews(8)]


def opened(folder, given):
    """The number as plain transformers gives it."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return {"score": float(model(**tokenizer(given, return_tensors="pt")).logits[0, 0])}


CASES = {"": Case(ROWS, ["the film 1 was great", "boring"], opened, "a good film " * 400, ["", ("a", "b")])}
