"""relate: the relation of two entities, marked in the text or given as places."""

import torch
import transformers

import warmstart.models.heads.pooled  # noqa: F401 - makes our own head known to transformers
from contracts.cases import Case
from small import relations


def opened(folder, given):
    """Probabilities as transformers gives them for what the encoder is shown, as a user would write it."""
    for mark in ("e1", "/e1", "e2", "/e2"):
        given = given.replace(f"<{mark}>", f"[{mark.upper()}]")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(given, return_tensors="pt")
    if hasattr(model, "pooling"):
        tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        inputs["marks"] = torch.tensor([[{"[E1]": 1, "[E2]": 2}.get(token, 0) for token in tokens]])
    with torch.no_grad():
        chances = model(**inputs).logits[0].softmax(-1).tolist()
    return {"probabilities": {model.config.id2label[number]: chance for number, chance in enumerate(chances)}}


ASKED = ["<e1>alice</e1> loved <e2>bob</e2> in paris", "not <e2>bob</e2> and <e1> the actor </e1>."]
PLACES = [{"text": "alice and bob", "first": [0, 5], "second": [10, 13]}]
LONG = f"{'very ' * 200}<e2>bob</e2>{' good' * 300} <e1>alice</e1>{' film' * 200}"
REFUSED = ["no marks", "<e1>a</e1>", {"text": "a b", "first": 0, "second": [1, 2]}, ("a", "b"), 3]

CASES = {
    "": Case(relations(9), ASKED, opened, LONG, REFUSED),
    "stock": Case(
        relations(9), ASKED, opened, LONG, REFUSED, {"task.entity_pooling": "cls", "training.max_steps": 150}
    ),
    "spans": Case(
        relations(9), PLACES, None, LONG, REFUSED, {"task.entity_marking": "punctuation", "task.entity_pooling": "mean"}
    ),
}
