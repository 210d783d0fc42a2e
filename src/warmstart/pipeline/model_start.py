"""The model as training starts from it, by its recipe: its head, what is re-initialized, and the window it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart import tasks
from warmstart.errors import RecipeError
from warmstart.models.added_tokens import resize_embeddings
from warmstart.models.architectures import is_pooled, spec_of
from warmstart.models.fewer_layers import keep_layers
from warmstart.models.heads.selection import TOKEN_CLASSES, HeadChoice, compares_texts, reads_first_token
from warmstart.models.loading import LoadedModel, has_head, load_model, max_tokens_of
from warmstart.models.lora import add_lora
from warmstart.models.pooling import COMPARE, MARKED_POOLINGS
from warmstart.models.reinit import reinitialize
from warmstart.models.sentence_transformers_folder import declared_pooling
from warmstart.pipeline.prompts import check_prompt, with_prompts
from warmstart.recipe import HeadOptions, LayerOptions, Recipe
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import ReadsWindows, extended_model
from warmstart.text.windows import DEFAULT_TOKENS, Frame, Window

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

PROBE = "linear-probe"
"""The `head.init` by which the head starts from a linear model on the encoder's features."""


def load_start(
    recipe: Recipe,
    config: PretrainedConfig,
    task: AnyTask,
    tokenizer: PreTrainedTokenizerBase,
    window: Window,
    weights: bool = True,
) -> LoadedModel:
    """The model as training starts from it.

    Args:
        weights: Load the encoder's weights; without, they are random, to count what a model costs before it is loaded.
    """
    head = head_choice(recipe, config, window, task)
    loaded = load_model(recipe.model, task.auto_class, task.config_kwargs(), tokenizer, head, weights=weights)
    if task.new_tokens:
        resize_embeddings(loaded.model, tokenizer)
    folder = reused_folder(recipe, config) if weights else None
    return _changed(replace(loaded, model=extended_model(task, loaded.model, folder)), recipe.layers, recipe.head)


def head_choice(recipe: Recipe, config: PretrainedConfig, window: Window, task: AnyTask) -> HeadChoice:
    """The head that the recipe asks for, or the task where it has its own."""
    pooling, own = recipe.head.pooling, task.pooling
    if own != "auto" and pooling != "auto":
        raise RecipeError(f"head.pooling: found {pooling}, but {task.name} sets the pooling by its own options")
    if (
        own == "auto"
        and reused_config(recipe, config) is not None
        and getattr(config, "pooling", None) in MARKED_POOLINGS
    ):
        raise RecipeError(
            "head.reuse: the model's head reads marked entities, as for relate; set head.reuse: false for a new one"
        )
    if reused_config(recipe, config) is not None and compares_texts(config) != task.separate_texts:
        kind = "bi" if compares_texts(config) else "cross"
        raise RecipeError(f"head.reuse: the model's head is for task.encoder: {kind}; set it, or head.reuse: false")
    slices: str | None = COMPARE if task.separate_texts else None
    if window.method == "slices" and not isinstance(task, ReadsWindows):
        slices = recipe.window.slice_pooling
    # A stock head cannot be given stored features, nor compare two texts.
    own_head = recipe.layers.freeze == "encoder" or recipe.head.init == PROBE or task.separate_texts
    head = "linear" if own_head and recipe.head.type == "auto" else recipe.head.type
    if pooling == own == "auto" and head in {"linear", "mlp"} and task.auto_class not in TOKEN_CLASSES:
        # A stock head reads what it was made for; a head of ours, what the encoder was trained to be read by.
        # The first token of an encoder that was not trained for it says next to nothing until it is fine-tuned.
        new = own_head and reused_config(recipe, config) is None
        unnamed = "mean" if new and reads_first_token(config) else "auto"
        pooling = declared_pooling(recipe.model) or unnamed
    lstm = recipe.head.bilstm_layers, recipe.head.bilstm_size
    return HeadChoice(recipe.head.layers, own if pooling == "auto" else pooling, head, slices, recipe.head.reuse, *lstm)


def _changed(loaded: LoadedModel, layers: LayerOptions, head: HeadOptions) -> LoadedModel:
    """The model as training starts from it: with fewer blocks, parts of it re-initialized, LoRA added."""
    if layers.num_layers is not None:
        keep_layers(loaded.model, layers.num_layers, layers.layer_choice)
    changed = reinitialize(loaded.model, layers.reinit_top, layers.reinit_norms, zero_head=head.init == "zero")
    if layers.lora:
        add_lora(loaded.model, layers.lora.rank, layers.lora.alpha, layers.lora.dropout)
    if layers.freeze == "encoder":
        loaded.model.encoder.requires_grad_(False)
    return replace(loaded, new_parameters=tuple(sorted({*loaded.new_parameters, *changed})))


def window_of(recipe: Recipe, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase, task: AnyTask) -> Window:
    """The recipe's window, refusing one that is wider than the encoder takes or leaves no room for text."""
    options, most = recipe.window, max_tokens_of(config, tokenizer)
    any_length = spec_of(config).carries_state and not is_pooled(config) and not isinstance(task, ReadsWindows)
    tokens = options.max_tokens or (most if any_length else min(most, DEFAULT_TOKENS))
    if tokens > most:
        raise RecipeError(f"window.max_tokens: found {tokens}, but {recipe.model} takes at most {most}")
    method, overlap = options.method_or_head, options.overlap or 0
    if method not in task.window_methods:
        raise RecipeError(f"window.method: found {method}, but {task.name} takes {', '.join(task.window_methods)}")
    if task.separate_texts and method == "slices":
        raise RecipeError("window.method: found slices, but task.encoder: bi reads two texts; set head or head+tail")
    if isinstance(task, ReadsWindows):
        if method not in {"head", "slices"} or options.max_slices or options.slice_pooling != "mean":
            raise RecipeError(f"window: {task.name} sees all of a text, window by window; set max_tokens and overlap")
        method, overlap = "slices", int(tokens * task.window_overlap) if options.overlap is None else options.overlap
    elif method == "slices":
        tokens = min(tokens, options.slice_tokens or tokens)
    if recipe.training.slices_per_text is not None and (method != "slices" or isinstance(task, ReadsWindows)):
        raise RecipeError(
            f"training.slices_per_text: found {recipe.training.slices_per_text}, but {task.name} with window.method: "
            f"{options.method_or_head} has no slices of a text; set window.method: slices, or leave it out"
        )
    try:
        prompt = with_prompts(recipe)[0].data.prompt
        window = Window(tokens, method, options.head_tokens, overlap, options.max_slices, prompt)
        pair = task.pair and not task.separate_texts
        frame = Frame.of(tokenizer, pair)
        window.check(frame, pair)
    except ValueError as error:
        raise RecipeError(f"window.{error}") from None
    check_prompt(window, frame, tokenizer)
    return window


def reused_folder(recipe: Recipe, config: PretrainedConfig) -> Path | None:
    """The folder whose head is reused, with what the task added to it."""
    return Path(recipe.model) if reused_config(recipe, config) is not None and Path(recipe.model).is_dir() else None


def reused_config(recipe: Recipe, config: PretrainedConfig) -> PretrainedConfig | None:
    """The config of the head that is reused; None where the head is new."""
    options = tasks.options_of(recipe.task.name, recipe.task.options)
    auto_class = tasks.find(recipe.task.name).auto_class_for(options)
    return config if recipe.head.reuse and has_head(config, auto_class) else None
