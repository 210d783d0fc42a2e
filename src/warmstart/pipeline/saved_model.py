"""Saving a fine-tuned model, as a folder that opens in plain `transformers` or `sentence-transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.models.heads.linear_head import is_sentence_head, split_weights
from warmstart.models.heads.pooled import encoder_kwargs
from warmstart.models.loading import quiet_transformers
from warmstart.storage.artifacts import publish
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import ExtendsModel, HasLinearProbe, WritesLibraryFiles
from warmstart.tasks.shared.saved_task import SavedTask
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: AnyTask, window: Window, folder: Path
) -> None:
    """Publish a folder that opens in plain `transformers` and in `warmstart.load`."""
    with publish(folder) as staging, quiet_transformers():
        plain = task.plain_model(model) if isinstance(task, ExtendsModel) else model
        plain.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        if is_sentence_head(plain) and isinstance(task, HasLinearProbe) and window.method == "head":
            kwargs = encoder_kwargs(plain.config.encoder)
            split_weights(plain, tokenizer, window.max_tokens, kwargs, staging, window.prompt)
        if isinstance(task, WritesLibraryFiles):
            task.write_library_files(model, window, staging)
        SavedTask.of(task, window).write(staging)
