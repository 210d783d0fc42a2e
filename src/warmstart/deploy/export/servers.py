"""Handing a model folder to another server: whether it lists the model, how it is started, and what it would not do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.errors import ModelError
from warmstart.inference.ensembles import members_of
from warmstart.inference.predictor import model_folder
from warmstart.models.architectures import is_pooled
from warmstart.models.loading import load_config, load_tokenizer, most_tokens
from warmstart.storage.artifacts import verify
from warmstart.tasks.base import Task
from warmstart.tasks.shared.task_config import open_task, saved_temperature
from warmstart.text.windows import Window

KINDS = {
    "AutoModelForSequenceClassification": "classify",
    "AutoModelForTokenClassification": "tokens",
    "AutoModel": "embed",
}
"""What a server calls the work of a model, by the Auto class of its head; what is not here, none of them does."""


@dataclass(frozen=True)
class Server:
    """A server, and the models that it lists, by the name in `architectures` of their config.

    Attributes:
        page: Where they are listed, and when that was read.
    """

    name: str
    page: str
    models: Mapping[str, tuple[str, ...]]


SERVERS = {
    "tei": Server(
        "text-embeddings-inference",
        "https://huggingface.co/docs/text-embeddings-inference/supported_models (with its source, read 2026-11-15)",
        {
            "embed": (
                "BertModel",
                "CamembertModel",
                "XLMRobertaModel",
                "MPNetModel",
                "ModernBertModel",
            ),
            "classify": (
                "BertForSequenceClassification",
                "CamembertForSequenceClassification",
                "RobertaForSequenceClassification",
                "XLMRobertaForSequenceClassification",
                "ModernBertForSequenceClassification",
            ),
        },
    ),
    "vllm": Server(
        "vLLM",
        "https://docs.vllm.ai/en/latest/models/supported_models (its registry of models, read 2026-11-15)",
        {
            "embed": ("BertModel", "RobertaModel", "XLMRobertaModel", "ModernBertModel"),
            "classify": (
                "BertForSequenceClassification",
                "RobertaForSequenceClassification",
                "XLMRobertaForSequenceClassification",
                "ModernBertForSequenceClassification",
                "GPT2ForSequenceClassification",
            ),
            "tokens": ("BertForTokenClassification", "ModernBertForTokenClassification"),
        },
    ),
}
POOLS = {"tei": {"mean": "mean", "cls": "cls", "last": "last-token"}, "vllm": {"mean": "", "cls": "", "last": ""}}
"""How a bi-encoder's pooling is said; vLLM reads it in the files that the folder has for sentence-transformers."""


def hand_off(run: str | Path, to: str) -> dict[str, Any]:
    """The command that starts a server with a run's model folder, and what its answers would lack.

    Raises:
        ModelError: The server does not list the model, or cannot know how it answers.
    """
    server, folder = SERVERS[to], model_folder(run)
    if members_of(folder, verify(folder)):
        raise ModelError(f"{folder} holds several models, which {server.name} cannot average; use `warmstart predict`")
    config = load_config(str(folder))
    task, window = open_task(folder, config)
    kind, name = KINDS.get(task.auto_class, ""), str((config.architectures or ["?"])[0])
    if is_pooled(config):
        raise ModelError(f"{folder} has a head of warmstart's own ({name}), which {server.name} does not know")
    if getattr(task.options, "crf", False):
        raise ModelError(f"{folder}: {server.name} has no CRF, so it would give other tags; train with task.crf: false")
    if name not in server.models.get(kind, ()):
        known = ", ".join(server.models.get(kind, ())) or f"no model for {task.name}"
        raise ModelError(
            f"{folder}: {server.name} does not list {name}; for this work it lists {known} ({server.page})"
        )
    pool = getattr(task.options, "pool", "mean")
    if kind == "embed" and pool not in POOLS[to]:
        raise ModelError(f"{folder}: task.pool: found {pool}, and {server.name} has {', '.join(POOLS[to])}")
    words = {
        "tei": ["text-embeddings-router", "--model-id", str(folder)],
        "vllm": ["vllm", "serve", str(folder), "--runner", "pooling"],
    }[to]
    if kind == "embed" and POOLS[to][pool]:
        words += ["--pooling", POOLS[to][pool]]
    if to == "tei":
        words += ["--auto-truncate"]
    most = most_tokens(config, load_tokenizer(str(folder)))
    notes = [f"{server.name} lists {name}: {server.page}", *_notes(task, window, most, saved_temperature(folder), to)]
    return {"command": shlex.join(words), "kind": kind, "architecture": name, "notes": notes}


def _notes(task: Task[Any], window: Window, most: int, temperature: float, to: str) -> Iterator[str]:
    """What is done here and would not be done there, in words."""
    name = SERVERS[to].name
    if window.method != "head":
        yield f"the run keeps {window.method} of a long text; {name} keeps its beginning, or refuses it"
    if window.max_tokens < most:
        yield f"the run sees {window.max_tokens} tokens of a text; {name} sees up to {most}, and may answer otherwise"
    if temperature != 1.0:
        yield f"probabilities are not calibrated there: logits are not divided by the temperature, {temperature:g}"
    if task.name == "relate":
        yield "the two entities are to be marked in the text as `warmstart predict` does it before a text is sent"
    if task.name == "tag":
        yield "it gives a label for each piece of a word; words and entities are to be put together by whoever asks"
    many = task.auto_class.endswith("SequenceClassification") and not task.likeliest
    if many and to == "tei":
        yield "ask with raw_scores: true, and turn the scores into answers yourself: it takes a softmax of them"
    prompts = [getattr(task.options, one, "") for one in ("query_prompt", "document_prompt")]
    if any(prompts):
        yield f"put the prompts before texts yourself: {prompts[0]!r} before a query, {prompts[1]!r} before a document"
