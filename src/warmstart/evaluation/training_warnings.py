"""Warnings of a finished run: what its training shows that its exit code does not, and what to try."""

from __future__ import annotations

from collections.abc import Iterator

from warmstart import tasks
from warmstart.evaluation.records.linear_probe import ProbeRecord, TfidfRecord
from warmstart.evaluation.records.metrics import Headline, headline_of
from warmstart.evaluation.records.search_baseline import read_search_baseline
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import RunResult, read_result

HARDLY = 0.85
"""The share of its first value above which a loss has hardly fallen."""
BELOW = 0.05
"""How far a search may be below one that was measured on other queries before training, by chance."""
UNSEEN = 0.3
"""The share of tokens that the encoder does not see above which a model of whole texts may well be better."""
ENTRIES = 5
"""Logged losses below which nothing is said about how they fell."""


def training_warnings(run: RunFolder, result: RunResult | None = None) -> list[str]:
    """Reasons to doubt that a finished run learned what its rows can teach, one sentence each.

    Args:
        result: The run's result, where it was read already.
    """
    if result is None and headline_of(run.metrics) is not None:
        result = read_result(run.folder, run.folder.name, run.recipe.seed)
    failed = [f"the run counts as failed: {result.failed}; {_advice(run)}"] if result and result.failed else []
    return [*failed, *_loss(run), *_below_the_probe(run), *_below_tfidf(run), *_below_the_search(run), *_unseen(run)]


def _loss(run: RunFolder) -> Iterator[str]:
    """A new head starts from chance: a loss close to where it began means that little was learned."""
    training = run.training
    losses = [entry["loss"] for entry in training.history if "loss" in entry]
    if len(losses) < ENTRIES or not training.new_parameters or training.linear_probe:
        return
    first, last = losses[0], losses[-1]
    if last > HARDLY * first > 0:
        yield f"the training loss hardly fell, from {first:.2f} to {last:.2f}; {_advice(run)}"


def _below_the_probe(run: RunFolder) -> Iterator[str]:
    probe, headline = run.training.linear_probe, headline_of(run.metrics)
    if probe is None or headline is None or headline.name != probe.metric or not run.training.steps:
        return
    if (score := _score_below(headline, probe)) is not None:
        yield (
            f"{headline.name} {headline.value:.3f} on {headline.part} is below the {score:.3f} of the linear "
            "probe that training started from; lower the learning rate, train for fewer steps, or keep the probe "
            "itself (--quick)"
        )


def _score_below(headline: Headline, baseline: ProbeRecord | TfidfRecord) -> float | None:
    """The score of a baseline where the run's own is below its interval, and below it on the same test rows too."""
    half, on_test = baseline.half_width or 0.0, baseline.on_test if headline.part == "test" else None
    below = baseline.value is not None and headline.value < baseline.value - half
    if on_test is None:
        return baseline.value if below else None
    below = below or (on_test.low is not None and headline.value < on_test.low)
    return on_test.value if below and headline.value < on_test.value else None


def _below_tfidf(run: RunFolder) -> Iterator[str]:
    """Counting words was better, which needs no encoder: this one may not know the language or the field."""
    probe, headline = run.training.linear_probe, headline_of(run.metrics)
    if probe is None or probe.tfidf is None or headline is None or headline.name != probe.tfidf.metric:
        return
    if (score := _score_below(headline, probe.tfidf)) is not None:
        yield (
            f"{headline.name} {headline.value:.3f} on {headline.part} is below the {score:.3f} of TF-IDF "
            f"with a linear SVM ({probe.tfidf.score}); choose an encoder for the language and kind "
            "of the texts (warmstart scout), let it read more of them (window.max_tokens), or use TF-IDF itself"
        )


def _below_the_search(run: RunFolder) -> Iterator[str]:
    """A search that costs nothing was better, though it was measured on other queries."""
    baseline, headline = read_search_baseline(run.folder), headline_of(run.metrics)
    if baseline is None or headline is None or headline.name != baseline.metric:
        return
    if baseline.held_out.documents < baseline.held_out.of_documents:  # fewer are easier to rank
        return
    before = {"the encoder before training": baseline.scores.encoder, "BM25": baseline.scores.bm25}
    known = {name: value for name, value in before.items() if value is not None}
    name = max(known, key=lambda name: known[name], default="")
    if name and headline.value < known[name] - BELOW:
        yield (
            f"{headline.name} {headline.value:.3f} on {headline.part} is below the {known[name]:.3f} of {name} "
            f"{baseline.held_out.phrase}; lower the learning rate, train on more queries, or choose an encoder for "
            "the language of the texts"
        )


def _unseen(run: RunFolder) -> Iterator[str]:
    """Most of a long text lies outside the window, where simpler models look too."""
    window = run.training.window
    if window.train.share > UNSEEN:
        yield (
            f"the encoder does not see {window.train.share:.0%} of the training rows' tokens ({window.summary()}), but "
            "TF-IDF with logistic regression would; read more of each text (window.max_tokens, or window.method: "
            "slices)"
        )


def _advice(run: RunFolder) -> str:
    advice = ["train longer (training.min_steps)", "raise the learning rate"]
    task, options = tasks.with_options(run.recipe.task.name, run.recipe.task.options)
    if hasattr(options, "class_weight") and not options.class_weight:
        advice.append("weigh rare labels more (task.class_weight: balanced)")
    if hasattr(task, "probe_kind"):
        advice.append("start from a linear probe (head.init: linear-probe)")
    return f"{', '.join(advice[:-1])}, or {advice[-1]}"
