"""What cannot be told by looking at a model: one row an architecture, the only place that knows one by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Row:
    """What a model of one architecture does not tell by itself.

    All names of modules but `blocks` are relative to the module that holds the list of blocks.
    """

    blocks: str = ""
    """The list of blocks, by its name in the encoder, where several lists look like it."""
    embeddings: tuple[str, ...] = ()
    """Modules that feed all blocks, though registered inside or after them."""
    head: tuple[str, ...] = ()
    """Modules that follow the last block, though registered before the first."""
    first_block: tuple[str, ...] = ()
    """Modules beside the blocks that work on what the first block puts out."""
    shared: bool = False
    """The blocks take turns, each run several times in a row, until `num_hidden_layers` have been run."""
    late_positions: bool = False
    """Positions are counted from the padding id on, so that many fewer than the config says can be used."""
    half: bool = True
    """It runs in bf16 and fp16; without, `precision: auto` takes fp32."""
    reads: Mapping[str, Mapping[str, str]] | None = None
    """Tokens that the stock sequence head can read, and what the config says where it does; None where not known."""
    encoder: str = ""
    """The class of the encoder, where the one of `AutoModel` has a decoder too, as has its stock sequence head."""
    last_width: str = ""
    """The config's name for the width of the last hidden state, where it can differ from the others'."""
    pair: tuple[str, ...] = ()
    """What its stock model for pretraining has beyond the one with a head for masked tokens alone: a head that says
    whether two stretches of text belong together, and the pooler which that reads."""
    global_first: bool = False
    """Its first token looks at all tokens, and all at it, only where it is told to."""


CLS: Mapping[str, Mapping[str, str]] = {"cls": {}}
LAST: Mapping[str, Mapping[str, str]] = {"last": {}}
_CLS = Row(reads=CLS)
_LATE = Row(late_positions=True, reads=CLS)
_T5 = Row(embeddings=("block.0.layer.0.SelfAttention.relative_attention_bias",), reads={})

ARCHITECTURES: dict[str, Row] = {
    "albert": Row(shared=True, reads=CLS, pair=("albert.pooler", "sop_classifier")),
    "bert": Row(reads=CLS, pair=("bert.pooler", "cls.seq_relationship")),
    "big_bird": Row(reads=CLS, pair=("bert.pooler", "cls.seq_relationship")),
    "camembert": _LATE,
    # transformers fills its mask with the least number of 32 bits, which 16 bits cannot hold.
    "deberta": Row(half=False, reads=CLS),
    "deberta-v2": Row(embeddings=("LayerNorm",), first_block=("conv",), reads=CLS),
    "distilbert": _CLS,
    "electra": _CLS,
    # What it reads by default, `late`, is a mean of every token's logits, which no choice of tokens names.
    "eurobert": Row(reads={"cls": {"classifier_pooling": "bos"}, "mean": {"classifier_pooling": "mean"}}),
    "gpt2": Row(reads=LAST),
    "gte": Row(head=("pooler",), reads=CLS),
    "llama": Row(reads=LAST),
    "longformer": replace(_LATE, global_first=True),
    "modernbert": Row(reads={"cls": {"classifier_pooling": "cls"}, "mean": {"classifier_pooling": "mean"}}),
    "mpnet": _LATE,
    "mt5": replace(_T5, encoder="MT5EncoderModel"),
    "nomic_bert": Row(head=("pooler",), reads=CLS),
    "opt": Row(head=("final_layer_norm", "project_out"), reads=LAST, last_width="word_embed_proj_dim"),
    "roberta": _LATE,
    "roberta-prelayernorm": _LATE,
    "t5": replace(_T5, encoder="T5EncoderModel"),
    "xlm-roberta": _LATE,
    "xlm-roberta-xl": _LATE,
    "xlnet": Row(reads={"last": {"summary_type": "last"}}),
}
"""The rows, by the `model_type` of the configuration."""

POOLED = "warmstart-pooled"
"""The `model_type` of our own model, an encoder under a pooled head: see `pooled.py`."""


def is_pooled(config: Any) -> bool:
    """Whether a config is that of our own model."""
    return getattr(config, "model_type", "") == POOLED


def encoder_config(config: Any) -> Any:
    """The config of the encoder proper: of our own model the one inside, of any other its own."""
    return config.encoder if is_pooled(config) else config


def row_of(config: Any) -> Row:
    """The row of a model's config, or an empty one where its structure tells all."""
    return ARCHITECTURES.get(getattr(encoder_config(config), "model_type", ""), Row())
