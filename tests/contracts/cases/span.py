"""span: the stretch of a context that answers a question, where there is one."""

import torch
import transformers

from contracts.cases import Case

CONTEXTS = (
    "alice was in the film and it was not good",
    "the story was that bob hated the food in london",
    "it is a very boring book, and the actor was great",
    "alice lives in paris, and bob lives in tokyo",
)
ASKED = (("who", "alice"), ("where", "london"), ("who", "the actor"), ("where", "tokyo"))
ROWS = [
    {"question": question, "context": context, "answers": [{"text": text, "start": context.index(text)}]}
    for context, (question, text) in zip(CONTEXTS, ASKED, strict=True)
]
ROWS += [{"question": "when", "context": context, "answers": []} for context in CONTEXTS[:2]]
LONG = "alice lives in paris and " + " ".join(f"film {number} was good" for number in range(150))


def opened(folder, given):
    """The best answer as plain transformers' scores give it, tried for all pairs of a start and an end."""
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    question, context = given.values() if isinstance(given, dict) else given
    inputs = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    places = inputs.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        found = model(**inputs)
    start, end = found.start_logits[0], found.end_logits[0]
    inside = [number for number, text in enumerate(inputs.sequence_ids()) if text == 1]
    pairs = [(a, b) for a in inside for b in inside if a <= b < a + 30]
    a, b = max(pairs, key=lambda pair: float(start[pair[0]] + end[pair[1]]))
    none = inputs["input_ids"][0].tolist().index(tokenizer.cls_token_id)
    doubt = float(start[none] + end[none] - start[a] - end[b])
    if doubt > 0:
        return {"no_answer_score": doubt, "answer": "", "start": None, "end": None}
    place = (places[a][0], places[b][1])
    return {"no_answer_score": doubt, "answer": context[slice(*place)], "start": place[0], "end": place[1]}


CASES = {
    "": Case(
        ROWS,
        [("who", CONTEXTS[1]), {"question": "where", "context": CONTEXTS[3]}, ("when", "it was")],
        opened,
        ("who", LONG),
        ["who", ("who", ""), (" ", "alice"), ("a", "b", "c"), {"question": "who"}, 3],
        {"training.max_steps": 100},
    )
}
