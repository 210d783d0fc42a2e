"""Which head goes on an encoder: a stock one of transformers wherever it reads what is wanted, our own otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import transformers

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.architectures import ARCHITECTURES, encoder_config, is_pooled, row_of
from warmstart.models.heads.pooled import PooledConfig, PooledForMultipleChoice, PooledForSequenceClassification
from warmstart.models.heads.token import PooledForQuestionAnswering, PooledForTokenClassification
from warmstart.models.pooling import MARKED, TOKENS, choose_layers

SEQUENCE, SPAN = "AutoModelForSequenceClassification", "AutoModelForQuestionAnswering"
BY_TOKEN = ("AutoModelForTokenClassification", SPAN)
"""Auto classes with an answer for each token, which pool no tokens."""
OWN = (
    PooledForSequenceClassification,
    PooledForMultipleChoice,
    PooledForTokenClassification,
    PooledForQuestionAnswering,
)
"""Our own models, one of an Auto class each."""


@dataclass(frozen=True)
class PoolingChoice:
    """What a head is to read, and its kind; nothing in particular by default."""

    pool: str | int = "last"
    """As `layers` of `Pooling`."""
    tokens: str = "auto"
    """As `tokens` of `Pooling`; `auto` is what the stock head reads, or `mean` where there is none."""
    slices: str | None = None
    """How the vectors of a document's slices become one; None where a document is one row."""
    head: str = "auto"
    """As `head` of `PooledConfig`; `auto` is a stock head where one reads what is wanted, else `linear`."""

    @property
    def free(self) -> bool:
        """Whether any head will do."""
        return self == PoolingChoice()


def own_class(name: str) -> Any:
    """Our own model that an Auto class opens, or that a config's `architectures` name; else the sequence model."""
    kind = name.removeprefix("AutoModel")
    return next((one for one in OWN if one.__name__.endswith(kind)), PooledForSequenceClassification)


def head_config(found: Any, choice: PoolingChoice, kept: bool, auto_class: str = SEQUENCE) -> Any:
    """The config of the model to open: the stock one with its head told what to read, or one of our own.

    Args:
        found: The config of the folder.
        kept: The folder's head is kept, so it must read what is wanted.
    """
    if choice.tokens not in {"auto", *TOKENS, *MARKED}:
        raise RecipeError(f"head.pooling: found {choice.tokens!r}; {nearest(choice.tokens, ('auto', *TOKENS))}")
    by_token = auto_class in BY_TOKEN
    if by_token and choice.tokens != "auto":
        raise RecipeError(
            f"head.pooling: found {choice.tokens}, but the head of this task reads every token; leave it out"
        )
    inside = encoder_config(found)
    how, chosen = choose_layers(choice.pool, inside.num_hidden_layers)
    if kept:
        if not choice.free and not _reads(found, how, chosen, choice):
            told = _told(found, by_token)
            raise RecipeError(f"layers: the model's head reads {told}; say so, or `head: new` to draw another")
        return found
    stock = _stock(inside, chosen, choice, auto_class)
    if stock is not None:
        for key, value in stock.items():
            setattr(inside, key, value)
        return inside
    if not own_class(auto_class).__name__.endswith(auto_class.removeprefix("AutoModel")):
        raise RecipeError(
            "layers: pool, tokens, head and freeze: encoder choose a head, and this task has one alone; leave them out"
        )
    auto = None if by_token else _current(inside)
    return PooledConfig(
        encoder=inside,
        layers=str(choice.pool),
        tokens=(auto or "mean") if choice.tokens == "auto" else choice.tokens,
        slices_pool=choice.slices or "mean",
        dropout=_dropout(inside),
        head="linear" if choice.head == "auto" else choice.head,
    )


def check_stock(name: str, config: Any, auto_class: str) -> None:
    """Refuse an encoder for which `transformers` has no head of a kind, or has it on a decoder."""
    known = getattr(transformers, auto_class)._model_mapping
    inside = encoder_config(config)
    if type(inside) in known and not (auto_class == SPAN and row_of(inside).encoder):
        return
    fit = ", ".join(sorted({one.model_type for one in known} & set(ARCHITECTURES)))
    raise ModelError(
        f"{name}: transformers has no {auto_class.removeprefix('AutoModelFor')} head for the architecture "
        f"{inside.model_type}; take an encoder of another one: {fit}; or a head of ours, with head.type: linear"
    )


def _stock(config: Any, chosen: tuple[int, ...], choice: PoolingChoice, auto_class: str) -> Mapping[str, str] | None:
    """What to tell the stock head so that it reads what is wanted; None where it cannot."""
    if choice.slices or choice.head != "auto" or chosen != (config.num_hidden_layers,):
        return None
    if auto_class != SEQUENCE:  # which tokens another one reads, no config tells
        return {} if choice.tokens == "auto" else None
    row = row_of(config)
    if type(config) not in transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING or row.encoder:
        return None
    return {} if choice.tokens == "auto" else (row.reads or {}).get(choice.tokens)


def _current(config: Any) -> str | None:
    """The tokens that the stock head reads as the config stands; None where not known."""
    for tokens, settings in (row_of(config).reads or {}).items():
        if all(getattr(config, key, None) == value for key, value in settings.items()):
            return tokens
    return None


def _reads(found: Any, how: str, chosen: tuple[int, ...], choice: PoolingChoice) -> bool:
    """Whether the folder's own head reads what is wanted."""
    depth = encoder_config(found).num_hidden_layers
    if not is_pooled(found):
        stock = choice.head == "auto" and not choice.slices
        return stock and chosen == (depth,) and choice.tokens in {"auto", _current(found)}
    same_layers = (how, chosen) == choose_layers(found.layers, depth)
    same_slices = choice.slices in {None, found.slices_pool}
    same_head = choice.head in {"auto", found.head}
    return same_head and same_layers and same_slices and choice.tokens in {"auto", found.tokens}


def _told(found: Any, by_token: bool) -> str:
    if by_token:
        return (
            f"pool: {found.layers}; it is head: {found.head}" if is_pooled(found) else "pool: last; it is a stock one"
        )
    if not is_pooled(found):
        return f"pool: last, tokens: {_current(found) or 'auto'}, and no slices; it is a stock one"
    pooled = f"pool: {found.layers}, tokens: {found.tokens}, slices pooled by their {found.slices_pool}"
    return f"{pooled}; it is head: {found.head}"


def _dropout(config: Any) -> float:
    """The share that the encoder's stock head would drop, as far as its config says."""
    told = (getattr(config, name, None) for name in ("classifier_dropout", "hidden_dropout_prob"))
    return next((share for share in told if isinstance(share, float)), 0.1)
