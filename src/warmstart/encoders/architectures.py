"""What cannot be told by looking at a model: one row an architecture, the only place that knows one by name."""

from __future__ import annotations

from dataclasses import dataclass
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


_LATE = Row(late_positions=True)
_T5 = Row(embeddings=("block.0.layer.0.SelfAttention.relative_attention_bias",))

ARCHITECTURES: dict[str, Row] = {
    "albert": Row(shared=True),
    "camembert": _LATE,
    # transformers fills its mask with the least number of 32 bits, which 16 bits cannot hold.
    "deberta": Row(half=False),
    "deberta-v2": Row(embeddings=("LayerNorm",), first_block=("conv",)),
    "gte": Row(head=("pooler",)),
    "longformer": _LATE,
    "mpnet": _LATE,
    "mt5": _T5,
    "nomic_bert": Row(head=("pooler",)),
    "opt": Row(head=("final_layer_norm", "project_out")),
    "roberta": _LATE,
    "roberta-prelayernorm": _LATE,
    "t5": _T5,
    "xlm-roberta": _LATE,
    "xlm-roberta-xl": _LATE,
}
"""The rows, by the `model_type` of the configuration."""


def row_of(config: Any) -> Row:
    """The row of a model's config, or an empty one where its structure tells all."""
    return ARCHITECTURES.get(getattr(config, "model_type", ""), Row())
