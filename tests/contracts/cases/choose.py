"""choose: one of several endings, as many as a row has."""

import torch
import transformers

from contracts.cases import Case
from small import riddles


def opened(folder, given):
    """Probabilities as plain transformers gives them."""
    model = transformers.AutoModelForMultipleChoice.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text, endings = given
    inputs = tokenizer([text] * len(endings), endings, padding=True, return_tensors="pt")
    with torch.no_grad():
        [logits] = model(**{name: tensor[None] for name, tensor in inputs.items()}).logits
    return {"probabilities": logits.softmax(-1).tolist(), "label": int(logits.argmax())}


ASKED = [("the film 1", ["it was good", "it was bad"]), ("the plot", ["a", "a great plot", "boring", "d"])]
LONG = ("a good film " * 400, ["it was " * 200, "bad", "the very long ending of a book " * 30])
REFUSED = ["a", ("a", "b"), ("a", ["b"]), ("a", ["b", " "]), {"text": "a"}, 3]

CASES = {"": Case(riddles(8), ASKED, opened, LONG, REFUSED)}
