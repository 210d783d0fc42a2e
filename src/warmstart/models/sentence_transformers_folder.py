"""A bi-encoder as a folder of `sentence-transformers`: the encoder's own files, and what is done with its tokens.

The forms written are those of its version 2, which every later one reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

POOLING = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
"""How the tokens are pooled, in our words and in its."""
_MODULES = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}


def write_sentence_files(
    folder: Path, width: int, tokens: str, most: int, prompts: Mapping[str, str], options: Mapping[str, bool]
) -> None:
    """Put the files beside a saved encoder that make the folder open in `SentenceTransformer`.

    Args:
        width: Numbers a vector has.
        tokens: As in `BiEncoder`.
        most: The most tokens of a text that are seen.
        prompts: What is put before a `query` and before a `document`.
        options: What the encoder's class is told when it is opened, as that it has no pooler.
    """
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(_MODULES.items())
    ]
    pooling = {f"pooling_mode_{theirs}": ours == tokens for ours, theirs in POOLING.items()}
    files: dict[str, Any] = {
        "modules.json": modules,
        "sentence_bert_config.json": {
            "max_seq_length": most,
            "do_lower_case": False,
            "model_args": dict(options),
        },
        "config_sentence_transformers.json": {"prompts": dict(prompts), "similarity_fn_name": "cosine"},
        "1_Pooling/config.json": {"word_embedding_dimension": width, **pooling},
        "2_Normalize/config.json": {},
    }
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
