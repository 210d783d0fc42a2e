"""What `fit` does where the recipe leaves it open: rules by what is known before training, and what each rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmstart.evaluation.records.training import RuleRecord
from warmstart.models.sentence_transformers_folder import declared_pooling
from warmstart.pipeline.model_start import PROBE, reused_config
from warmstart.pipeline.prepare import Parts, fit_task
from warmstart.recipe import HeadOptions, LayerOptions, Recipe, TrainingOptions
from warmstart.recipe.sweep_files import settings_in
from warmstart.training.settings import SUPERVISED_CONTRASTIVE
from warmstart.training.trainable_task import ComparesRows

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FEW_ROWS = 32
"""Rows a label, on average, up to which texts are drawn together by label before a regression tells them apart.

With 8, that was far better than cross-entropy on TREC (86 against 70% with a head that starts from a probe), and as
good as a regression on the frozen encoder on banking77, where cross-entropy with a new head was 30 points worse. With
64, it was no better than cross-entropy on TREC. All-MiniLM-L6-v2; where between 8 and 64 the line is was not measured.
"""
STEPS, BATCH_SIZE = 100, 16
"""What that was measured with."""
_EXCLUDED = ("batch_tokens", "batching", "label_smoothing", "r_drop", "early_stopping_patience", "average_last_epochs")
"""Fields that a contrastive loss excludes, or makes pointless."""
_LENGTH = ("epochs", "min_steps", "max_steps", "batch_size", "learning_rate")
"""Fields by which a user has decided how to train."""


def with_rules(recipe: Recipe, parts: Parts, config: PretrainedConfig) -> tuple[Recipe, list[RuleRecord]]:
    """The recipe with every field decided that it leaves open, and the reason for each that is not the usual value.

    Args:
        config: The config of the recipe's model.
    """
    task = fit_task(recipe, parts) if _applies(recipe, parts, config) else None
    labels = _few_rows(parts) if isinstance(task, ComparesRows) and task.has_row_labels else 0
    if labels and (own := _set_by_user(recipe)):
        kept = RuleRecord("training.loss", "task", f"there are few rows a label, but {', '.join(own)} is set")
        return _completed(recipe), [kept]
    if not labels:
        return _completed(recipe), []
    few = f"{len(parts.tables['train']):,} rows with {labels} labels are few"
    rules = [
        RuleRecord("training.loss", SUPERVISED_CONTRASTIVE, few),
        RuleRecord("training.max_steps", STEPS, "a contrastive loss needs few steps"),
        RuleRecord("training.batch_size", BATCH_SIZE, "as the steps"),
        RuleRecord("head.init", PROBE, "a regression on the encoder's features shows what they are worth"),
        RuleRecord("head.refit", True, "a contrastive loss trains no head"),
    ]
    return settings_in(recipe, {rule.field: rule.value for rule in rules}, "by rule"), rules


def _completed(recipe: Recipe) -> Recipe:
    """The recipe with the usual value of every field that it leaves open."""
    head, training = recipe.head, recipe.training
    head = head.model_copy(
        update={"init": "random" if head.init == "auto" else head.init, "refit": bool(head.refit)},
    )
    training = training.model_copy(update={"loss": "task" if training.loss == "auto" else training.loss})
    return recipe.model_copy(update={"head": head, "training": training})


def _applies(recipe: Recipe, parts: Parts, config: PretrainedConfig) -> bool:
    """Whether the rule is about such a training: of single texts, by a new head on an encoder of sentences.

    Two texts read as one are left out: the vector of an encoder that never saw pairs says nothing about them.
    """
    untouched = recipe.head.model_copy(update={"reuse": True}) == HeadOptions() and recipe.layers == LayerOptions()
    return (
        untouched
        and recipe.training.loss == "auto"
        and recipe.window.method != "slices"
        and "pair" not in parts.tables["train"].rows.column_names
        and reused_config(recipe, config) is None
        and declared_pooling(recipe.model) is not None
    )


def _few_rows(parts: Parts) -> int:
    """How many labels there are, if there are few rows of each; otherwise 0."""
    labels = len(set(parts.tables["train"].column("label")))
    return labels if len(parts.tables["train"]) <= FEW_ROWS * labels else 0


def _set_by_user(recipe: Recipe) -> list[str]:
    """The fields by which a user has decided how to train, or that a contrastive loss excludes."""
    training, plain = recipe.training, TrainingOptions()
    names = [name for name in (*_LENGTH, *_EXCLUDED) if getattr(training, name) != getattr(plain, name)]
    fields = [f"training.{name}" for name in names]
    return [*fields, "task.class_weight"] if recipe.task.options.get("class_weight") else fields
