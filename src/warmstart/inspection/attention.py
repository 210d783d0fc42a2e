"""Attention maps: how much each token attends to each other one, in every layer and head, for any text.

Fused attention computes no map, so the encoder is switched to `eager` attention while maps are read. That is slower and
takes memory for every map: 12 layers of 12 heads over 512 tokens are 151 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.errors import ModelError
from warmstart.inference.features import Extractor, text_rows
from warmstart.inference.predictor import Text
from warmstart.inference.token_features import TokenExtractor, TokenSequence
from warmstart.tasks.shared.text_inputs import pad

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

EAGER = "eager"


@dataclass(frozen=True)
class AttentionMaps:
    """The maps of one text, or of one slice of it."""

    tokens: list[str]
    """Each token by the text's own characters, a special one by its name."""
    segments: list[int | None]
    """0 for a token of the text, 1 for one of the second text of a pair, None for a special one."""
    weights: NDArray[np.float32]
    """Of shape (layers, heads, tokens, tokens): row i says how token i spreads its attention, and sums to 1."""

    @property
    def is_special(self) -> NDArray[np.bool_]:
        """Which tokens are special ones."""
        return np.array([segment is None for segment in self.segments])


@contextmanager
def eager_attention(encoder: PreTrainedModel) -> Iterator[None]:
    """Compute attention so that it gives its maps, and afterwards as before."""
    before = encoder.config._attn_implementation
    encoder.set_attn_implementation(EAGER)
    try:
        yield
    finally:
        encoder.set_attn_implementation(before)


@torch.inference_mode()
def read_maps(extractor: Extractor, texts: Iterable[Text]) -> Iterator[AttentionMaps]:
    """The maps of each text, one at a time; of a text in slices, those of each slice.

    Args:
        extractor: Has the encoder and the window.
        texts: Texts, or pairs of them.
    """
    reader, encoder = TokenExtractor(extractor), extractor.encoder
    with eager_attention(encoder):
        for row in text_rows(texts):
            for sequence in reader.sequences([row]):
                batch = pad([sequence.inputs], extractor.tokenizer)
                batch = {name: tensor.to(extractor.device) for name, tensor in batch.items()}
                maps = encoder(**batch, output_attentions=True, return_dict=True).attentions
                count = len(sequence.origins)
                if not maps or any(layer is None or layer.shape[-2:] != (count, count) for layer in maps):
                    kind = encoder.config.model_type
                    raise ModelError(f"{kind}: a token attends to some of the others only, so there is no whole map")
                weights = torch.cat(list(maps)).float().cpu().numpy()
                yield AttentionMaps(
                    shown_tokens(sequence, extractor.tokenizer),
                    [origin and origin[0] for origin in sequence.origins],
                    weights,
                )


def shown_tokens(sequence: TokenSequence, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Each token for people: its characters in the text, or its name where it has none."""
    names = tokenizer.convert_ids_to_tokens(sequence.inputs["input_ids"])
    texts = (str(sequence.row["text"]), str(sequence.row.get("pair", "")))
    return [
        (origin and texts[origin[0]][slice(*origin[1])]) or name
        for name, origin in zip(names, sequence.origins, strict=True)
    ]
