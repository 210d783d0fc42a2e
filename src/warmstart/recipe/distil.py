"""The options of the stage `distil`; never imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from warmstart.options import Options
from warmstart.recipe.fields import FileOptions


class DistilOptions(Options):
    """Knowledge distillation: a finished model answers texts without labels, and the fine-tuning learns its answers.

    The answers are learned together with the labelled rows: those of `classify` and `relate` as soft labels, at the
    task's `temperature`; those of `score` and `tag` as they are; those of `rank`, a cross-encoder's, by the differences
    between the documents of a query (margin-MSE).
    """

    teacher: str
    """The teacher: a finished run of the same task, or its model folder; for `rank`, of a cross-encoder."""
    texts: str | FileOptions
    """The texts that it answers: a file, or a folder of files, with the columns that `data.columns` names; or a mapping
    with `file` and `columns`. For `rank`, a row for each document of a query. Texts that are in dev or test are left
    out."""
    match: Literal["logits", "both"] = "logits"
    """What the student learns of the teacher: its answers (`logits`), or also its vector of each text (`both`), the
    mean of the last layer's tokens, for `classify` and `score` of single texts."""
    engine: str = "torch"
    """The inference engine of the teacher, as in `predict --engine`."""
    precision: str = "fp32"
    """The precision of the teacher, as in `predict --precision`."""
    ray: str | None = None
    """Where the teacher answers: with Ray on this machine (`local`), or on the cluster at this address. Default: in
    this process."""
    rows_per_shard: Annotated[int, Field(ge=1)] = 10_000
    """How many texts are answered and stored together; after an interruption, at most these are answered again."""

    synonyms: ClassVar[Mapping[str, str]] = {
        "teacher_model": "teacher",
        "unlabeled": "texts",
        "unlabelled": "texts",
    }
