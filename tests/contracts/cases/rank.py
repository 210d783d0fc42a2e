"""rank: documents by how well they answer a query, with a bi-encoder and a cross-encoder."""

from functools import cache

from contracts.cases import Case

WORDS = ["film", "book", "food", "paris", "london", "tokyo", "alice", "bob"]
PAIRS = [{"query": f"the {word}", "document": f"{word} {word}"} for word in WORDS]
LABELLED = [
    {"query": f"where is {word}", "document": f"the {word} is {kind}", "label": int(kind == "good")}
    for word in WORDS[:4]
    for kind in ("good", "bad")
]
ASKED = [("where is the film", "it is very film"), {"query": "who is alice", "document": "a book"}]
LONG = ("where is the film " * 300, "it is the book " * 300)
REFUSED = ["where is it", ("", "a book"), ("a film", " "), ("a", "b", "c"), 3, {"query": "a film"}]


def _both(given):
    return (given["query"], given["document"]) if isinstance(given, dict) else given


@cache
def _opened(kind, folder):
    import sentence_transformers

    return getattr(sentence_transformers, kind)(str(folder))


def vectors(folder, given):
    """The cosine of two vectors as sentence-transformers gives them."""
    one, two = _opened("SentenceTransformer", folder).encode(_both(given))
    return {"score": float(one @ two)}


def together(folder, given):
    """The score as sentence-transformers gives it."""
    return {"score": float(_opened("CrossEncoder", folder).predict([_both(given)])[0])}


CASES = {
    "": Case(PAIRS, ASKED, vectors, LONG, REFUSED, {"task.rows": "pairs", "training.max_steps": 120}),
    "cross": Case(LABELLED, ASKED, together, LONG, REFUSED, {"task.encoder": "cross"}),
}
