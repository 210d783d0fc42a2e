"""A folder of `sentence-transformers`: the encoder's own files, how its tokens are pooled, and what follows.

The files are those of its version 2, which every later one reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformers.utils import cached_file

from warmstart.errors import ModelError
from warmstart.storage.files import write_text
from warmstart.storage.json_files import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedModel

POOLING = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
"""Our names of poolings, and its names."""
_POOLING_FILE = "1_Pooling/config.json"
_MODULES = {"": "Transformer", "1_Pooling": "Pooling"}
_NORMALIZE = {"2_Normalize": "Normalize"}
PROMPTS_FILE = "config_sentence_transformers.json"
"""The file with the prompts of an encoder."""
_PROMPT = "text"
"""Our name of the prompt that is put before every text."""
TRANSFORMER, DENSE = "0_Transformer", "2_Dense"
"""Where a model with a linear head has its weights: the encoder's, and the head's."""


@dataclass(frozen=True)
class SentenceEmbedding:
    """How a text becomes a vector, and vectors are compared.

    Attributes:
        size: Size of a text's vector.
        pooling: As in `BiEncoder`.
        max_tokens: The most tokens of a text that the encoder sees.
        distance_metric: `cosine`, for vectors of length 1, or `euclidean`.
    """

    size: int
    pooling: str
    max_tokens: int
    distance_metric: str


def write_sentence_files(
    folder: Path, embedding: SentenceEmbedding, prompts: Mapping[str, str], encoder_kwargs: Mapping[str, bool]
) -> None:
    """Write the files beside a saved encoder with which `SentenceTransformer` loads the folder.

    Args:
        prompts: What is put before a `query` and before a `document`.
        encoder_kwargs: Arguments of the encoder's class, such as that it has no pooler.
    """
    normalize = _NORMALIZE if embedding.distance_metric == "cosine" else {}
    _write_files(
        folder,
        {
            "modules.json": _modules(_MODULES | normalize),
            "sentence_bert_config.json": _transformer(embedding.max_tokens, encoder_kwargs),
            PROMPTS_FILE: {
                "prompts": dict(prompts),
                "similarity_fn_name": embedding.distance_metric,
            },
            _POOLING_FILE: _pooling(embedding.size, embedding.pooling),
            **{f"{name}/config.json": {} for name in normalize},
        },
    )


@dataclass(frozen=True)
class HeadShape:
    """A linear head over a text's vector.

    Attributes:
        size: Size of the vector.
        pooling: As in `Pooling`.
        labels: How many outputs the head has.
    """

    size: int
    pooling: str
    labels: int


def write_head_files(
    folder: Path, head: HeadShape, max_tokens: int, encoder_kwargs: Mapping[str, bool], prompt: str = ""
) -> None:
    """Write the files beside the weights of an encoder and of a linear head, which are in `TRANSFORMER` and `DENSE`.

    Args:
        max_tokens: The most tokens of a text that the encoder sees.
        encoder_kwargs: As in `write_sentence_files`.
        prompt: What is put before every text, which that library then does as well.
    """
    prompts = {"prompts": {_PROMPT: prompt}, "default_prompt_name": _PROMPT} if prompt else {"prompts": {}}
    _write_files(
        folder,
        {
            "modules.json": _modules({TRANSFORMER: "Transformer", "1_Pooling": "Pooling", DENSE: "Dense"}),
            f"{TRANSFORMER}/sentence_bert_config.json": _transformer(max_tokens, encoder_kwargs),
            PROMPTS_FILE: {**prompts, "similarity_fn_name": None},
            _POOLING_FILE: _pooling(head.size, head.pooling),
            f"{DENSE}/config.json": {
                "in_features": head.size,
                "out_features": head.labels,
                "bias": True,
                "activation_function": "torch.nn.modules.linear.Identity",
            },
        },
    )


def keep_pooling(encoder: PreTrainedModel, folder: Path) -> None:
    """Write beside an encoder that was trained further how its tokens are pooled, if what it comes from says so."""
    pooling = declared_pooling(encoder.name_or_path) if encoder.name_or_path else None
    if pooling is not None:
        size = encoder.config.hidden_size
        _write_files(folder, {"modules.json": _modules(_MODULES), _POOLING_FILE: _pooling(size, pooling)})


def _modules(names: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(names.items())
    ]


def _transformer(max_tokens: int, encoder_kwargs: Mapping[str, bool]) -> dict[str, object]:
    return {"max_seq_length": max_tokens, "do_lower_case": False, "model_args": dict(encoder_kwargs)}


def _pooling(size: int, pooling: str) -> dict[str, object]:
    modes = {f"pooling_mode_{theirs}": ours == pooling for ours, theirs in POOLING.items()}
    return {"word_embedding_dimension": size, **modes}


def _write_files(folder: Path, files: Mapping[str, object]) -> None:
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        write_text(path, json.dumps(value, indent=2) + "\n")


def optional_file(model: str, path: str) -> str | None:
    """Where a file of a folder, or of a name on the Hugging Face Hub, is; None where there is none."""
    try:
        file: str | None = cached_file(
            model,
            path,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError:  # neither a folder nor a name that the Hub could have, which loading the model says better
        return None
    return file


def declared_pooling(model: str) -> str | None:
    """The pooling that an encoder of sentence-transformers was trained with; None where its files name none of ours.

    Args:
        model: A folder, or a name on the Hugging Face Hub.
    """
    path = optional_file(model, _POOLING_FILE)
    if path is None:
        return None
    values = read_object(Path(path), ModelError)
    modes = {name for name, value in values.items() if name.startswith("pooling_mode_") and value is True}
    return next((ours for ours, theirs in POOLING.items() if modes == {f"pooling_mode_{theirs}"}), None)
