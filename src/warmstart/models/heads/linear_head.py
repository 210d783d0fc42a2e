"""A linear head over pooled tokens, stored so that plain sentence-transformers opens it and gives its logits.

`config.json` is ours; the weights are in the folders of that library's modules, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file

from warmstart.models.architectures import is_pooled, spec_of
from warmstart.models.pooling import COMPARE
from warmstart.models.security.folder import WEIGHTS
from warmstart.models.sentence_transformers_folder import (
    DENSE,
    POOLING,
    TRANSFORMER,
    HeadShape,
    optional_file,
    write_head_files,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_ENCODER, _HEAD, _LINEAR = "encoder.", "classifier.", "linear."
"""What names of weights begin with: in our model, and in a `Dense` of that library."""


def is_sentence_head(model: PreTrainedModel) -> bool:
    """Whether sentence-transformers has this head: one of ours, linear, over the last layer's pooled tokens."""
    config = model.config
    if not is_pooled(config):
        return False
    # That library gives no token global attention, and moves no padding behind the tokens.
    if spec_of(config).global_first_token or spec_of(config).reads_padding:
        return False
    reads_one_text = config.slice_pooling != COMPARE
    return (config.head_type, config.layers) == ("linear", "last") and config.pooling in POOLING and reads_one_text


def split_weights(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    encoder_kwargs: Mapping[str, bool],
    folder: Path,
    prompt: str = "",
) -> None:
    """Store the weights of a saved model as that library has them.

    Args:
        max_tokens: The most tokens of a text that the encoder sees.
        encoder_kwargs: Arguments of the encoder's class, such as that it has no pooler.
        folder: Where `save_pretrained` has written the model; its file of weights is replaced.
        prompt: What is put before every text.
    """
    if not (folder / WEIGHTS).is_file():  # so large that it is in several files
        return
    (folder / WEIGHTS).unlink()
    model.encoder.save_pretrained(folder / TRANSFORMER)
    tokenizer.save_pretrained(folder / TRANSFORMER)
    head = {f"{_LINEAR}{name}": tensor.contiguous() for name, tensor in model.classifier.state_dict().items()}
    (folder / DENSE).mkdir()
    save_file(head, folder / DENSE / WEIGHTS, metadata={"format": "pt"})
    size, config = model.pooling.output_size, model.config
    write_head_files(folder, HeadShape(size, config.pooling, config.num_labels), max_tokens, encoder_kwargs, prompt)


def joined_weights(name: str) -> dict[str, torch.Tensor] | None:
    """The weights of a folder, or of a name on the Hub, that are stored this way, by their names in our model."""
    files = [optional_file(name, f"{part}/{WEIGHTS}") for part in (TRANSFORMER, DENSE)]
    if files[0] is None or files[1] is None:
        return None
    encoder, head = (load_file(file) for file in files if file)
    return {
        **{f"{_ENCODER}{key}": tensor for key, tensor in encoder.items()},
        **{f"{_HEAD}{key.removeprefix(_LINEAR)}": tensor for key, tensor in head.items()},
    }
