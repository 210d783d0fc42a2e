"""masked: tokens of raw text, and the order of its sentences."""

import torch
import transformers

from contracts.cases import Case

ROWS = [{"text": text} for text in ("good " * 8, "bad " * 8, "film " * 7, "paris " * 9)]
# Blank lines part sentences, too, and no full stop has to be guessed among words that are all alike.
SENTENCES = [{"text": f"{word * 7}\n\n{word * 6}\n\n{word * 8}"} for word in ("film ", "good ")]
ASKED = ["the [MASK] film was [MASK].", "good good [MASK] good"]
LONG = "the good [MASK] film " * 60
REFUSED = ["", " ", 3, ("a", "b")]
XLNET = {"xlnet": "transformers has no head for masked tokens on it"}


def opened(folder, text):
    """The five best tokens for each mask, by plain transformers."""
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        chances = model(**inputs).logits[0][inputs["input_ids"][0] == tokenizer.mask_token_id].softmax(-1)
    best = chances.topk(5)
    return {
        "fills": [
            [{"token": tokenizer.decode([token]), "score": score} for token, score in zip(*both, strict=True)]
            for both in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
    }


ELSEWHERE = ("distilbert", "electra", "deberta-v2", "mpnet", "modernbert")
CASES = {
    "": Case(ROWS, ASKED, opened, LONG, REFUSED, {"task.mlm_probability": 0.3}, XLNET),
    "sop": Case(
        SENTENCES,
        ASKED,
        opened,
        LONG,
        REFUSED,
        {"task.objective": "mlm+sop", "task.mlm_probability": 0.3, "task.masking": "whole-word"},
        XLNET | dict.fromkeys(ELSEWHERE, "two stock heads for pairs and one of our own are enough"),
    ),
}
