"""What Japanese tokenizers need beyond others: options of the engines that find words, packages, segments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from warmstart.errors import MissingExtra, ModelError

ENGINES = ("basic", "mecab", "sudachi")
"""What may find the words; Juman++ is a program of its own, which a folder must not start."""
_YES_NO = (True, False)
_PROJECTIONS = (
    *("normalized", "reading", "dictionary"),
    *("dictionary_and_surface", "normalized_and_surface", "normalized_nouns"),
)
OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
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
"""Options of the engines and what they may say: nothing that names a file or is handed on unread."""
_PACKAGES = re.compile(r"fugashi|unidic_lite|sudachi|ipadic|unidic", re.IGNORECASE)


def check_japanese(values: dict[str, Any], path: Path) -> None:
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
            if not any(value == one and type(value) is type(one) for one in known.get(key, ())):
                told = ", ".join(str(one) for one in known.get(key, ()) if one) or "no such key"
                raise ModelError(
                    f"{path}: {group}.{key}: found {str(value)[:80]!r}, expected {told}: it could name files outside "
                    "the folder; remove the key, and check that the model was trained without it"
                )


def missing_extra(name: str, error: ImportError) -> MissingExtra | None:
    """The error to raise where a package that finds Japanese words is not installed; None where it is another."""
    found = _PACKAGES.search(str(error))
    if found is None:
        return None
    package = found[0].lower()
    what = package if package in ("ipadic", "unidic") else "'warmstart[ja]'"
    return MissingExtra(f"{name}: its tokenizer needs {package}, which is not installed: pip install {what}")


def give_segments(tokenizer: Any, config: Any) -> None:
    """Have a `BertJapaneseTokenizer` tell the two texts of a pair apart, as the encoder was trained.

    transformers 5 leaves the segments out unless the folder asks for them; its predecessors gave them. They are asked
    for here in a way that is saved with the tokenizer.
    """
    if type(tokenizer).__name__ != "BertJapaneseTokenizer" or "model_input_names" in tokenizer.init_kwargs:
        return
    if getattr(config, "type_vocab_size", 0) > 1:
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
