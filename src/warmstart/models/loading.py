"""Loading a pretrained encoder and its tokenizer, with a head on top, from a folder or a name on the Hub."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import torch
import transformers

from warmstart.errors import ModelError, PluginError, RecipeError
from warmstart.models.architectures import encoder_config, is_plugin, is_pooled, load_architecture, spec_of
from warmstart.models.heads.pooled import PooledModel, build_encoder, encoder_class, encoder_kwargs
from warmstart.models.heads.selection import SEQUENCE, HeadChoice, check_stock_head, head_config, pooled_class
from warmstart.models.japanese_tokenizers import add_token_type_ids, missing_extra
from warmstart.models.layer_map import LayerMap
from warmstart.models.recurrent.heads import AwdLstmForSequenceClassification, AwdLstmForTokenClassification
from warmstart.models.recurrent.language_model import AwdLstmForCausalLM
from warmstart.models.reinit import reinitialize_parameters
from warmstart.models.security.finite import check_finite
from warmstart.models.security.folder import WEIGHTS, check_folder
from warmstart.models.security.tensors import bytes_of_weights
from warmstart.runtime import plugins

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

MASKED = "AutoModelForMaskedLM"
BARE = "AutoModel"
"""The Auto class of an encoder without a head."""

OWN_CLASSES = {
    cls.__name__: cls for cls in (AwdLstmForCausalLM, AwdLstmForSequenceClassification, AwdLstmForTokenClassification)
}
"""Models that are our own but have no encoder of another library inside, by the name that their folders give."""

PROBE = "A first text: words, 12.5 and 3 000; l'été, 漢字, 👍🏽\n\tend"
"""Encoded once when a tokenizer is loaded, so that a broken one fails there."""
SLACK = 1 << 26
"""Numbers that a model may have beyond those in its file: a new head, tied embeddings."""


@dataclass(frozen=True)
class LoadedModel:
    """A model with a head, and how it differs from its file."""

    model: PreTrainedModel
    new_parameters: tuple[str, ...] = ()
    """Parameters that are newly initialized: those of a new head."""
    unused_tensors: tuple[str, ...] = ()
    """Tensors in the file that the model does not use, such as another task's head."""


def load_config(name: str) -> PretrainedConfig:
    """The config of a model; runs no code that comes with it."""
    with _model_errors(name, "config.json"):
        if plugins.names("architectures") and not Path(name).exists():
            kind = transformers.PreTrainedConfig.get_config_dict(name)[0].get("model_type")
            if is_plugin(kind):
                load_architecture(kind)
        return transformers.AutoConfig.from_pretrained(name, **_flags(name))


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model; runs no code that comes with it."""
    with _model_errors(name, "tokenizer.json", "tokenizer_config.json"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **_flags(name))
        tokenizer(PROBE)
    if not tokenizer.is_fast:
        with suppress(ModelError):  # a folder may hold a tokenizer alone
            add_token_type_ids(tokenizer, encoder_config(load_config(name)))
    if tokenizer.pad_token_id is None:
        # Decoders often come without one; padding is masked, so any token will do.
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{name}: its tokenizer has neither a padding nor an end token, so texts cannot be batched")
    return tokenizer


def has_head(config: PretrainedConfig, auto_class: str) -> bool:
    """Whether the saved model has the head of an Auto class already."""
    kind = auto_class.removeprefix(BARE)
    kinds = (kind, "LMHeadModel") if kind == "ForCausalLM" else (kind,)
    if auto_class == MASKED and spec_of(config).pair_modules:
        kinds = (kind, "ForPreTraining")
    # XLNet has two heads for spans; the name of the one that the Auto class loads ends in "Simple".
    return bool(kind) and any(name.removesuffix("Simple").endswith(kinds) for name in config.architectures or ())


def load_model(
    name: str,
    auto_class: str,
    config: Mapping[str, object],
    tokenizer: PreTrainedTokenizerBase,
    head: HeadChoice = HeadChoice(),  # noqa: B008
    weights: bool = True,
) -> LoadedModel:
    """Load an encoder with a head on top, with weights in fp32 whatever the file holds.

    Args:
        auto_class: The `transformers` Auto class whose head is wanted.
        config: Values for the model's config: its labels, its kind of problem.
        head: What the head is to read; where no stock head does, it is one of ours. A new head starts from the random
            state.
        weights: If false, all weights are random and the file is not read: to count what the model costs.
    """
    saved = load_config(name)
    if auto_class == BARE:
        return _load_bare(name, saved, head, weights)
    reused = head.reuse and has_head(saved, auto_class)
    wanted = head_config(saved, head, reused, auto_class)
    if auto_class != SEQUENCE and not is_pooled(wanted):
        check_stock_head(name, wanted, auto_class)
    for key, value in config.items():
        setattr(wanted, key, value)
    if encoder_config(wanted).pad_token_id is None:
        encoder_config(wanted).pad_token_id = tokenizer.pad_token_id
    # With a stock head for pairs comes a pooler; a model without it would lose the folder's weights for both.
    more = spec_of(wanted).pair_modules if auto_class == MASKED else ()
    cls = transformers.AutoModelForPreTraining if more else getattr(transformers, auto_class)
    with _model_errors(name, "config.json", WEIGHTS), quiet_transformers():
        _check_memory(name, cls.from_config, wanted)
        if not weights:
            return LoadedModel(cls.from_config(wanted, dtype=torch.float32))
        if not reused and (is_pooled(saved) or is_pooled(wanted)):
            return _move_encoder(name, saved, wanted, pooled_class(auto_class) if is_pooled(wanted) else cls)
        model, report = _from_file(cls, name, wanted, ignore_mismatched_sizes=not head.reuse)
    new = _new_keys(report)
    layers = LayerMap.of(model)
    # A head may be new only where the folder has none; the encoder's tensors must all be there.
    allowed = set() if reused else _head_names(model, layers)
    _check_complete(name, {key for key in new if not key.startswith(more)} - allowed)
    if auto_class == MASKED:
        _zero_biases(model, new)
    if not head.reuse:
        new |= _reinitialize_head(model, layers)
    return LoadedModel(model, tuple(sorted(new)), tuple(sorted(report["unexpected_keys"])))


def _load_bare(name: str, saved: PretrainedConfig, head: HeadChoice, weights: bool) -> LoadedModel:
    """Load an encoder without a head or a pooler, from under whatever head the folder has."""
    if head.slice_pooling:
        raise RecipeError("window.method: found slices, and this task has no head to pool them; set head or head+tail")
    if not head.is_default:
        raise RecipeError(
            "head.layers, head.pooling, head.type and layers.freeze: encoder are about a head, and this task has none; "
            "leave them out, or train a ranker with task.encoder: cross, which has one"
        )
    cls = encoder_class(encoder_config(saved))
    with _model_errors(name, "config.json", WEIGHTS), quiet_transformers():
        _check_memory(name, lambda config: cls(encoder_config(config)), saved)
        if not weights:
            return LoadedModel(build_encoder(encoder_config(saved)))
        if is_pooled(saved):
            whole, report = _from_file(_saved_class(saved), name, saved)
            model = whole.encoder
        else:
            model, report = _from_file(cls, name, saved, **encoder_kwargs(saved))
    _check_complete(name, report["missing_keys"])
    return LoadedModel(model, (), tuple(sorted(report["unexpected_keys"])))


def load_as_saved(name: str) -> PreTrainedModel:
    """Load a model with whatever head it was saved with, or none."""
    config = load_config(name)
    named = [OWN_CLASSES.get(name, getattr(transformers, name, None)) for name in config.architectures or ()]
    # The folder names the class, so it is used only if it is a model of the config's own architecture.
    cls = next((cls for cls in named if getattr(cls, "config_class", None) is type(config)), None)
    if is_pooled(config):
        cls = _saved_class(config)
    with _model_errors(name, "config.json", WEIGHTS), quiet_transformers():
        _check_memory(name, cls or transformers.AutoModel.from_config, config)
        cls = cls or transformers.AutoModel
        model: PreTrainedModel = cls.from_pretrained(
            name, config=config, dtype=torch.float32, **_flags(name), use_safetensors=True
        )
    check_finite(name, model)
    return model


def load_encoder(name: str) -> PreTrainedModel:
    """Load the encoder of a model alone, with weights in fp32, without the head or pooler that it may come with."""
    config = load_config(name)
    with _model_errors(name, "config.json", WEIGHTS), quiet_transformers():
        _check_memory(name, build_encoder, encoder_config(config))
        return _encoder_of(name, config, config)[0]


def load_pooler(name: str) -> nn.Module | None:
    """The pooler that a model's encoder was pretrained with, which a stock head may read; None where it has none."""
    config = load_config(name)
    if is_pooled(config) or not encoder_kwargs(config):  # ours have none; of others it may be part of the encoder
        return None
    with _model_errors(name, "config.json", WEIGHTS), quiet_transformers():
        encoder, report = _from_file(encoder_class(config), name, config)
    pooler: nn.Module | None = getattr(encoder, "pooler", None)
    return None if any(key.startswith("pooler.") for key in report["missing_keys"]) else pooler


def max_tokens_of(config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest text that the encoder takes, in tokens, special tokens included."""
    config = encoder_config(config)
    limits = [tokenizer.model_max_length]
    positions = getattr(config, "max_position_embeddings", None)
    if positions and positions > 0:
        limits.append(positions - (config.pad_token_id + 1 if spec_of(config).offset_positions else 0))
    return int(min(limits))


class _Report(TypedDict):
    """What transformers reports of a loading."""

    missing_keys: set[str]
    mismatched_keys: set[tuple[str, ...]]
    unexpected_keys: set[str]


def _from_file(
    cls: type[PreTrainedModel], name: str, config: PretrainedConfig, **options: object
) -> tuple[PreTrainedModel, _Report]:
    """A model with the folder's weights, and the library's report of what was missing or left over."""
    model, report = cls.from_pretrained(
        name,
        config=config,
        dtype=torch.float32,
        **_flags(name),
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )
    # What the file does not have may still be uninitialized memory here.
    check_finite(name, model, _new_keys(report))
    return model, report


def _new_keys(report: _Report) -> set[str]:
    """The weights that the folder does not have, or has in another shape."""
    return {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}


def _move_encoder(
    name: str, saved: PretrainedConfig, wanted: PretrainedConfig, cls: type[PreTrainedModel]
) -> LoadedModel:
    """Put the folder's encoder under a new head, where one of the two models is our own."""
    encoder, unused = _encoder_of(name, saved, encoder_config(wanted))
    if is_pooled(wanted):
        model = cls(wanted, encoder)
        new = {key for key, _ in model.named_parameters() if not key.startswith("encoder.")} - _use_pooler(name, model)
    else:
        model = cls.from_config(wanted)
        missing = model.base_model.load_state_dict(encoder.state_dict(), strict=False).missing_keys
        base = f"{model.base_model_prefix}."
        new = {key for key, _ in model.named_parameters() if not key.startswith(base)}
        new |= {base + key for key in missing}
        _check_complete(name, new - set(LayerMap.of(model).head.parameters))
    return LoadedModel(model, tuple(sorted(new)), tuple(sorted(unused)))


@torch.no_grad()
def _use_pooler(name: str, model: PooledModel) -> set[str]:
    """Start the pooler of our own head from the encoder's, as a stock head does; gives the names of its parameters."""
    dense = spec_of(model.config).stock_dense
    if model.pooler is None or dense is None or not dense.pretrained:
        return set()
    pooler = load_pooler(name)
    linear = getattr(pooler, "dense", pooler)
    if linear is None or linear.weight.shape != model.pooler.weight.shape:  # concatenated layers need a larger one
        return set()
    model.pooler.load_state_dict(linear.state_dict())
    return {f"pooler.{key}" for key in linear.state_dict()}


def _encoder_of(name: str, saved: PretrainedConfig, config: PretrainedConfig) -> tuple[PreTrainedModel, set[str]]:
    """The folder's encoder without head or pooler, and the names of the tensors that are not part of it."""
    if is_pooled(saved):
        whole, report = _from_file(_saved_class(saved), name, saved)
        encoder, above = whole.encoder, {key for key in whole.state_dict() if not key.startswith("encoder.")}
    else:
        encoder, report = _from_file(encoder_class(saved), name, config, **encoder_kwargs(saved))
        above = set()
    _check_complete(name, report["missing_keys"])
    return encoder, {*above, *report["unexpected_keys"]}


def _saved_class(config: PretrainedConfig) -> type[PreTrainedModel]:
    """The class of our own model that a config of ours was saved with."""
    return pooled_class(str((config.architectures or [""])[0]))


def _check_complete(name: str, missing: Iterable[str]) -> None:
    """Refuse a folder that lacks tensors of the model."""
    if names := sorted(missing):
        raise ModelError(
            f"{name}: the file lacks {len(names)} of the model's tensors ({', '.join(names[:3])}, …); "
            "it is damaged, or does not belong to its config.json"
        )


@torch.no_grad()
def _zero_biases(model: PreTrainedModel, names: Iterable[str]) -> None:
    """Start new biases from zero: transformers leaves Longformer's for masked tokens uninitialized."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in names and name.endswith("bias"):
            parameter.zero_()


def _head_names(model: PreTrainedModel, layers: LayerMap) -> set[str]:
    """The parameters of the head under all their names, as a tied one has several, and its running statistics."""
    own = {id(parameter) for parameter in layers.head.parameters.values()}
    names = {name for name, parameter in model.named_parameters(remove_duplicate=False) if id(parameter) in own}
    return names | {name for name, _ in model.named_buffers() if not name.startswith(f"{model.base_model_prefix}.")}


def _reinitialize_head(model: PreTrainedModel, layers: LayerMap) -> set[str]:
    """Re-initialize what lies outside the encoder, and give the names of its parameters."""
    base = f"{model.base_model_prefix}."
    head = {key: p for key, p in layers.head.parameters.items() if not key.startswith(base)}
    return reinitialize_parameters(model, head)


def _flags(name: str) -> dict[str, bool]:
    """Arguments of every loading, after a local folder was checked: run no code, and download nothing for a folder."""
    if Path(name).is_dir():
        check_folder(name)
        return {"trust_remote_code": False, "local_files_only": True}
    if Path(name).exists():
        raise ModelError(f"{name}: found a file, expected a model's folder or its name on the Hub")
    return {"trust_remote_code": False}


def _check_memory(name: str, build: Callable[[PretrainedConfig], nn.Module], config: PretrainedConfig) -> None:
    """Refuse a folder whose config describes a far larger model than its weights are, before memory is allocated."""
    if not Path(name).is_dir():
        return
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = build(copy.deepcopy(config))
    needed = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    most = bytes_of_weights(Path(name)) + SLACK
    if needed > most:
        raise ModelError(
            f"{Path(name) / 'config.json'}: describes a model of {needed:,} numbers, but the folder's weights are "
            f"{most - SLACK:,} bytes; expected a config and weights that belong together"
        )


@contextmanager
def _model_errors(name: str, *files: str) -> Iterator[None]:
    """Turn what the libraries raise about a model into an error that says what to do.

    Args:
        files: The files of the folder that are being read.
    """
    try:
        yield
    except (ModelError, PluginError):
        raise
    except ImportError as error:
        if (missing := missing_extra(name, error)) is None:
            raise _model_error(name, files, error) from None
        raise missing from None
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from None
    # A tokenizer that breaks inside raises PanicException, which is no Exception and has no name to import.
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _model_error(name, files, error) from None


def _model_error(name: str, files: tuple[str, ...], error: BaseException) -> ModelError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if files and all((Path(name) / file).is_file() for file in files):
        return ModelError(f"{name}: {' with '.join(files)} cannot be used: {reason}")
    if Path(name).is_dir():
        here = ", ".join(sorted(path.name for path in Path(name).iterdir())[:12]) or "nothing"
        hint = f"the folder holds {here}; expected config.json, model.safetensors and a tokenizer"
    else:
        hint = "there is no such folder here; a name on the Hub needs a network, or an earlier download"
    return ModelError(f"{name}: cannot be loaded as a model: {reason}\n{hint}")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep the progress bars and reports of transformers off the screen; ours replace them."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.logging.enable_progress_bar()
