"""Spans of characters to pieces and back, over all of two Japanese data sets, for four tokenizers.

    make results-ja [N=texts of each data set]

A span is exact where the pieces that touch it, first to last, stand for its very characters.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertJapaneseTokenizer

from common import SHARED, arguments, finish, write_page
from warmstart.text.alignment import char_span_to_tokens, tokenize_with_offsets, tokens_to_char_span

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDPIECES = 16_000
KNOWN = 0.9995
"""The share of characters in the character vocabulary; the rest are unknown, as in real ones."""
Text = tuple[str, list[tuple[int, int]]]
Way = Literal["text", "character"]


ABOUT = """
Every character span in two Japanese datasets is converted to tokens, from the first to the last that touches it, and
the tokens back to characters, by `warmstart.text.alignment`. An entity or an answer can be learned and predicted
exactly only if that gives the same span. The data: {data}.

The tokenizers are `BertJapaneseTokenizer` with MeCab (unidic-lite) and Sudachi (core, mode A). Their vocabularies are
built from the same texts: the characters that make up {known} of them, the rest being unknown; or up to {wordpieces}
word pieces, trained by the `tokenizers` library on the words that the engine finds. They fit these texts better than
a published vocabulary would, which has longer tokens and unknown ones: the percentages for word pieces hold for these
vocabularies only.
"""
NOTES = """
*Tokenized by character* means that the tokenizer reads every character alone (`tokenize_with_offsets(…,
by="character")`): there are more tokens, and every boundary can be represented, also with a vocabulary of word pieces.
A *boundary inside a token* is a span that begins or ends within a token, because the dataset splits what the engine
takes as one word and the vocabulary as one token; the span that comes back is then a bit longer.
"""


def read_sets(count: int) -> dict[str, list[Text]]:
    """Texts with their spans, of each data set."""
    if os.environ.get("WARMSTART_BENCH_TINY"):
        return {
            "tiny": [
                ("㍿アリスは東京大学にある。", [(0, 4), (5, 7), (5, 9)]),
                ("ボブはパリ市に住む。", [(0, 2), (3, 5)]),
            ]
        }
    ner = json.loads((SHARED / "data/open/ner_wikipedia_ja/ner.json").read_text(encoding="utf-8"))
    found = {"NER of Wikipedia": [(row["text"], [tuple(one["span"]) for one in row["entities"]]) for row in ner]}
    found["JSQuAD"] = list(_squad(SHARED / "data/open/jglue/datasets/jsquad-v1.3"))
    return {name: texts[:count] for name, texts in found.items()}


def _squad(folder: Path):
    for path in sorted(folder.glob("*.json")):
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                text = paragraph["context"]
                answers = [one for question in paragraph["qas"] for one in question["answers"]]
                spans = [(one["answer_start"], one["answer_start"] + len(one["text"])) for one in answers]
                for (start, end), one in zip(spans, answers, strict=True):
                    if text[start:end] != one["text"]:
                        sys.exit(f"{path}: an answer is not where it is said to be: {one}")
                yield text, spans


def build(engine: str, subwords: str, texts: list[str], folder: Path) -> Any:
    """A tokenizer whose vocabulary is made from these very texts."""
    path = folder / f"{engine}-{subwords}.txt"
    path.write_text("\n".join(SPECIAL) + "\n", encoding="utf-8")
    options = {"word_tokenizer_type": engine, "subword_tokenizer_type": subwords}
    finder = BertJapaneseTokenizer(str(path), **options).word_tokenizer
    words = [finder.tokenize(text) for text in texts]
    if subwords == "character":
        counts = Counter(itertools.chain.from_iterable(itertools.chain.from_iterable(words)))
        vocabulary = [*SPECIAL, *_most(counts)]
    else:
        model = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordPieceTrainer(vocab_size=WORDPIECES, special_tokens=SPECIAL, show_progress=False)
        model.train_from_iterator((" ".join(some) for some in words), trainer)
        vocabulary = sorted(model.get_vocab(), key=model.get_vocab().get)
    path.write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    return BertJapaneseTokenizer(str(path), **options)


def _most(counts: Counter[str]) -> list[str]:
    """The most frequent characters that together make up the share that is to be known."""
    seen, total = 0, sum(counts.values())
    out = []
    for character, count in counts.most_common():
        if seen >= KNOWN * total:
            break
        seen += count
        if not character.isspace():
            out.append(character)
    return out


def measure(tokenizer: Any, texts: list[Text], by: Way) -> Counter[str]:
    """How many spans come back exactly, wider because a boundary lies inside a piece, or otherwise."""
    found: Counter[str] = Counter()
    for (_, spans), each in zip(texts, tokenize_with_offsets(tokenizer, [text for text, _ in texts], by), strict=True):
        found["pieces"] += len(each.ids)
        found["unknown"] += each.ids.count(tokenizer.unk_token_id)
        for start, end in spans:
            touched = char_span_to_tokens(each.offsets, start, end)
            back = touched and tokens_to_char_span(each.offsets, *touched)
            wider = back is not None and back[0] <= start and end <= back[1]
            found["exact" if back == (start, end) else "inside a piece" if wider else "other"] += 1
            found["spans"] += 1
    return found


def main() -> None:
    """Measure, and end with a line of JSON."""
    asked = arguments(__doc__ or "", 1_000_000, "texts of each data set")
    sets = read_sets(asked.n)
    texts = [text for some in sets.values() for text, _ in some]
    rows: list[tuple[str, str, str, str, Counter[str]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for engine, subwords in itertools.product(("mecab", "sudachi"), ("character", "wordpiece")):
            tokenizer = build(engine, subwords, texts, Path(folder))
            ways: tuple[Way, ...] = ("text", "character") if subwords == "wordpiece" else ("text",)
            for by, (name, some) in itertools.product(ways, sets.items()):
                rows.append((name, engine, subwords, by, measure(tokenizer, some, by)))
    if asked.write:
        write_page("round-trips", "Japanese spans to pieces and back", "make results-ja", page(sets, rows))
    finish({
        f"{name}, {engine}, {subwords}, by {by}": {"spans": found["spans"], "exact": found["exact"]}
        for name, engine, subwords, by, found in rows
    })  # fmt: skip


def page(sets: dict[str, list[Text]], rows: list[tuple[str, str, str, str, Counter[str]]]) -> str:
    """The results in words and a table."""
    counts = "; ".join(
        f"{name}, {len(texts):,} texts with {sum(len(spans) for _, spans in texts):,} spans"
        for name, texts in sets.items()
    )
    shares: dict[bool, list[float]] = {True: [], False: []}
    for _, _, subwords, by, counted in rows:
        shares["character" in (subwords, by)].append(counted["exact"] / max(counted["spans"], 1))
    lines = [
        f"With characters as tokens, {min(shares[True]):.2%} of the spans come back exactly, and with word pieces "
        f"at least {min(shares[False]):.2%}.\n",
        ABOUT.format(data=counts, known=f"{KNOWN:.2%}", wordpieces=f"{WORDPIECES:,}"),
        "| data | words by | split into | tokenized by | tokens | unknown | exact | boundary inside a token | other |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, engine, subwords, by, found in rows:
        share = found["exact"] / max(found["spans"], 1)
        lines.append(
            f"| {name} | {engine} | {subwords} | {by} | {found['pieces']:,} | {found['unknown']:,} | "
            f"{found['exact']:,} ({share:.2%}) | {found['inside a piece']:,} | {found['other']:,} |"
        )
    return "\n".join([*lines, NOTES])


if __name__ == "__main__":
    main()
