"""What Japanese tokenizers need beyond others: options of the word segmenters, packages, token types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

ENGINES = ("basic", "mecab", "sudachi")
"""Word segmenters that a folder may name; Juman++ is a program of its own, which a folder must not start."""
_YES_NO = (True, False)
_PROJECTIONS = (
    *("normalized", "reading", "dictionary"),
    *("dictionary_and_surface", "normalized_and_surface", "normalized_nouns"),
)
OPTIONS: dict[str, dict[str, tuple[bool | str | None, ...]]] = {
    "mecab_kwargs": {
        "normalize_text": _YES_NO,
        "mecab_dic": ("unidic_lite", "unidic", "ipadic"),
        "mecab_option": (None, ""),
    },
    "sudachi_kwargs": {
        "normalize_text": _YES_NO,
        "trim_whitespace": _YES_NO,
        "sudachi_split_mode": ("A", "B", "C"),
        "sudachi_dict_type": ("core", "small", "full"),
        "sudachi_projection": (None, "surface", *_PROJECTIONS),
        "sudachi_config_path": (None,),
        "sudachi_resource_dir": (None,),
    },
}
"""Options of the segmenters and the values they may have: none names a file or is passed on unchecked."""
_PACKAGES = re.compile(r"fugashi|unidic_lite|sudachi|ipadic|unidic", re.IGNORECASE)


def check_japanese(values: Mapping[str, object], path: Path) -> None:
    """Refuse options by which a `tokenizer_config.json` starts a program or opens files outside its folder."""
    engine = values.get("word_tokenizer_type")
    if engine is not None and engine not in ENGINES:
        raise ModelError(
            f"{path}: word_tokenizer_type: found {str(engine)[:80]!r}, expected one of {', '.join(ENGINES)}"
        )
    for group, known in OPTIONS.items():
        options = values.get(group) or {}
        if not isinstance(options, dict):
            raise ModelError(f"{path}: {group}: found {str(options)[:80]!r}, expected names and values")
        for key, value in options.items():
            # Types are compared, too: 1 is not True here, and a list cannot be looked up.
            allowed = known.get(key, ())
            if not any(value == choice and type(value) is type(choice) for choice in allowed):
                expected = ", ".join(str(choice) for choice in allowed if choice) or "no such key"
                raise ModelError(
                    f"{path}: {group}.{key}: found {str(value)[:80]!r}, expected {expected}: it could name files "
                    "outside the folder; remove the key, and check that the model was trained without it"
                )


def missing_extra(name: str, error: ImportError) -> MissingExtraError | None:
    """The error to raise where a Japanese word segmenter is not installed; None where another package is missing."""
    match = _PACKAGES.search(str(error))
    if match is None:
        return None
    package = match[0].lower()
    extra = package if package in ("ipadic", "unidic") else "'warmstart[ja]'"
    return MissingExtraError(f"{name}: its tokenizer needs {package}, which is not installed: pip install {extra}")


def add_token_type_ids(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> None:
    """Have a `BertJapaneseTokenizer` give the two texts of a pair different token types, as in pre-training.

    transformers 5 leaves `token_type_ids` out unless the folder asks for them; its predecessors gave them. Here the
    tokenizer is set to give them, which is saved with it.
    """
    if type(tokenizer).__name__ != "BertJapaneseTokenizer" or "model_input_names" in tokenizer.init_kwargs:
        return
    if getattr(config, "type_vocab_size", 0) > 1:
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
