"""Which head goes on an encoder: a stock head of transformers wherever it reads what is wanted, else one of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import transformers

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.architectures import ARCHITECTURES, StockDense, encoder_config, is_pooled, spec_of
from warmstart.models.heads.pooled import (
    PooledConfig,
    PooledForMultipleChoice,
    PooledForSequenceClassification,
    PooledModel,
)
from warmstart.models.heads.token import PooledForQuestionAnswering, PooledForTokenClassification
from warmstart.models.pooling import COMPARE, FINAL, MARKED_POOLINGS, choose_layers
from warmstart.runtime import plugins

if TYPE_CHECKING:
    from transformers import PretrainedConfig

SEQUENCE, SPAN = "AutoModelForSequenceClassification", "AutoModelForQuestionAnswering"
TOKEN_CLASSES = ("AutoModelForTokenClassification", SPAN)
"""Auto classes with an answer for each token, which pool no tokens."""
POOLED_CLASSES: tuple[type[PooledModel], ...] = (
    PooledForSequenceClassification,
    PooledForMultipleChoice,
    PooledForTokenClassification,
    PooledForQuestionAnswering,
)
"""Our own models, one for each of these Auto classes."""


PAIR_CHUNK = 1024
"""Texts of pairs that go through the encoder at a time: a batch has two a row, as against any number of slices."""


@dataclass(frozen=True)
class HeadChoice:
    """Which head is wanted, in the words of the recipe's `head:`; any head by default."""

    layers: str | int = "last"
    """As in `Pooling`."""
    pooling: str = "auto"
    """As in `Pooling`; `auto` is what the stock head reads, or `mean` where there is none."""
    type: str = "auto"
    """As `head_type` of `PooledConfig`; `auto` is a stock head where one reads what is wanted, else one of ours with
    the same layers."""
    slice_pooling: str | None = None
    """How the vectors of a document's slices are pooled; None where a document is one row."""
    reuse: bool = True
    """Reuse the head that the model comes with, if it has one of the right kind."""
    bilstm_layers: int = 1
    """As in `PooledConfig`, of a `bilstm`."""
    bilstm_size: int | None = None
    """As above."""

    @property
    def is_default(self) -> bool:
        """Whether any head will do."""
        return replace(self, reuse=True) == HeadChoice()


def compares_texts(config: PretrainedConfig) -> bool:
    """Whether a model's head compares two texts that are read separately."""
    return getattr(config, "slice_pooling", None) == COMPARE


def pooled_class(name: str) -> type[PooledModel]:
    """Our own model for an Auto class, or for a name among a config's `architectures`; else the sequence model."""
    kind = name.removeprefix("AutoModel")
    return next((cls for cls in POOLED_CLASSES if cls.__name__.endswith(kind)), PooledForSequenceClassification)


def head_config(
    saved: PretrainedConfig, choice: HeadChoice, reused: bool, auto_class: str = SEQUENCE
) -> PretrainedConfig:
    """The config of the model to load: the stock one, set to read what is wanted, or one of our own.

    Args:
        saved: The config of the folder.
        reused: The folder's head is reused, so it must read what is wanted.
    """
    if choice.pooling not in {"auto", FINAL, *MARKED_POOLINGS, *plugins.names("poolings")}:
        known = ("auto", FINAL, *plugins.names("poolings"))
        raise RecipeError(f"head.pooling: found {choice.pooling!r}; {nearest(choice.pooling, known)}")
    by_token = auto_class in TOKEN_CLASSES
    if by_token and choice.pooling != "auto":
        raise RecipeError(
            f"head.pooling: found {choice.pooling}, but the head of this task reads every token; leave it out"
        )
    config = encoder_config(saved)
    if reused:
        if not choice.is_default and not _reads(saved, choice):
            raise RecipeError(
                f"head: the model's own head has {_described(saved, by_token)}; set the same, or head.reuse: false for "
                "a new head"
            )
        return saved
    stock = _stock_settings(config, choice, auto_class)
    if stock is not None:
        for key, value in stock.items():
            setattr(config, key, value)
        return config
    if not pooled_class(auto_class).__name__.endswith(auto_class.removeprefix("AutoModel")):
        raise RecipeError(
            "head.layers, head.pooling, head.type and layers.freeze: encoder need a choice of heads, and this task has "
            "a single one; leave them out"
        )
    return _pooled_config(config, choice, by_token)


def check_stock_head(name: str, config: PretrainedConfig, auto_class: str) -> None:
    """Refuse an encoder for which `transformers` has no head of a kind, or has it on a decoder."""
    known = getattr(transformers, auto_class)._model_mapping
    config = encoder_config(config)
    if type(config) in known and not (auto_class == SPAN and spec_of(config).encoder_class):
        return
    fit = ", ".join(sorted({cls.model_type for cls in known} & set(ARCHITECTURES)))
    raise ModelError(
        f"{name}: transformers has no {auto_class.removeprefix('AutoModelFor')} head for the architecture "
        f"{config.model_type}; choose an encoder of another one: {fit}; or a head of ours, with head.type: linear"
    )


def _pooled_config(config: PretrainedConfig, choice: HeadChoice, by_token: bool) -> PooledConfig:
    """The config of one of our own models, on an encoder of this config."""
    if choice.pooling == FINAL and choice.type != "bilstm":
        raise RecipeError(
            f"head.pooling: found {FINAL}, the last states of a bilstm, but head.type is {choice.type}; set head.type: "
            "bilstm"
        )
    stock_pooling = None if by_token else _current_pooling(config)
    if choice.type == "bilstm" and not by_token:
        stock_pooling = FINAL  # at the token that a stock head reads, one direction has read no other
    pooling = (stock_pooling or "mean") if choice.pooling == "auto" else choice.pooling
    spec = spec_of(config)
    # Layers can be compared only if each is read as the stock head reads the last one.
    like_stock = (
        choice.type == "auto" and not by_token and not choice.slice_pooling and pooling in (spec.stock_poolings or {})
    )
    dense = spec.stock_dense or StockDense()
    return PooledConfig(
        encoder=config,
        layers=str(choice.layers),
        pooling=pooling,
        slice_pooling=choice.slice_pooling or "mean",
        slice_chunk_size=PAIR_CHUNK if choice.slice_pooling == COMPARE else PooledConfig.slice_chunk_size,
        dropout=_dropout(config) if spec.stock_dropout or not like_stock else 0.0,
        head_type=("pooler" if like_stock and spec.stock_dense else "linear") if choice.type == "auto" else choice.type,
        pooler_activation=getattr(config, dense.activation, dense.activation),
        pooler_dropout=dense.dropout,
        bilstm_layers=choice.bilstm_layers,
        bilstm_size=choice.bilstm_size,
    )


def _stock_settings(config: PretrainedConfig, choice: HeadChoice, auto_class: str) -> Mapping[str, str] | None:
    """Config values by which the stock head reads what is wanted; None where it cannot."""
    _, layers = choose_layers(choice.layers, config.num_hidden_layers)
    if choice.slice_pooling or choice.type != "auto" or layers != (config.num_hidden_layers,):
        return None
    if auto_class != SEQUENCE:  # no config shows which tokens another one reads
        return {} if choice.pooling == "auto" else None
    spec = spec_of(config)
    if type(config) not in transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING or spec.encoder_class:
        return None
    return {} if choice.pooling == "auto" else (spec.stock_poolings or {}).get(choice.pooling)


def _current_pooling(config: PretrainedConfig) -> str | None:
    """The pooling of the stock head with the config as it is; None if unknown."""
    for pooling, settings in (spec_of(config).stock_poolings or {}).items():
        if all(getattr(config, key, None) == value for key, value in settings.items()):
            return pooling
    return None


def reads_first_token(config: PretrainedConfig) -> bool:
    """Whether the stock head reads the first token, as those of most encoders do."""
    return _current_pooling(encoder_config(config)) == "cls"


def _reads(saved: PretrainedConfig, choice: HeadChoice) -> bool:
    """Whether the folder's own head reads what is wanted."""
    depth = encoder_config(saved).num_hidden_layers
    joined_by, layers = choose_layers(choice.layers, depth)
    if not is_pooled(saved):
        stock = choice.type == "auto" and not choice.slice_pooling
        return stock and layers == (depth,) and choice.pooling in {"auto", _current_pooling(saved)}
    same_layers = (joined_by, layers) == choose_layers(saved.layers, depth)
    same_slices = choice.slice_pooling in {None, saved.slice_pooling}
    same_type = choice.type in {"auto", saved.head_type}
    if choice.type == "bilstm":
        same_type &= (choice.bilstm_layers, choice.bilstm_size) == (saved.bilstm_layers, saved.bilstm_size)
    return same_type and same_layers and same_slices and choice.pooling in {"auto", saved.pooling}


def _described(saved: PretrainedConfig, by_token: bool) -> str:
    """The choices that a folder's own head stands for."""
    own = saved.head_type if is_pooled(saved) else ""
    if own == "bilstm":
        own += f", bilstm_layers: {saved.bilstm_layers}"
        own += f", bilstm_size: {saved.bilstm_size}" if saved.bilstm_size else ""
    if by_token:
        layers, kind = (saved.layers, own) if is_pooled(saved) else ("last", "auto (a stock head)")
        return f"layers: {layers}, type: {kind}"
    if not is_pooled(saved):
        pooling = _current_pooling(saved) or "auto"
        return f"layers: last, pooling: {pooling}, type: auto (a stock head), and no slices"
    slices = "task.encoder: bi" if compares_texts(saved) else f"window.slice_pooling: {saved.slice_pooling}"
    return f"layers: {saved.layers}, pooling: {saved.pooling}, type: {own}, {slices}"


def _dropout(config: PretrainedConfig) -> float:
    """The dropout of the encoder's stock head, as far as its config has it."""
    names = ("classifier_dropout", "seq_classif_dropout", "summary_last_dropout", "hidden_dropout_prob")
    shares = (getattr(config, name, None) for name in names)
    return next((share for share in shares if isinstance(share, float)), 0.1)
