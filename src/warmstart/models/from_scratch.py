"""An encoder from scratch: a tokenizer trained on texts, and random weights of a given size, in a folder.

make_encoder(texts, Path("small"), EncoderShape(num_layers=4, hidden_size=256, num_heads=4, vocab_size=8000))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from warmstart.errors import RecipeError, nearest
from warmstart.models.architectures import AWD_LSTM, spec_of
from warmstart.models.loading import quiet_transformers
from warmstart.models.recurrent.config import AwdLstmConfig
from warmstart.models.recurrent.tokenizers import train_unigram, train_words

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

SpecialTokens = dict[str, str]
_BRACKETS: SpecialTokens = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_ANGLES: SpecialTokens = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
_END: SpecialTokens = {"eos": "<|endoftext|>"}
_STREAM: SpecialTokens = {"pad": "<pad>", "unk": "<unk>", "bos": "<bos>", "sep": "<sep>"}

TOKENIZERS: dict[str, tuple[Literal["wordpiece", "bpe", "words"], SpecialTokens]] = {
    "albert": ("wordpiece", _BRACKETS),
    AWD_LSTM: ("words", _STREAM),
    "bert": ("wordpiece", _BRACKETS),
    "distilbert": ("wordpiece", _BRACKETS),
    "electra": ("wordpiece", _BRACKETS),
    "gpt2": ("bpe", _END),
    "modernbert": ("bpe", _BRACKETS),
    "roberta": ("bpe", _ANGLES),
}
"""For each architecture that can be made, its kind of tokenizer and its special tokens, which have the first ids."""
CAUSAL_IF_ASKED = ("bert", "electra", "roberta")
"""Those that can be made so that a token only attends to the tokens before it."""


@dataclass(frozen=True)
class EncoderShape:
    """The architecture and size of an encoder."""

    architecture: str = "bert"
    """A name in `TOKENIZERS`."""
    num_layers: int = 4
    hidden_size: int = 256
    num_heads: int = 4
    vocab_size: int = 8000
    """The maximum vocabulary size of the tokenizer."""
    max_tokens: int = 512
    """The maximum input length, in tokens."""
    causal: bool = False
    """Whether a token only attends to itself and those before it; of an architecture in `CAUSAL_IF_ASKED`."""
    tokenizer: Literal["auto", "words", "unigram"] = "auto"
    """Of an AWD-LSTM: whole `words`, which `auto` is, or subwords of a `unigram` model."""
    case_marks: bool = False
    """Of words: whether capitals are marked, as words are in lower case."""
    embedding_size: int = 400
    """Of an AWD-LSTM, as in its config."""
    direction: str = "forward"
    """As above."""
    dropout: float = 1.0
    """What all dropouts of an AWD-LSTM are multiplied by."""


def make_encoder(texts: Iterable[str], folder: Path, shape: EncoderShape = EncoderShape(), seed: int = 0) -> Path:  # noqa: B008
    """Train a tokenizer and save it with a randomly initialized encoder, as in the folder of a pretrained model.

    The same texts and shape give the same folder.
    """
    if shape.architecture not in TOKENIZERS:
        hint = nearest(shape.architecture, TOKENIZERS)
        raise RecipeError(f"architecture: {shape.architecture!r} cannot be made from scratch; {hint}")
    if shape.architecture != AWD_LSTM and shape.hidden_size % shape.num_heads:
        raise RecipeError(
            f"num_heads: found {shape.num_heads}, expected a number that divides the hidden size, {shape.hidden_size}"
        )
    if shape.causal and shape.architecture not in CAUSAL_IF_ASKED:
        raise RecipeError(
            f"causal: found true, but {shape.architecture} cannot be made so; expected {', '.join(CAUSAL_IF_ASKED)}"
        )
    texts = list(texts) if iter(texts) is texts else texts  # they are read several times
    tokenizer = _pretrained_tokenizer(_train(texts, shape), shape, TOKENIZERS[shape.architecture][1])
    config = _config(shape, tokenizer)
    with torch.random.fork_rng(), quiet_transformers():
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(config)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def _train(texts: Iterable[str], shape: EncoderShape) -> Tokenizer:
    """A tokenizer of the architecture's kind."""
    kind, special = TOKENIZERS[shape.architecture]
    if kind == "wordpiece":
        return _train_wordpiece(texts, shape.vocab_size, special)
    if kind == "bpe":
        return _train_bpe(texts, shape.vocab_size, special)
    if shape.tokenizer == "unigram":
        return train_unigram(texts, shape.vocab_size, special)
    return train_words(texts, shape.vocab_size, special, shape.case_marks)


def _train_wordpiece(texts: Iterable[str], vocab_size: int, special: SpecialTokens) -> Tokenizer:
    """A WordPiece tokenizer, lower case, as BERT has it, but with accents: without, が would be か, and й be и."""
    lower = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    # Composed first, so that a letter with an accent is one character however it was typed.
    normalizer, splitter = normalizers.Sequence([normalizers.NFC(), lower]), pre_tokenizers.BertPreTokenizer()
    inside: set[str] = set()
    for text in texts:
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)):
            inside.update(word[1:])
    tokenizer = Tokenizer(models.WordPiece(unk_token=special["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    # Given in advance: the trainer numbers them in random order, and breaks ties by number.
    first = [*special.values(), *(f"##{character}" for character in sorted(inside))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=first, show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    trained = Tokenizer(models.WordPiece(tokenizer.get_vocab(), unk_token=special["unk"]))
    trained.normalizer, trained.pre_tokenizer, trained.decoder = normalizer, splitter, decoders.WordPiece()
    return trained


def _train_bpe(texts: Iterable[str], vocab_size: int, special: SpecialTokens) -> Tokenizer:
    """A byte-level BPE tokenizer, as GPT-2 has it: no text is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _pretrained_tokenizer(trained: Tokenizer, shape: EncoderShape, special: SpecialTokens) -> PreTrainedTokenizerBase:
    """The tokenizer with its special tokens around a text, in the form that transformers loads."""
    names = ["input_ids", "attention_mask"]
    if "cls" in special:
        cls, sep = special["cls"], special["sep"]
        double = f"{sep}:0 " if shape.architecture == "roberta" else ""
        trained.post_processor = processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 {double}$B:1 {sep}:1",
            special_tokens=[(token, trained.token_to_id(token)) for token in (cls, sep)],
        )
        if shape.architecture in {"albert", "bert", "electra"}:
            names.insert(1, "token_type_ids")
    if "bos" in special:
        bos, sep = special["bos"], special["sep"]
        trained.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A",
            pair=f"{bos} $A {sep} $B",
            special_tokens=[(token, trained.token_to_id(token)) for token in (bos, sep)],
        )
    tokens = {f"{role}_token": token for role, token in special.items()}
    # masked with the space before it, so that the prediction for it starts a word
    if special.get("mask") == "<mask>":
        tokens["mask_token"] = transformers.AddedToken("<mask>", lstrip=True, special=True)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, model_max_length=shape.max_tokens, model_input_names=names, **tokens
    )


def _config(shape: EncoderShape, tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
    """The architecture's own config with these sizes."""
    if shape.architecture == AWD_LSTM:
        return AwdLstmConfig(
            vocab_size=len(tokenizer),
            embedding_size=shape.embedding_size,
            hidden_size=shape.hidden_size,
            num_hidden_layers=shape.num_layers,
            direction=shape.direction,
            dropout_multiplier=shape.dropout,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
        )
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.eos_token_id
    last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    config = transformers.AutoConfig.for_model(
        shape.architecture,
        vocab_size=len(tokenizer),
        num_hidden_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        num_attention_heads=shape.num_heads,
        intermediate_size=4 * shape.hidden_size,
        pad_token_id=pad,
        bos_token_id=first,
        cls_token_id=first,
        eos_token_id=last,
        sep_token_id=last,
    )
    config.max_position_embeddings = shape.max_tokens + (pad + 1 if spec_of(config).offset_positions else 0)
    if hasattr(config, "embedding_size"):
        config.embedding_size = shape.hidden_size
    if shape.causal:
        config.is_decoder, config.use_cache = True, False  # what is cached for generating has no use in training
    if shape.architecture == "distilbert":
        config.hidden_dim = 4 * shape.hidden_size
    return config
