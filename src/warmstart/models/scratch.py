"""An encoder from scratch: a tokenizer trained on texts, and random weights of a given size in a folder.

make_encoder(texts, Path("small"), layers=4, width=256, heads=4, vocabulary=8000)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from warmstart.errors import RecipeError, nearest
from warmstart.models.architectures import row_of
from warmstart.models.loading import quietly

Roles = dict[str, str]
_BRACKETS: Roles = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_ANGLES: Roles = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
_END: Roles = {"eos": "<|endoftext|>"}

KINDS: dict[str, tuple[Literal["wordpiece", "bytes"], Roles]] = {
    "albert": ("wordpiece", _BRACKETS),
    "bert": ("wordpiece", _BRACKETS),
    "distilbert": ("wordpiece", _BRACKETS),
    "electra": ("wordpiece", _BRACKETS),
    "gpt2": ("bytes", _END),
    "modernbert": ("bytes", _BRACKETS),
    "roberta": ("bytes", _ANGLES),
}
"""Of each architecture that can be made, the tokenizer it goes with and its special tokens, the first numbers first."""


def make_encoder(
    texts: Iterable[str],
    folder: Path,
    *,
    architecture: str = "bert",
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    vocabulary: int = 8000,
    tokens: int = 512,
    seed: int = 0,
) -> Path:
    """Train a tokenizer and write it with an encoder of random weights, as a pretrained model's folder holds them.

    The same texts and sizes give the same folder.

    Args:
        architecture: A name in `KINDS`.
        vocabulary: The most pieces the tokenizer knows.
        tokens: The longest sequence the encoder takes.
    """
    if architecture not in KINDS:
        raise RecipeError(f"architecture: {architecture!r} cannot be made from scratch; {nearest(architecture, KINDS)}")
    if width % heads:
        raise RecipeError(f"heads: found {heads}, expected a number that divides the width, {width}")
    kind, roles = KINDS[architecture]
    texts = list(texts) if iter(texts) is texts else texts  # they are read twice
    trained = _wordpiece(texts, vocabulary, roles) if kind == "wordpiece" else _bytes(texts, vocabulary, roles)
    tokenizer = _dressed(trained, architecture, roles, tokens)
    config = _config(architecture, tokenizer, layers, width, heads, tokens)
    with torch.random.fork_rng(), quietly():
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(config)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def _wordpiece(texts: Iterable[str], vocabulary: int, roles: Roles) -> Tokenizer:
    """Words cut into pieces, lower case, as BERT has it."""
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    inside: set[str] = set()
    for text in texts:
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)):
            inside.update(word[1:])
    tokenizer = Tokenizer(models.WordPiece(unk_token=roles["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    # Named beforehand: the trainer numbers them by chance, and breaks ties by number.
    first = [*roles.values(), *(f"##{character}" for character in sorted(inside))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=first, show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    found = Tokenizer(models.WordPiece(tokenizer.get_vocab(), unk_token=roles["unk"]))
    found.normalizer, found.pre_tokenizer, found.decoder = normalizer, splitter, decoders.WordPiece()
    return found


def _bytes(texts: Iterable[str], vocabulary: int, roles: Roles) -> Tokenizer:
    """Pairs of bytes joined again and again, as GPT-2 has it: no text is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(roles.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _dressed(trained: Tokenizer, architecture: str, roles: Roles, tokens: int) -> Any:
    """The tokenizer with its special tokens around a text, in the form that transformers opens."""
    names = ["input_ids", "attention_mask"]
    if "cls" in roles:
        cls, sep = roles["cls"], roles["sep"]
        double = f"{sep}:0 " if architecture == "roberta" else ""
        trained.post_processor = processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 {double}$B:1 {sep}:1",
            special_tokens=[(token, trained.token_to_id(token)) for token in (cls, sep)],
        )
        if architecture in {"albert", "bert", "electra"}:
            names.insert(1, "token_type_ids")
    known = {f"{role}_token": token for role, token in roles.items()}
    # mask with the space before it, so that the guess for it begins a word
    if roles.get("mask") == "<mask>":
        known["mask_token"] = transformers.AddedToken("<mask>", lstrip=True, special=True)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, model_max_length=tokens, model_input_names=names, **known
    )


def _config(architecture: str, tokenizer: Any, layers: int, width: int, heads: int, tokens: int) -> Any:
    """The architecture's own config with these sizes."""
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.eos_token_id
    last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    config = transformers.AutoConfig.for_model(
        architecture,
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        pad_token_id=pad,
        bos_token_id=first,
        cls_token_id=first,
        eos_token_id=last,
        sep_token_id=last,
    )
    config.max_position_embeddings = tokens + (pad + 1 if row_of(config).late_positions else 0)
    if hasattr(config, "embedding_size"):
        config.embedding_size = width
    if architecture == "distilbert":
        config.hidden_dim = 4 * width
    return config
