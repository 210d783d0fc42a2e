"""The model card: `model/README.md`, with the metadata that the Hugging Face Hub reads.

It is not part of the model, so it is not in the manifest: whoever publishes the model can edit it, and the checksums
still hold. It claims nothing that was not measured: the licence and the language of the encoder are left out, and so
are folders of this machine.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.models.architectures import AWD_LSTM, POOLED
from warmstart.models.sentence_transformers_folder import DENSE
from warmstart.report.blocks import clean, interval, name_of, number
from warmstart.report.run_facts import PartScores, RunFacts, is_folder
from warmstart.report.score_sections import COUNTS
from warmstart.report.verdict import verdict, warnings
from warmstart.storage.artifacts import MANIFEST
from warmstart.storage.files import write_text
from warmstart.storage.json_files import read_object, read_text
from warmstart.tasks.shared.saved_task import SavedTask

FILE = "README.md"
CONFIG = "config.json"
LOGITS = """from sentence_transformers import SentenceTransformer

# One logit for each label, in the order of id2label in config.json.
logits = SentenceTransformer("model").encode(["a text"])"""
MARK = "<!-- Written by warmstart, which overwrites it as long as this line is here. -->"


def write_card(facts: RunFacts) -> Path | None:
    """Write the card beside the model; a card that someone has edited stays, and a run without a model has none."""
    path = facts.run.model / FILE
    if not has_model(facts):
        return None
    if path.exists() and MARK not in read_text(path, ModelError):
        return None
    write_text(path, make_card(facts))
    return path


def has_model(facts: RunFacts) -> bool:
    """Whether the run has its model; an experiment may keep only the metrics."""
    return (facts.run.model / MANIFEST).is_file()


def make_card(facts: RunFacts) -> str:
    """The text of the card."""
    return f"---\n{_metadata(facts)}\n---\n\n{_body(facts)}\n{MARK}\n"


def _metadata(facts: RunFacts) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    tag = facts.task_class.pipeline_tag
    sets = [name for name in _names(facts, "train") if name.startswith("hub:")]
    results = [
        EvalResult(tag, _plain_name(name), clean(name), metric, value, dataset_split=scores.part)
        for scores in facts.scores
        for name in _names(facts, scores.part)[:1]
        for metric, value in scores.metrics.items()
        if isinstance(value, float) and metric != "share_cut"
    ]
    model = facts.run.recipe.model
    data = ModelCardData(
        model_name=clean(facts.name),
        base_model=None if is_folder(model) or not model else model,
        pipeline_tag=tag,
        library_name=_library(facts),
        tags=["warmstart", facts.task],
        datasets=[name.removeprefix("hub:").partition(":")[0].partition("@")[0] for name in sets] or None,
        eval_results=results or None,
    )
    return str(data.to_yaml()).strip()


def _body(facts: RunFacts) -> str:
    parts = [
        f"# {_word(facts.name)}",
        f"`{facts.task}` with {_word(facts.model)}, trained with warmstart.",
        verdict(facts),
        *(f"**Warning.** {warning}" for warning in warnings(facts)),
        *(_scores(scores) for scores in facts.scores),
        f"## How to use\n\n{_usage(facts)}",
        f"## Training data\n\n{_data(facts)}",
        f"## Training\n\n{_training(facts)}",
        "## Limitations\n\nThe licence and the languages of this model are not stated: they depend on the encoder and "
        "the data. How well it does on texts unlike its test rows was not measured.",
    ]
    return "\n\n".join(parts) + "\n"


def _scores(scores: PartScores) -> str:
    rows = ["| metric | value | 95% interval |", "| --- | ---: | --- |"]
    for name, value in scores.metrics.items():
        if name not in COUNTS:
            bounds = interval(*scores.bounds) if name == scores.headline else "–"
            rows.append(f"| {name} | {number(value)} | {bounds} |")
    return f"## Evaluation on {scores.part} ({scores.rows:,} rows)\n\n" + "\n".join(rows)


def _usage(facts: RunFacts) -> str:
    """How to load it, with warmstart and without."""
    placeholder = facts.task_class.placeholder("pair" in facts.run.recipe.data.columns)
    ours = _code(f'import warmstart\n\nprint(warmstart.load("model").predict([{_literal(placeholder)}]))')
    if not (facts.run.model / CONFIG).is_file():
        return f"{ours}\n\nIt is an ensemble, which warmstart loads."
    config = read_object(facts.run.model / CONFIG, ModelError, finite=False)
    if (other := _other_library(facts)) is not None:
        library, code = other
        return f"{ours}\n\nWith {library}:\n\n{_code(code)}{_usage_note(facts)}"
    if config.get("model_type") == POOLED:
        return f"{ours}\n\nIts head is not one of transformers, so warmstart loads it."
    if config.get("model_type") == AWD_LSTM:
        return f"{ours}\n\nIts architecture is not one of transformers, so warmstart loads it."
    names = config.get("architectures")
    head = names[0] if isinstance(names, list) and names and re.fullmatch(r"\w+", str(names[0])) else "AutoModel"
    plain = f"from transformers import AutoTokenizer, {head}\n\n"
    plain += f'model = {head}.from_pretrained("model")\ntokenizer = AutoTokenizer.from_pretrained("model")'
    return f"{ours}\n\nWith plain transformers:\n\n{_code(plain)}"


def _usage_note(facts: RunFacts) -> str:
    """What the model does with warmstart that it does not do elsewhere."""
    note = getattr(facts.task_class, "usage_note", None)
    text = note(SavedTask.read(facts.run.model).options) if note is not None else ""
    return f"\n\n{text}" if text else ""


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _literal(placeholder: object) -> str:
    """An input as Python code, with double quotes."""
    return json.dumps(placeholder) if isinstance(placeholder, str | dict) else f"({json.dumps(placeholder)[1:-1]})"


def _other_library(facts: RunFacts) -> tuple[str, str] | None:
    """Another library that opens the model, by its name, and the code for it."""
    if (facts.run.model / DENSE).is_dir():
        return "sentence-transformers", LOGITS
    usage = getattr(facts.task_class, "library_usage", None)
    return usage(facts.run.model) if usage is not None else None


def _data(facts: RunFacts) -> str:
    lines = ["| part | rows | files | fingerprint |", "| --- | ---: | --- | --- |"]
    for part, about in facts.run.data.parts.items():
        files = ", ".join(_word(name_of(file)) for file in about.files[:10])
        lines.append(f"| {part} | {about.rows:,} | {files} | `{about.fingerprint[:16]}` |")
    return "\n".join(lines)


def _training(facts: RunFacts) -> str:
    recipe, run = facts.run.recipe, facts.run
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    training, prompt = run.completed_recipe.training, run.training.window.prompt
    before = f" {_word(prompt)} is put before every text." if prompt else ""
    return (
        f"Learning rate {training.peak_learning_rate:g}, {training.lr_schedule} schedule, "
        f"{run.training.steps:,} optimizer steps, batch size {training.rows_per_step}, seed {recipe.seed}, "
        f"{run.training.precision}.{before} Versions: {versions}."
    )


def _names(facts: RunFacts, part: str) -> list[str]:
    parts = facts.run.data.parts
    return [name_of(file) for file in parts[part].files] if part in parts else []


def _library(facts: RunFacts) -> str:
    other = _other_library(facts)
    return other[0] if other is not None else "transformers"


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", Path(name).stem.lower()).strip("-") or "data"


def _word(text: str) -> str:
    """A name from anywhere as code, so that it cannot become markup of the card."""
    return f"`{' '.join(clean(text, 80).replace('`', ' ').replace('|', ' ').split()) or '–'}`"
