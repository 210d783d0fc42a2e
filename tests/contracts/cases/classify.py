"""classify: one label or several, of a text or a pair."""

import torch
import transformers

from contracts.cases import Case
from small import reviews

ROWS = [{"text": text, "label": label} for text, label in reviews(8)]
PAIRS = [
    {"text": text, "pair": f"it was {label}", "label": "yes" if n % 3 else "no"}
    for n, (text, label) in enumerate(reviews(8))
]


def opened(folder, given):
    """Probabilities as plain transformers gives them."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    both = (given,) if isinstance(given, str) else given
    with torch.no_grad():
        logits = model(**tokenizer(*both, return_tensors="pt")).logits[0]
    many = model.config.problem_type == "multi_label_classification"
    chances = (logits.sigmoid() if many else logits.softmax(-1)).tolist()
    return {"probabilities": {model.config.id2label[number]: chance for number, chance in enumerate(chances)}}


CASES = {
    "": Case(ROWS, ["the film 1 was great", "boring"], opened, "a good film " * 400, ["", "  ", ("a", "b"), 3]),
    "pairs": Case(
        PAIRS, [("the film 1 was good", "it was neg")], opened, ("a good film " * 400, "b " * 300), ["a", ("", "b")]
    ),
    "many": Case(
        [{"text": text, "label": [label, "odd"][: 1 + n % 2]} for n, (text, label) in enumerate(reviews(8))],
        ["the film 1 was great"],
        opened,
        "a good film " * 400,
        [""],
        {"task.multi_label": True},
    ),
}
