"""Opening a pretrained encoder and its tokenizer, with a head on top, from a folder or a name on the Hub."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from warmstart.errors import ModelError, RecipeError
from warmstart.models.architectures import encoder_config, is_pooled, row_of
from warmstart.models.heads.pooled import encoder_class, encoder_options, open_encoder
from warmstart.models.heads.selection import SEQUENCE, PoolingChoice, check_stock, head_config, own_class
from warmstart.models.japanese_tokenizers import give_segments, missing_extra
from warmstart.models.layer_map import LayerMap
from warmstart.models.reinit import draw
from warmstart.models.security.folder import WEIGHTS, check_folder
from warmstart.models.security.tensors import bytes_of_weights

MASKED = "AutoModelForMaskedLM"
BARE = "AutoModel"
"""The Auto class of an encoder without a head."""

PROBE = "A first text: words, 12.5 and 3 000; l'été, 漢字, 👍🏽\n\tend"
"""Encoded once when a tokenizer is opened, so that one that breaks does so there."""
SLACK = 1 << 26
"""Numbers that a model may have beyond its file: a new head, embeddings that are shared."""


@dataclass(frozen=True)
class Loaded:
    """A model with a head, and what of it was not in the file."""

    model: Any
    fresh: tuple[str, ...]
    """Parameters that start from random numbers: a new head's."""
    unused: tuple[str, ...]
    """Tensors in the file that the model has no place for, such as another task's head."""


def load_config(name: str) -> Any:
    """The config of a model; runs no code that comes with it."""
    with _in_our_words(name, "config.json"):
        return transformers.AutoConfig.from_pretrained(name, **_flags(name))


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model; runs no code that comes with it."""
    with _in_our_words(name, "tokenizer.json", "tokenizer_config.json"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **_flags(name))
        tokenizer(PROBE)
    if not tokenizer.is_fast:
        with suppress(ModelError):  # a folder may hold a tokenizer alone
            give_segments(tokenizer, encoder_config(load_config(name)))
    if tokenizer.pad_token_id is None:
        # Decoder-type encoders often come without one; padding is masked, so any token will do.
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{name}: its tokenizer has neither a padding nor an end token, so texts cannot be batched")
    return tokenizer


def has_head(config: Any, auto_class: str) -> bool:
    """Whether the saved model has the head of an Auto class already."""
    kind = auto_class.removeprefix(BARE)
    kinds = (kind, "LMHeadModel") if kind == "ForCausalLM" else (kind,)
    if auto_class == MASKED and row_of(config).pair:
        kinds = (kind, "ForPreTraining")
    # XLNet has two heads for spans; the one that the Auto class takes has "Simple" behind its name.
    return bool(kind) and any(name.removesuffix("Simple").endswith(kinds) for name in config.architectures or ())


def load_encoder(
    name: str,
    auto_class: str,
    config: Mapping[str, Any],
    tokenizer: Any,
    reuse_head: bool = True,
    pooling: PoolingChoice = PoolingChoice(),  # noqa: B008
    weights: bool = True,
) -> Loaded:
    """Open an encoder with a head on top, weights in 32 bits whatever the file holds.

    Args:
        auto_class: The `transformers` Auto class whose head is wanted.
        config: What the model's config must say: its labels, its kind of problem.
        weights: Without, all start from random numbers, and the file is not opened: to count what the model costs.
        reuse_head: Take the head in the folder, if there is one; else a new one from the random state.
        pooling: What the head is to read; where no stock head does, ours is taken.
    """
    found = load_config(name)
    if auto_class == BARE:
        return _bare(name, found, pooling, weights)
    kept = reuse_head and has_head(found, auto_class)
    wanted = head_config(found, pooling, kept, auto_class)
    if auto_class != SEQUENCE and not is_pooled(wanted):
        check_stock(name, wanted, auto_class)
    for key, value in config.items():
        setattr(wanted, key, value)
    if encoder_config(wanted).pad_token_id is None:
        encoder_config(wanted).pad_token_id = tokenizer.pad_token_id
    # With a stock head for pairs comes a pooler; the model without would lose what the folder has of it.
    more = row_of(wanted).pair if auto_class == MASKED else ()
    kind = transformers.AutoModelForPreTraining if more else getattr(transformers, auto_class)
    with _in_our_words(name, "config.json", WEIGHTS), quietly():
        _check_memory(name, kind.from_config, wanted)
        if not weights:
            return Loaded(kind.from_config(wanted, dtype=torch.float32), (), ())
        if not kept and (is_pooled(found) or is_pooled(wanted)):
            return _move(name, found, wanted, own_class(auto_class) if is_pooled(wanted) else kind)
        model, report = _from_file(kind, name, wanted, ignore_mismatched_sizes=not reuse_head)
    fresh = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    layers = LayerMap.of(model)
    # A head may be new only where the folder claims none; the encoder's tensors must all be there.
    _check_whole(name, {key for key in fresh if not key.startswith(more)} - (set() if kept else _names(model, layers)))
    if auto_class == MASKED:
        _zero_biases(model, fresh)
    if not reuse_head:
        fresh |= _draw_head(model, layers)
    return Loaded(model, tuple(sorted(fresh)), tuple(sorted(report["unexpected_keys"])))


def _bare(name: str, found: Any, pooling: PoolingChoice, weights: bool) -> Loaded:
    """Open an encoder without a head or a pooler, from under whatever head the folder has."""
    if pooling.slices:
        raise RecipeError("window.method: found slices, and this task has no head to join them; say head or head+tail")
    if not pooling.free:
        raise RecipeError(
            "layers: pool, tokens, head and freeze: encoder are about a head, and this task has none; leave them out, "
            "or learn to rank with task.kind: cross, which has one"
        )
    kind = encoder_class(encoder_config(found))
    with _in_our_words(name, "config.json", WEIGHTS), quietly():
        _check_memory(name, lambda config: kind(encoder_config(config)), found)
        if not weights:
            return Loaded(open_encoder(encoder_config(found)), (), ())
        if is_pooled(found):
            whole, report = _from_file(_own(found), name, found)
            model = whole.encoder
        else:
            model, report = _from_file(kind, name, found, **encoder_options(found))
    _check_whole(name, report["missing_keys"])
    return Loaded(model, (), tuple(sorted(report["unexpected_keys"])))


def load_plain(name: str) -> Any:
    """Open a model with whatever head it was saved with, or none, to look at."""
    config = load_config(name)
    saved = [getattr(transformers, kind, None) for kind in config.architectures or ()]
    # The folder names the class, so it is taken only if it is a model of the config's own architecture.
    kind = next((one for one in saved if getattr(one, "config_class", None) is type(config)), None)
    if is_pooled(config):
        kind = _own(config)
    with _in_our_words(name, "config.json", WEIGHTS), quietly():
        _check_memory(name, kind or transformers.AutoModel.from_config, config)
        model = kind or transformers.AutoModel
        return model.from_pretrained(name, config=config, dtype=torch.float32, **_flags(name), use_safetensors=True)


def load_alone(name: str) -> Any:
    """Open the encoder of a model alone, weights in 32 bits, without the head or pooler that it may come with."""
    config = load_config(name)
    with _in_our_words(name, "config.json", WEIGHTS), quietly():
        _check_memory(name, open_encoder, encoder_config(config))
        return _encoder_of(name, config, config)[0]


def most_tokens(config: Any, tokenizer: Any) -> int:
    """The longest text the encoder takes, in tokens, special ones included."""
    config = encoder_config(config)
    limits = [tokenizer.model_max_length]
    positions = getattr(config, "max_position_embeddings", None)
    if positions and positions > 0:
        limits.append(positions - (config.pad_token_id + 1 if row_of(config).late_positions else 0))
    return int(min(limits))


def _from_file(kind: Any, name: str, config: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A model with the folder's weights, and the library's report of what was missing or left over."""
    return kind.from_pretrained(  # type: ignore[no-any-return]
        name,
        config=config,
        dtype=torch.float32,
        **_flags(name),
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )


def _move(name: str, found: Any, wanted: Any, kind: Any) -> Loaded:
    """Put the folder's encoder under a new head, where one of the two models is our own."""
    encoder, unused = _encoder_of(name, found, encoder_config(wanted))
    if is_pooled(wanted):
        model = kind(wanted, encoder)
        fresh = {key for key, _ in model.named_parameters() if not key.startswith("encoder.")}
    else:
        model = kind.from_config(wanted)
        missing = model.base_model.load_state_dict(encoder.state_dict(), strict=False).missing_keys
        base = f"{model.base_model_prefix}."
        fresh = {key for key, _ in model.named_parameters() if not key.startswith(base)} | {
            base + key for key in missing
        }
        _check_whole(name, fresh - set(LayerMap.of(model).head.parameters))
    return Loaded(model, tuple(sorted(fresh)), tuple(sorted(unused)))


def _encoder_of(name: str, found: Any, config: Any) -> tuple[Any, set[str]]:
    """The folder's encoder without head or pooler, and the names of the tensors that were left."""
    if is_pooled(found):
        whole, report = _from_file(_own(found), name, found)
        encoder, above = whole.encoder, {key for key in whole.state_dict() if not key.startswith("encoder.")}
    else:
        encoder, report = _from_file(encoder_class(found), name, config, **encoder_options(found))
        above = set()
    _check_whole(name, report["missing_keys"])
    return encoder, {*above, *report["unexpected_keys"]}


def _own(found: Any) -> Any:
    """The class of our own model that a config of ours was saved with."""
    return own_class(str((found.architectures or [""])[0]))


def _check_whole(name: str, lost: Iterable[str]) -> None:
    """Refuse a folder that lacks tensors of the model."""
    if some := sorted(lost):
        raise ModelError(
            f"{name}: the file lacks {len(some)} of the model's tensors ({', '.join(some[:3])}, …); "
            "it is damaged, or not what its config.json says"
        )


@torch.no_grad()
def _zero_biases(model: Any, fresh: Iterable[str]) -> None:
    """Start new biases from zero: transformers leaves Longformer's for masked tokens as memory happens to be."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in fresh and name.endswith("bias"):
            parameter.zero_()


def _names(model: Any, layers: LayerMap) -> set[str]:
    """The parameters of the head under all their names: one that is tied has several."""
    own = {id(parameter) for parameter in layers.head.parameters.values()}
    return {name for name, parameter in model.named_parameters(remove_duplicate=False) if id(parameter) in own}


def _draw_head(model: Any, layers: LayerMap) -> set[str]:
    """Replace what lies outside the encoder by a newly drawn head, and name its parameters."""
    base = f"{model.base_model_prefix}."
    return draw(model, {key: p for key, p in layers.head.parameters.items() if not key.startswith(base)})


def _flags(name: str) -> dict[str, Any]:
    """What every opening says, after a local folder was looked through: run nothing, and fetch nothing for a folder."""
    if Path(name).is_dir():
        check_folder(name)
        return {"trust_remote_code": False, "local_files_only": True}
    if Path(name).exists():
        raise ModelError(f"{name}: found a file, expected a model's folder or its name on the Hub")
    return {"trust_remote_code": False}


def _check_memory(name: str, build: Callable[[Any], Any], config: Any) -> None:
    """Refuse a folder whose config asks for a far larger model than its weights are, before memory is taken for it."""
    if not Path(name).is_dir():
        return
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = build(copy.deepcopy(config))
    needed = sum(one.numel() for one in (*model.parameters(), *model.buffers()))
    most = bytes_of_weights(Path(name)) + SLACK
    if needed > most:
        raise ModelError(
            f"{Path(name) / 'config.json'}: describes a model of {needed:,} numbers, but the folder's weights are "
            f"{most - SLACK:,} bytes; expected a config and weights that belong together"
        )


@contextmanager
def _in_our_words(name: str, *files: str) -> Iterator[None]:
    """Turn what the libraries raise about a model into an error that says what to do.

    Args:
        files: The files of the folder that are being opened.
    """
    try:
        yield
    except ModelError:
        raise
    except ImportError as error:
        if (missing := missing_extra(name, error)) is None:
            raise _told(name, files, error) from None
        raise missing from None
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from None
    # A tokenizer that breaks inside raises PanicException, which is no Exception and has no name to import.
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _told(name, files, error) from None


def _told(name: str, files: tuple[str, ...], error: BaseException) -> ModelError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if files and all((Path(name) / file).is_file() for file in files):
        return ModelError(f"{name}: {' with '.join(files)} cannot be used: {reason}")
    if Path(name).is_dir():
        here = ", ".join(sorted(path.name for path in Path(name).iterdir())[:12]) or "nothing"
        hint = f"the folder holds {here}; expected config.json, model.safetensors and a tokenizer"
    else:
        hint = "there is no such folder here; a name on the Hub needs a network, or an earlier download"
    return ModelError(f"{name}: cannot be opened as a model: {reason}\n{hint}")


@contextmanager
def quietly() -> Iterator[None]:
    """Keep the library's bars and reports off the screen: ours say what matters of them."""
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
