"""The names of BERT's weights in Google's checkpoints, and those that transformers has for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

ENCODER = (
    ("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
    ("bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"),
    ("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
    ("bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm"),
    (r"bert/encoder/layer_(\d{1,4})/attention/self/(query|key|value)", r"bert.encoder.layer.\1.attention.self.\2"),
    (r"bert/encoder/layer_(\d{1,4})/attention/output/dense", r"bert.encoder.layer.\1.attention.output.dense"),
    (r"bert/encoder/layer_(\d{1,4})/attention/output/LayerNorm", r"bert.encoder.layer.\1.attention.output.LayerNorm"),
    (r"bert/encoder/layer_(\d{1,4})/intermediate/dense", r"bert.encoder.layer.\1.intermediate.dense"),
    (r"bert/encoder/layer_(\d{1,4})/output/dense", r"bert.encoder.layer.\1.output.dense"),
    (r"bert/encoder/layer_(\d{1,4})/output/LayerNorm", r"bert.encoder.layer.\1.output.LayerNorm"),
    ("bert/pooler/dense", "bert.pooler.dense"),
)
HEADS = (
    ("cls/predictions/transform/dense", "cls.predictions.transform.dense"),
    ("cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm"),
    ("cls/predictions/output_bias", "cls.predictions.bias"),
    ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
    ("cls/seq_relationship/output_bias", "cls.seq_relationship.bias"),
)
ENDINGS = {"": "", "/kernel": ".weight", "/bias": ".bias", "/gamma": ".weight", "/beta": ".bias"}
"""What a module's parameters are called in one library, and in the other."""
OPTIMIZER = re.compile(
    r".*/(adam_m|adam_v|Adam|Adam_1|LAMB|LAMB_1|lamb_m|lamb_v)|global_step(/.*)?|save_counter.*|_CHECKPOINTABLE.*|"
    r"(beta[12]_power|loss_scale|good_steps|signaling_nans.*)"
)
"""What only a training needs."""


@dataclass(frozen=True)
class Weight:
    """A weight in transformers."""

    name: str
    transposed: bool
    """Whether it is stored the other way around."""


def is_of_training(name: str) -> bool:
    """Whether a tensor belongs to the optimizer."""
    return OPTIMIZER.fullmatch(name) is not None


def weight_of(name: str) -> Weight | None:
    """The weight that a tensor of a checkpoint is; None where BERT has none of that name."""
    for ending, own in ENDINGS.items():
        module = name.removesuffix(ending) if ending else name
        if not name.endswith(ending):
            continue
        for pattern, target in (*ENCODER, *HEADS):
            whole = not re.search(r"(dense|LayerNorm|\))$", pattern)
            if whole == (not ending) and re.fullmatch(pattern, module):
                return Weight(re.sub(f"^{pattern}$", target, module) + own, ending == "/kernel")
    return None
