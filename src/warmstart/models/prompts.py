"""The prompts that encoders were trained with, by what a text is for: from an encoder's files, or by its family."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from warmstart.errors import ModelError
from warmstart.models.sentence_transformers_folder import PROMPTS_FILE, optional_file
from warmstart.storage.json_files import JsonObject, read_object

PromptUse: TypeAlias = Literal["classification", "query", "document"]
"""What a text is for."""
_NAMES: Mapping[PromptUse, tuple[str, ...]] = {
    "classification": ("classification",),
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
"""Names of prompts in an encoder's files, the first that it has counts; in lower case."""


@dataclass(frozen=True)
class PromptFamily:
    """Encoders that were trained with the same prompts.

    Attributes:
        names: A regular expression for the whole name of such an encoder, in lower case and without its owner.
        prompts: What their authors say to put before a text; nothing for a use that is not listed.
    """

    names: str
    prompts: Mapping[PromptUse, str]


FAMILIES = (
    # Features for a classifier are made with the prompt of queries.
    PromptFamily(
        r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?",
        {"classification": "query: ", "query": "query: ", "document": "passage: "},
    ),
    PromptFamily(
        r"(nomic-embed-text-v1(\.5)?(-unsupervised)?|modernbert-embed-(base|large)(-unsupervised)?)",
        {"classification": "classification: ", "query": "search_query: ", "document": "search_document: "},
    ),
    # Only queries of a search have an instruction.
    PromptFamily(
        r"bge-(small|base|large)-en(-v1\.5)?",
        {"query": "Represent this sentence for searching relevant passages: "},
    ),
)
"""What the model cards say, for encoders whose files do not say it."""


def trained_prompt(model: str, use: PromptUse) -> str:
    """The prompt that an encoder was trained with for such a text; empty where none is known.

    Args:
        model: A folder, or a name on the Hugging Face Hub.
    """
    return _in_files(model, use) or _of_family(model, use)


def _in_files(model: str, use: PromptUse) -> str:
    """The prompt of that name in the encoder's files for sentence-transformers, or the one that is its default."""
    values = _read(model, PROMPTS_FILE)
    prompts = values.get("prompts")
    if not isinstance(prompts, dict):
        return ""
    by_name = {name.lower(): text for name, text in prompts.items() if isinstance(text, str)}
    default = values.get("default_prompt_name")
    names = (*_NAMES[use], *([default.lower()] if isinstance(default, str) else []))
    # Every model that sentence-transformers saves has an empty `query` and `document`, which say nothing.
    return next((by_name[name] for name in names if by_name.get(name)), "")


def _of_family(model: str, use: PromptUse) -> str:
    for name in _names_of(model):
        for family in FAMILIES:
            if re.fullmatch(family.names, name.lower()):
                return family.prompts.get(use, "")
    return ""


def _names_of(model: str) -> Iterator[str]:
    """What an encoder may be called: its own name, that of its folder in the Hub's cache, and what it was made from."""
    path = Path(model)
    yield path.name
    yield from (part.rpartition("--")[2] for part in path.parts if part.startswith("models--"))
    origin = _read(model, "config.json").get("_name_or_path")
    if isinstance(origin, str):
        yield Path(origin).name


def _read(model: str, name: str) -> JsonObject:
    file = optional_file(model, name)
    return {} if file is None else read_object(Path(file), ModelError, finite=False)
