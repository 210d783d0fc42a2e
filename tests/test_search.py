"""A search on the site gives the right page first, for the words that people arrive with.

The index is the one that the built site loads in the browser. It is searched as mkdocs-material searches it: by lunr,
without length normalization, with every word as a prefix, and pages before sections. `lunr` is lunr.js in Python.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lunr.builder import Builder
from lunr.query import Query
from lunr.query_parser import QueryParser
from lunr.stop_word_filter import stop_word_filter

from built_site import built_site

ROOT = Path(__file__).parent.parent
SEARCHES = {
    "learning rate": "learning-rate-schedules",
    "layer-wise learning rate decay": "layer-wise-learning-rates",
    "discriminative fine-tuning": "layer-wise-learning-rates",
    "gradual unfreezing": "gradual-unfreezing",
    "slanted triangular": "learning-rate-schedules",
    "warm-up": "learning-rate-schedules",
    "early stopping": "early-stopping",
    "label smoothing": "regularization",
    "class weights": "imbalanced-data",
    "imbalanced": "imbalanced-data",
    "multi-label": "multi-label",
    "NER": "ner",
    "token classification": "ner",
    "question answering": "question-answering",
    "semantic search": "semantic-search",
    "reranker": "semantic-search",
    "sentence pair": "sentence-pairs",
    "regression": "regression",
    "hyperparameter": "hyperparameter-search",
    "cross-validation": "scikit-learn",
    "confusion matrix": "error-analysis",
    "calibration": "calibration",
    "threshold": "calibration",
    "truncation": "long-documents",
    "long documents": "long-documents",
    "re-initialize": "small-data",
    "LoRA": "lora",
    "ONNX": "export",
    "int8 quantization": "export",
    "resume": "stop-and-resume",
}
"""What is typed into the search box, and the how-to guide that must come first."""


class SiteSearch:
    """The search of a site built by mkdocs-material, from its `search_index.json`."""

    def __init__(self, content: dict) -> None:
        assert content["config"]["lang"] == ["en"], "another language has another stemmer"
        assert content["config"]["separator"] == r"[\s\-]+", "lunr splits words at other signs"
        assert content["config"]["pipeline"] == ["stopWordFilter"], "there is neither a stemmer nor a trimmer"
        self.fields = list(content["config"]["fields"])
        builder = Builder()
        builder.b(0)
        builder.ref("location")
        builder.pipeline.add(stop_word_filter)
        builder.search_pipeline.add(stop_word_filter)
        for name, field in content["config"]["fields"].items():
            builder.field(name, field["boost"])
        for document in content["docs"]:
            # Tags are split like any other text there, and markup separates words.
            texts = {name: document.get(name, "") for name in self.fields}
            texts = {name: " ".join(text) if isinstance(text, list) else text for name, text in texts.items()}
            texts = {name: re.sub(r"<[^>]*>", " ", text) for name, text in texts.items()}
            builder.add({"location": document["location"]} | texts, {"boost": document.get("boost", 1)})
        self.index = builder.build()

    def pages(self, text: str) -> list[str]:
        """The pages found for a text, the best first."""
        scores: dict[str, float] = {}
        words = " ".join(f"{word}*" for word in text.split())
        for result in self.index.search(words):
            page, _, section = result["ref"].partition("#")
            matched = list(self._matched(words, result["match_data"].metadata))
            boost = (not section) + sum(matched) / len(matched)
            scores[page] = max(scores.get(page, 0), result["score"] * (1 + boost**2))
        return sorted(scores, key=scores.__getitem__, reverse=True)

    def _matched(self, words: str, terms: dict) -> Iterator[bool]:
        """For each word of a search, whether a result has it."""
        query = Query(self.fields)
        QueryParser(words, query).parse()
        for clause in query.clauses:
            yield any(term.startswith(clause.term.rstrip("*")) for term in terms)


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """The search of the site as it is now; a build that is newer than all it is made from is used again."""
    index = built_site(tmp_path_factory.mktemp("site")) / "search" / "search_index.json"
    return SiteSearch(json.loads(index.read_text(encoding="utf-8")))


def test_a_search_gives_the_right_page_first(search):
    first = {text: (search.pages(text) or ["nothing"])[0] for text in SEARCHES}
    assert first == {text: f"howto/{page}/" for text, page in SEARCHES.items()}


def test_a_page_is_found_by_its_title(search):
    pages = sorted((ROOT / "docs" / "howto").glob("*.md"))
    titles = {page.stem: re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.M)[1] for page in pages}
    assert {name: search.pages(re.sub(r"[:,]", "", title))[0] for name, title in titles.items()} == {
        name: f"howto/{name}/" for name in titles
    }
