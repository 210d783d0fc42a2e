"""tag: entities of raw text, and of given words with a CRF."""

import re

import torch
import transformers

from contracts.cases import Case
from warmstart.text.alignment import join_words

PEOPLE, PLACES = ("alice", "bob", "alice bob"), ("paris", "london", "tokyo")


def entity(text, name, label):
    start = text.index(name)
    return {"start": start, "end": start + len(name), "label": label}


def row(number):
    """A text in which a person and a place stand, in one order or the other, or neither."""
    person, place = PEOPLE[number % 3], PLACES[(number + 1) % 3]
    text = (f"{person} lives in {place}.", f"in {place}, {person} was good", "this is a good film")[number // 2 % 3]
    names = () if number // 2 % 3 == 2 else ((person, "PER"), (place, "LOC"))
    return {"text": text, "entities": sorted((entity(text, *name) for name in names), key=lambda one: one["start"])}


def with_words(given):
    words = given["text"].replace(".", " .").replace(",", " ,").split()
    text, places = join_words(words)
    names = [(given["text"][one["start"] : one["end"]], one["label"]) for one in given["entities"]]
    words = [{"start": start, "end": end} for start, end in places]
    return {"text": text, "words": words, "entities": [entity(text, *name) for name in names]}


def opened(folder, text):
    """Entities as the tags of each word's first piece say them, by plain transformers."""
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    starts = inputs.pop("offset_mapping")[0][:, 0].tolist()
    ends = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    with torch.no_grad():
        chances = model(**inputs).logits[0].softmax(-1)
    found = []
    for word in re.finditer(r"\w+|[^\w\s]", text):
        piece = next(n for n, start in enumerate(starts) if start == word.start() and ends[n][1] > start)
        prefix, _, label = model.config.id2label[int(chances[piece].argmax())].partition("-")
        score = float(chances[piece].max())
        if prefix == "B":
            found.append({"start": word.start(), "end": word.end(), "label": label, "all": [score]})
        elif prefix == "I" and found and found[-1]["label"] == label and found[-1]["last"] == word.start() - 1:
            found[-1]["end"] = word.end()
            found[-1]["all"].append(score)
        if found and prefix != "O":
            found[-1]["last"] = word.end()
    for one in found:
        scores = one.pop("all")
        one |= {"text": text[one["start"] : one["end"]], "score": sum(scores) / len(scores)}
        del one["last"]
    return {"entities": found}


ROWS = [row(number) for number in range(5)]
LONG = "alice lives in paris. " * 60
CASES = {
    "": Case(ROWS, ["bob lives in tokyo.", "the film was good"], opened, LONG, ["", " ", [], ["a", ""], 3]),
    "crf": Case(
        [with_words(one) for one in ROWS],
        [["bob", "lives", "in", "tokyo", "."], "in tokyo, alice was good"],
        None,
        LONG.split(),
        ["", [""]],
        {"task.crf": True, "task.scheme": "IOBES"},
        dict.fromkeys(
            ("roberta", "distilbert", "albert", "electra", "deberta-v2", "mpnet", "modernbert"),
            "a CRF sees scores alone, so one architecture that pads on either side is enough",
        ),
    ),
}
