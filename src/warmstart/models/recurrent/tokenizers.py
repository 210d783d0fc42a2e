"""Tokenizers for a language model from scratch: whole words, or subwords of a unigram model, as in SentencePiece."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROUNDS = 3
"""How often the scores of subwords are computed from how often they are used."""
BATCH = 1000
"""Texts that are cut into subwords at a time."""
UPPER, CAPITAL = "xxup", "xxmaj"
"""Words put before a word that is all in capitals, or begins with one, where words are in lower case."""
MARKS = (
    (r"\s(?=\p{Lu}{2,}(?![\p{L}\p{N}]))", f" {UPPER} "),
    (r"\s(?=\p{Lu}\p{Ll})", f" {CAPITAL} "),
)
"""The space before a word, and what takes its place; a word after a bracket or a quotation mark has no mark."""


def train_words(texts: Iterable[str], vocab_size: int, special: dict[str, str], case_marks: bool = False) -> Tokenizer:
    """A vocabulary of whole words in lower case, and of punctuation, those seen twice or more.

    Args:
        vocab_size: The maximum size; the most frequent words are kept.
        case_marks: Whether capitals are marked by a word of their own before each.
    """
    tokenizer = Tokenizer(models.WordLevel(unk_token=special["unk"]))
    replaced = [normalizers.Replace(Regex(place), mark) for place, mark in MARKS]
    marks = [normalizers.Prepend(" "), *replaced] if case_marks else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *marks, normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=2, special_tokens=list(special.values()), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def train_unigram(texts: Iterable[str], vocab_size: int, special: dict[str, str]) -> Tokenizer:
    """A unigram model of subwords (Kudo 2018), with `▁` for spaces, for any language; the case stays."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special.values()),
        unk_token=special["unk"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # The trainer sums in random order, so the last digits of its scores differ from one process to the next. From its
    # pieces they are computed again, by counting: first in the fewest pieces that make up each text.
    pieces = [*special.values(), *sorted(tokenizer.get_vocab().keys() - set(special.values()))]
    unknown = pieces.index(special["unk"])
    scores = dict.fromkeys(pieces, 0.0)
    for _ in range(ROUNDS):
        tokenizer.model = models.Unigram([(piece, scores[piece] - 1.0) for piece in pieces], unk_id=unknown)
        scores = _log_frequencies(tokenizer, texts, pieces)
    tokenizer.model = models.Unigram([(piece, scores[piece]) for piece in pieces], unk_id=unknown)
    return tokenizer


def _log_frequencies(tokenizer: Tokenizer, texts: Iterable[str], pieces: list[str]) -> dict[str, float]:
    """The logarithm of the share that each piece has of all, with one more of each."""
    counts = Counter(pieces)
    pending = iter(texts)
    while batch := list(itertools.islice(pending, BATCH)):
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            counts.update(encoding.tokens)
    total = sum(counts[piece] for piece in pieces)
    return {piece: math.log(counts[piece] / total) for piece in pieces}
