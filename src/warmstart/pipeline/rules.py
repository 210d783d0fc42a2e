"""What `fit` does where the recipe leaves it open: rules by what is known before training, and what each rests on.

They are about heads and layers that a user has not touched. An encoder of sentences says in its folder how its
tokens are pooled; any other one is read by their mean. The measurements are of all-MiniLM-L6-v2, in
docs/results/defaults.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from warmstart.evaluation.records.training import RuleRecord, RuleValue
from warmstart.models.heads.selection import reads_first_token
from warmstart.models.sentence_transformers_folder import declared_pooling
from warmstart.pipeline.held_out import Candidates
from warmstart.pipeline.long_texts import slices_rules, visible_characters
from warmstart.pipeline.model_start import PROBE, reused_config
from warmstart.pipeline.prepare import Parts, fit_task
from warmstart.recipe import HeadOptions, LayerOptions, Recipe, TrainingOptions
from warmstart.recipe.recipe import LINEAR_PROBE as FROZEN
from warmstart.recipe.sweep_files import settings_in
from warmstart.runtime import processes
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import HasLinearProbe, SearchesDocuments
from warmstart.training.settings import SUPERVISED_CONTRASTIVE
from warmstart.training.trainable_task import ComparesRows

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FEW_ROWS = 1_600
"""Rows below which texts are drawn together by label before a regression tells them apart.

With 8 rows a label that was far better than cross-entropy on TREC (86 against 70% with a head that starts from a
probe), and as good as a regression on the frozen encoder on banking77, where cross-entropy with a new head was 30
points worse; from the same start, it was 2.6 points ahead of cross-entropy on average over six datasets
(docs/results/default-parts.md). With 64 rows a label it was as good as cross-entropy on TREC (92.2 against 91.6%) at a
third of the time; on rt-polarity it was as good with 250 (78.8 against 79.2%)."""
STEPS, BATCH_SIZE, EPOCHS = 100, 16, 2
"""What that was measured with; more steps where these do not show every row twice."""
LONG_TEXT, LEAST_STEPS = 250, 25
"""Characters of a mean text from which on there are fewer steps, each of which takes longer, and the fewest.

On film reviews with 8 rows a label, of which 256 tokens are read, 100 steps took six times as long as ten epochs of a
plain Trainer for 56.8%, and 25 steps 1.3 times as long for 56.1% (one seed)."""
LEARNING_RATE = 1e-4
"""The peak learning rate for a head that starts from a probe: 79.2 against 78.8% on 500 rows of rt-polarity, and 80.6
against 51.2% on 770 rows of banking77, than with 5e-5 (docs/results/craft.md)."""
HELD_OUT_ROWS = FEW_ROWS, 20_000
"""Training rows from which on, and up to which, some are held out to choose by: between losses, between a bi-encoder
and a cross-encoder, and the final model.

With fewer, three trainings would take longer than the ten epochs that a plain Trainer is often given, and pairs are
read by a bi-encoder; with more, fine-tuning by the task's own loss is not in doubt."""
FEW_PAIRS = 200
"""Pairs below which nothing is trained but the head: on MRPC with 8 rows a label, fine-tuning lost 14 points to the
regression that it started from (51.5 against 65.4%). With e5-small, whose folder named no pooling, 300 steps of a
cross-encoder had 54.6% in 568 CPU seconds, and a regression on the frozen encoder has 72.1% in 54 (one seed)."""
PAIR_STEPS = 100
"""The fewest steps on pairs, each of which reads two texts a row: 300, on 500 pairs, took 435 CPU seconds."""
RANK_STEPS = 100
"""The fewest steps of a bi-encoder that ranks, each of which reads three texts a row or more.

On WikiQA (dev part, one seed), 100 steps on 79 questions had an nDCG@20 of 81.4 in 169 CPU seconds, and 300 steps 80.2
in 546; on all 873 questions, 83.7 in 226 and 83.7 in 620."""
WORD_RATE, SMALL_ENCODER = 2e-4, 512
"""The peak learning rate where words are read by an encoder up to that hidden size (docs/results/tagging.md; of
relations, one seed in docs/howto/relation-extraction.md).

With mpnet-base, whose hidden size is 768, one of two trainings at 1e-4 failed on CoNLL-2003."""
FEW_SENTENCES = 3_200
"""Rows below which words are read in batches of 16; with more, three epochs are at least 300 steps of 32."""
_EXCLUDED = ("batch_tokens", "batching", "label_smoothing", "r_drop", "early_stopping_patience", "average_last_epochs")
"""Fields that a contrastive loss excludes, or makes pointless."""
_LENGTH = ("epochs", "min_steps", "max_steps", "batch_size", "learning_rate")
"""Fields by which a user has decided how to train."""
_PAIR_READER = "task.encoder"


@dataclass(frozen=True)
class Decision:
    """A recipe with every field decided that it leaves open, and why."""

    recipe: Recipe
    rules: list[RuleRecord]
    """The reason for each field that has not the usual value."""
    candidates: Candidates = field(default_factory=dict)
    """Ways to train among which held-out rows decide, by name; none where there is nothing to choose."""


def with_rules(recipe: Recipe, parts: Parts, config: PretrainedConfig) -> Decision:
    """The recipe with every field decided that it leaves open.

    Args:
        config: The config of the recipe's model.
    """
    if not _applies(recipe, config):
        return _with_slices(recipe, parts)
    task = fit_task(recipe, parts)
    if task.reads_words:
        return _words(recipe, parts, config)
    if isinstance(task, SearchesDocuments):
        return _ranked_documents(recipe)
    if not isinstance(task, HasLinearProbe):
        return Decision(_completed(recipe), [])
    if declared_pooling(recipe.model) is None:
        return _plain_encoder(recipe, parts, config, task)
    if _is_paired(task):
        return _pairs(recipe, parts)
    return _single_texts(recipe, parts, task)


def _words(recipe: Recipe, parts: Parts, config: PretrainedConfig) -> Decision:
    """Small encoders have a higher learning rate, and smaller batches if more rows in a step would only take longer."""
    training, rules = recipe.training, []
    few = len(parts.tables["train"]) < FEW_SENTENCES
    if config.hidden_size <= SMALL_ENCODER:
        if training.learning_rate is None:
            rules.append(
                RuleRecord("training.learning_rate", WORD_RATE, "the task is about words, and the encoder is small")
            )
        if few and training.batch_size is None and training.batch_tokens is None:
            rules.append(RuleRecord("training.batch_size", BATCH_SIZE, "the rows are few"))
    return Decision(_completed(settings_in(recipe, _settings(rules), "by rule")), rules)


def _ranked_documents(recipe: Recipe) -> Decision:
    """An encoder of sentences needs fewer steps for what it was trained to do, compare queries and documents."""
    options = recipe.task.options
    of_sentences = declared_pooling(recipe.model) is not None or bool(options.get("query_prompt"))
    rules = [RuleRecord("training.min_steps", RANK_STEPS, "the encoder compares texts already")]
    if not of_sentences or options.get("encoder") == "cross" or _set_by_user(recipe):
        rules = []
    return Decision(_completed(settings_in(recipe, _settings(rules), "by rule")), rules)


def _plain_encoder(recipe: Recipe, parts: Parts, config: PretrainedConfig, task: AnyTask) -> Decision:
    """An encoder that was not trained for sentences: the rules of one, for what they were measured on."""
    rows = len(parts.tables["train"])
    few_pairs = _is_paired(task) and rows < FEW_PAIRS and recipe.task.options.get("encoder", "auto") == "auto"
    measured = few_pairs or (_is_compared(task) and rows <= HELD_OUT_ROWS[1])
    if not measured or not reads_first_token(config) or _set_by_user(recipe):
        return Decision(_completed(recipe), [])
    read = RuleRecord("head.pooling", "mean", "the encoder's folder names none, and a regression needs one")
    pooled = settings_in(recipe, _settings([read]), "by rule")
    decision = _pairs(pooled, parts) if few_pairs else _single_texts(pooled, parts, task)
    return replace(decision, rules=[read, *decision.rules])


def _single_texts(recipe: Recipe, parts: Parts, task: AnyTask) -> Decision:
    labels = _count_labels(parts) if _is_compared(task) else 0
    own = _set_by_user(recipe)
    if labels and not own and _holds_out(recipe, parts):
        candidates = {
            "cross-entropy": _settings(_probe_start(recipe)),
            "contrastive": _contrastive(recipe, parts),
        }
        return Decision(_completed(recipe), [], candidates)
    if labels == 0 or len(parts.tables["train"]) >= FEW_ROWS:
        return _decided(recipe, _probe_start(recipe), parts)
    if not own:
        return _decided(recipe, _few_rows(recipe, parts, labels), parts)
    kept = RuleRecord("training.loss", "task", f"there are few rows, but {', '.join(own)} is set")
    return _decided(recipe, [kept, *_probe_start(recipe)], parts)


def _with_slices(recipe: Recipe, parts: Parts) -> Decision:
    """A linear probe that a user asks for reads few long texts as one by rule does."""
    rules: list[RuleRecord] = []
    frozen = recipe.head.init == PROBE and recipe.layers.freeze == "encoder"
    if frozen and declared_pooling(recipe.model) is not None and len(parts.tables["train"]) < FEW_ROWS:
        rules = slices_rules(recipe, parts.tables["train"]) if _is_compared(fit_task(recipe, parts)) else []
    return Decision(_completed(settings_in(recipe, _settings(rules), "by rule")), rules)


def _is_compared(task: AnyTask) -> bool:
    """Whether each row is one text with one label, so that rows can be compared."""
    return isinstance(task, ComparesRows) and task.has_row_labels and not task.pair


def _is_paired(task: AnyTask) -> bool:
    """Whether each row is a pair of texts that an encoder can read together or apart."""
    return task.pair and not task.separate_texts


def _few_rows(recipe: Recipe, parts: Parts, labels: int) -> list[RuleRecord]:
    """Texts are drawn together by label before a regression tells them apart."""
    rows = len(parts.tables["train"])
    reasons = {
        "training.loss": f"{rows:,} rows with {labels} labels are few",
        "training.max_steps": "a contrastive loss needs few steps",
        "training.batch_size": "it goes with the steps",
        "head.init": "a regression shows what the encoder's features are worth",
        "head.refit": "a contrastive loss trains no head",
    }
    read = slices_rules(recipe, parts.tables["train"])
    if read:
        read.append(RuleRecord("training.slices_per_text", 1, "a step takes less time, and each epoch sees others"))
    settings = _contrastive(settings_in(recipe, _settings(read), "by rule"), parts)
    return [*read, *(RuleRecord(name, settings[name], reason) for name, reason in reasons.items())]


def _contrastive(recipe: Recipe, parts: Parts) -> dict[str, RuleValue]:
    rows = parts.tables["train"]
    seen = visible_characters(recipe)
    length = math.fsum(min(len(text), seen) for text in rows.column("text")) / len(rows)
    steps = min(max(round(STEPS * LONG_TEXT / length), LEAST_STEPS), STEPS)
    return {
        "training.loss": SUPERVISED_CONTRASTIVE,
        "training.max_steps": max(steps, math.ceil(len(rows) * EPOCHS / BATCH_SIZE)),
        "training.batch_size": BATCH_SIZE,
        "head.init": PROBE,
        "head.refit": True,
    }


def _probe_start(recipe: Recipe) -> list[RuleRecord]:
    start = RuleRecord(
        "head.init", PROBE, "a regression on the encoder's features is a better start than random numbers"
    )
    if recipe.training.learning_rate is not None:
        return [start]
    return [start, RuleRecord("training.learning_rate", LEARNING_RATE, "the head starts from a regression")]


def _pairs(recipe: Recipe, parts: Parts) -> Decision:
    """A bi-encoder for few pairs; for many, what held-out rows say."""
    if recipe.task.options.get("encoder", "auto") != "auto":
        return Decision(_completed(recipe), [])
    if len(parts.tables["train"]) < FEW_PAIRS and not _set_by_user(recipe):
        apart = RuleRecord(_PAIR_READER, "bi", "a regression compares the vectors of the two texts")
        frozen = [RuleRecord(name, value, "the pairs are too few to change it") for name, value in FROZEN.items()]
        return _decided(recipe, [apart, *frozen], parts)
    apart = RuleRecord(_PAIR_READER, "bi", "the encoder was trained to compare vectors of single texts")
    shorter = [RuleRecord("training.min_steps", PAIR_STEPS, "the head starts from a regression")]
    length = [] if _set_by_user(recipe) else shorter
    decision = _decided(recipe, [apart, *_probe_start(recipe), *length], parts)
    if not decision.candidates:
        return decision
    cross: dict[str, RuleValue] = {_PAIR_READER: "cross"}
    return Decision(_completed(recipe), [], {"bi": _settings(decision.rules), "cross": cross})


def _decided(recipe: Recipe, rules: list[RuleRecord], parts: Parts) -> Decision:
    """The recipe by these rules, and how its final model is chosen."""
    if recipe.training.final_model == "auto" and "dev" in parts.tables:
        rules = [*rules, RuleRecord("training.final_model", "dev", "there are dev rows to choose by")]
    decided = _completed(settings_in(recipe, _settings(rules), "by rule"))
    return Decision(decided, rules, {"": {}} if _holds_out(recipe, parts) else {})


def _settings(rules: Iterable[RuleRecord]) -> dict[str, RuleValue]:
    return {rule.field: rule.value for rule in rules}


def _holds_out(recipe: Recipe, parts: Parts) -> bool:
    least, most = HELD_OUT_ROWS
    open_choice = recipe.training.final_model == "auto" and "dev" not in parts.tables
    if recipe.training.time_limit is not None:  # which may not suffice for one training
        return False
    return open_choice and least <= len(parts.tables["train"]) <= most and processes.world_size() == 1


def _completed(recipe: Recipe) -> Recipe:
    """The recipe with the usual value of every field that it leaves open."""
    head, training = recipe.head, recipe.training
    head = head.model_copy(
        update={"init": "random" if head.init == "auto" else head.init, "refit": bool(head.refit)},
    )
    usual = {"loss": "task", "final_model": "fine-tuned"}
    training = training.model_copy(
        update={name: value for name, value in usual.items() if getattr(training, name) == "auto"}
    ).completed()
    window = recipe.window.model_copy(update={"method": recipe.window.method_or_head})
    return recipe.model_copy(update={"head": head, "training": training, "window": window})


def _applies(recipe: Recipe, config: PretrainedConfig) -> bool:
    """Whether the rules are about such a training: by a new head that is left open."""
    untouched = recipe.head.model_copy(update={"reuse": True}) == HeadOptions() and recipe.layers == LayerOptions()
    return (
        untouched
        and recipe.training.loss == "auto"
        and recipe.window.method != "slices"
        and reused_config(recipe, config) is None
    )


def _count_labels(parts: Parts) -> int:
    return len(set(parts.tables["train"].column("label")))


def _set_by_user(recipe: Recipe) -> list[str]:
    """The fields by which a user has decided how to train, or that a contrastive loss excludes."""
    training, plain = recipe.training, TrainingOptions()
    names = [name for name in (*_LENGTH, *_EXCLUDED) if getattr(training, name) != getattr(plain, name)]
    fields = [f"training.{name}" for name in names]
    return [*fields, "task.class_weight"] if recipe.task.options.get("class_weight") else fields
