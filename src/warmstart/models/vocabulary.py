"""A vocabulary without the tokens that some texts do not use: the tokenizer rewritten, and fewer embeddings.

What is left reads those texts as before: WordPiece takes the longest token at each place, which is still there; Unigram
the likeliest path, which still is; BPE the same merges in the same order, since all that lead to a token that is left
are left as well. Single characters are left, so that other texts are read in smaller pieces, not as unknown tokens.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import encoder_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

CONTINUES = "##"
"""What begins a token of WordPiece that is not the first of its word; the tokenizer may name another."""
CONFIG_IDS = ("pad", "bos", "eos", "cls", "sep", "mask", "unk", "decoder_start")
"""Tokens whose ids a config may hold, under such a name and `_token_id`."""


@dataclass(frozen=True)
class TrimmedVocabulary:
    """A tokenizer with fewer tokens.

    Attributes:
        kept: The id that each token had before, by its id now.
    """

    tokenizer: PreTrainedTokenizerBase
    kept: tuple[int, ...]

    @property
    def new_ids(self) -> dict[int, int]:
        """The id of each token that is left, by the one it had before."""
        return {old: new for new, old in enumerate(self.kept)}


def trim_vocabulary(tokenizer: PreTrainedTokenizerBase, used: Iterable[int]) -> TrimmedVocabulary:
    """The tokenizer with the tokens that are used, the special ones, and all single characters.

    Raises:
        ModelError: Names what keeps the vocabulary from being trimmed.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not tokenizer.is_fast or not isinstance(backend, Tokenizer):
        raise ModelError(f"{type(tokenizer).__name__} is written in Python, and only `tokenizers` can be rewritten")
    saved: dict[str, Any] = json.loads(backend.to_str())
    model = saved["model"]
    if model["type"] not in _TRIMMED:
        raise ModelError(f"its tokenizer is of the type {model['type']}; expected {', '.join(_TRIMMED)}")
    keep = {int(token) for token in used} | {token["id"] for token in saved["added_tokens"]}
    keep |= set(tokenizer.all_special_ids)
    keep = _TRIMMED[model["type"]](model, keep)
    kept = tuple(sorted(keep))
    new_ids = {old: new for new, old in enumerate(kept)}
    if tokenizer.pad_token_id is not None and new_ids[tokenizer.pad_token_id] != tokenizer.pad_token_id:
        raise ModelError("its padding token would get another id, from which some encoders count positions")
    _rewrite(saved, new_ids)
    smaller = copy.deepcopy(tokenizer)
    smaller._tokenizer = Tokenizer.from_str(json.dumps(saved))
    return TrimmedVocabulary(smaller, kept)


def trim_embeddings(model: PreTrainedModel, vocabulary: TrimmedVocabulary) -> None:
    """Leave the embeddings of the tokens that are left, in place, and correct the ids in the config."""
    embeddings = model.get_input_embeddings()
    if not isinstance(embeddings, nn.Embedding):
        raise ModelError(f"its embeddings are {type(embeddings).__name__}; expected one vector for each token")
    if vocabulary.kept[-1] >= embeddings.num_embeddings:
        raise ModelError(f"its tokenizer has more tokens than the {embeddings.num_embeddings:,} embeddings")
    new_ids = vocabulary.new_ids
    padding = embeddings.padding_idx
    smaller = nn.Embedding(
        len(vocabulary.kept), embeddings.embedding_dim, None if padding is None else new_ids.get(padding)
    )
    with torch.no_grad():
        smaller.weight.copy_(embeddings.weight[torch.tensor(vocabulary.kept)])
    model.set_input_embeddings(smaller)
    encoder_config(model.config).vocab_size = len(vocabulary.kept)
    ids: list[tuple[PretrainedConfig, str, int | None]] = []
    for config in (model.config, encoder_config(model.config)):
        for name in CONFIG_IDS:
            old = getattr(config, f"{name}_token_id", None)
            if isinstance(old, int):
                ids.append((config, f"{name}_token_id", new_ids.get(old)))
    for config, name, new in ids:  # all are read before one is changed: the two may be the same config
        setattr(config, name, new)


def _wordpiece(model: dict[str, Any], keep: set[int]) -> set[int]:
    prefix = model.get("continuing_subword_prefix") or CONTINUES
    keep = keep | {number for token, number in model["vocab"].items() if len(token.removeprefix(prefix)) == 1}
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number in keep}
    return keep


def _unigram(model: dict[str, Any], keep: set[int]) -> set[int]:
    pieces = model["vocab"]
    # The penalty of an unknown character depends on the least likely token.
    least = min(range(len(pieces)), key=lambda number: pieces[number][1])
    keep = keep | {least} | {number for number, (token, _) in enumerate(pieces) if len(token.removeprefix("▁")) <= 1}
    keep |= {number for number, (token, _) in enumerate(pieces) if token.startswith("<0x")}
    if model.get("unk_id") is not None:
        keep.add(model["unk_id"])
    model["vocab"] = [piece for number, piece in enumerate(pieces) if number in keep]
    return keep


def _bpe(model: dict[str, Any], keep: set[int]) -> set[int]:
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise ModelError("its BPE tokenizer marks the inside or the end of words; expected one that does not")
    vocab: Mapping[str, int] = model["vocab"]
    merges = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    parts: dict[str, list[tuple[str, ...]]] = {}
    for merge in merges:
        parts.setdefault("".join(merge), []).append(merge)
    names = {number: token for token, number in vocab.items()}
    keep = keep | {number for token, number in vocab.items() if len(token) == 1 or token.startswith("<0x")}
    todo = [names[number] for number in keep if number in names]
    while todo:
        for merge in parts.get(todo.pop(), ()):
            new = [token for token in merge if vocab[token] not in keep]
            keep |= {vocab[token] for token in new}
            todo += new
    model["merges"] = [
        list(merge) for merge in merges if all(vocab[token] in keep for token in (*merge, "".join(merge)))
    ]
    model["vocab"] = {token: number for token, number in vocab.items() if number in keep}
    return keep


_TRIMMED = {"WordPiece": _wordpiece, "Unigram": _unigram, "BPE": _bpe}
"""What trims a model of each type, in place, and gives all ids that are left."""


def _rewrite(saved: dict[str, Any], new_ids: Mapping[int, int]) -> None:
    """Put new ids wherever the tokenizer's JSON holds old ones."""
    model = saved["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {token: new_ids[number] for token, number in model["vocab"].items()}
    if model.get("unk_id") is not None:
        model["unk_id"] = new_ids[model["unk_id"]]
    for token in saved["added_tokens"]:
        token["id"] = new_ids[token["id"]]
    if saved.get("padding"):
        saved["padding"]["pad_id"] = new_ids[saved["padding"]["pad_id"]]
    if saved.get("post_processor"):
        _rewrite_processor(saved["post_processor"], new_ids)


def _rewrite_processor(processor: dict[str, Any], new_ids: Mapping[int, int]) -> None:
    for inner in processor.get("processors", ()):
        _rewrite_processor(inner, new_ids)
    special = processor.get("special_tokens", {})
    for token in special.values() if isinstance(special, dict) else ():
        token["ids"] = [new_ids[number] for number in token["ids"]]
    for name in ("sep", "cls"):
        if isinstance(processor.get(name), list):
            token, number = processor[name]
            processor[name] = [token, new_ids[number]]
