"""Which encoder to start with: a few for the language of the texts, and those that are in the local Hub cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MIN_ENGLISH = 0.12
"""The share of words that are among the most frequent English ones, from which on texts count as English."""
MAX_CACHED = 5
"""How many models of the cache are listed."""
_FREQUENT = frozenset(
    (
        *(
            "the",
            "of",
            "and",
            "to",
            "a",
            "in",
            "is",
            "it",
            "you",
            "that",
            "he",
            "was",
            "for",
            "on",
            "are",
            "with",
            "as",
        ),
        *("i", "his", "they", "be", "at", "this", "have", "from", "or", "had", "by", "but", "not", "what", "my"),
        *("we", "can", "how", "do", "if", "me", "so", "your", "when"),
    )
)
_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = {
    "Japanese": re.compile(r"[\u3040-\u30ff]"),
    "Korean": re.compile(r"[\uac00-\ud7a3]"),
    "Chinese": re.compile(r"[\u4e00-\u9fff]"),
}


@dataclass(frozen=True)
class Suggestion:
    """An encoder, and what it is good for."""

    name: str
    about: str


_ENGLISH = (
    Suggestion("sentence-transformers/all-MiniLM-L6-v2", "English, 23 million parameters: fast on a CPU"),
    Suggestion("sentence-transformers/all-mpnet-base-v2", "English, 109 million: more accurate, 5 times slower"),
)
_MULTILINGUAL = (
    Suggestion("intfloat/multilingual-e5-small", "about 100 languages, 118 million parameters: fast on a CPU"),
    Suggestion("intfloat/multilingual-e5-base", "about 100 languages, 278 million: more accurate, slower"),
)


def suggest_encoders(texts: Iterable[str]) -> tuple[str, tuple[Suggestion, ...]]:
    """What the language of texts seems to be, and encoders for it."""
    sample = list(texts)
    if not sample:
        return "", (*_ENGLISH[:1], *_MULTILINGUAL[:1])
    joined = " ".join(sample)
    for language, pattern in _SCRIPTS.items():
        if len(pattern.findall(joined)) > 0.1 * len(joined):
            return language, _MULTILINGUAL
    words = _WORD.findall(joined.casefold())
    english = sum(word in _FREQUENT for word in words) >= MIN_ENGLISH * max(len(words), 1)
    return ("English", _ENGLISH) if english else ("not English", _MULTILINGUAL)


def cached_encoders() -> list[str]:
    """Names of models that the Hub cache of this machine has, the newest first."""
    folders = [folder for folder in _cache().glob("models--*") if any(folder.glob("snapshots/*/config.json"))]
    folders.sort(key=lambda folder: -folder.stat().st_mtime)
    return [folder.name.removeprefix("models--").replace("--", "/") for folder in folders[:MAX_CACHED]]


def is_out_of_reach(name: str) -> bool:
    """Whether a model on the Hub is neither in the cache nor may be downloaded, since the Hub is switched off."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    return offline and not (_cache() / f"models--{name.replace('/', '--')}").is_dir()


def _cache() -> Path:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
