"""The model card: `model/README.md`, with the metadata that the Hugging Face Hub reads.

It is no part of the model, so it does not stand in the manifest: whoever publishes the model can add to it, and its
checksums hold. Nothing is claimed in it that was not measured, and nothing guessed: the licence and the language of
the encoder are left out, and folders of this machine too.
"""

from __future__ import annotations

import re
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.models.architectures import POOLED
from warmstart.report.blocks import clean, interval, name_of, number
from warmstart.report.run_facts import Facts, Measured, is_folder
from warmstart.report.verdict import verdict, warnings
from warmstart.storage.artifacts import MANIFEST, write_text
from warmstart.storage.json_files import read_object, read_text

FILE = "README.md"
MARK = "<!-- Written by warmstart, which writes it anew while this line is here. -->"
KINDS = {
    "classify": "text-classification",
    "score": "text-classification",
    "relate": "text-classification",
    "tag": "token-classification",
    "span": "question-answering",
    "rank": "sentence-similarity",
    "choose": "multiple-choice",
    "masked": "fill-mask",
}
"""The Hub's name for what a task's model does."""


def write_card(facts: Facts) -> Path | None:
    """Write the card beside the model; one that someone has made their own stays, and so does a run without a model."""
    path = facts.run.model / FILE
    if not has_model(facts):
        return None
    if path.exists() and MARK not in read_text(path, ModelError):
        return None
    write_text(path, make_card(facts))
    return path


def has_model(facts: Facts) -> bool:
    """Whether the run kept its model; an experiment may keep the numbers only."""
    return (facts.run.model / MANIFEST).is_file()


def make_card(facts: Facts) -> str:
    """The text of the card."""
    return f"---\n{_metadata(facts)}\n---\n\n{_body(facts)}\n{MARK}\n"


def _metadata(facts: Facts) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    kind = KINDS.get(facts.task, "feature-extraction")
    sets = [name for name in _names(facts, "train") if name.startswith("hub:")]
    results = [
        EvalResult(kind, _plain_name(name), clean(name), metric, value, dataset_split=one.part)
        for one in facts.measured
        for name in _names(facts, one.part)[:1]
        for metric, value in one.metrics.items()
        if isinstance(value, float) and metric != "share_cut"
    ]
    model = str(facts.run.recipe.model)
    data = ModelCardData(
        model_name=clean(facts.name),
        base_model=None if is_folder(model) or not model else model,
        pipeline_tag=kind,
        library_name=_library(facts),
        tags=["warmstart", facts.task],
        datasets=[name.removeprefix("hub:").partition(":")[0].partition("@")[0] for name in sets] or None,
        eval_results=results or None,
    )
    return str(data.to_yaml()).strip()


def _body(facts: Facts) -> str:
    parts = [
        f"# {_word(facts.name)}",
        f"`{facts.task}` with {_word(facts.model)}, trained with warmstart.",
        verdict(facts),
        *(f"**Take care.** {one}" for one in warnings(facts)),
        *(_scores(one) for one in facts.measured),
        f"## Use it\n\n{_use(facts)}",
        f"## Trained on\n\n{_data(facts)}",
        f"## Trained how\n\n{_how(facts)}",
        "## Not known\n\nThe licence and the languages of this model are not stated: they depend on encoder and "
        "data. How it does on texts of another kind than its test rows was not measured.",
    ]
    return "\n\n".join(parts) + "\n"


def _scores(found: Measured) -> str:
    rows = ["| metric | value | 95% interval |", "| --- | ---: | --- |"]
    bounds = interval(found.estimate.low, found.estimate.high) if found.estimate else "–"
    for name, value in found.metrics.items():
        if name not in {"rows", "rows_cut", "share_cut"}:
            own = bounds if name == found.headline and not found.own else "–"
            rows.append(f"| {name} | {number(value)} | {own} |")
    return f"## Scores on {found.part} ({found.rows:,} rows)\n\n" + "\n".join(rows)


def _use(facts: Facts) -> str:
    """How to open it, in warmstart and without."""
    pair = "pair" in facts.run.recipe.data.columns
    asked = (
        '[("a question", "its context")]'
        if facts.task == "span"
        else '[("a text", "its pair")]'
        if pair
        else '["a text"]'
    )
    if facts.task == "rank":
        asked = '[("a query", "a document")]'
    ours = f'```python\nimport warmstart\n\nprint(warmstart.load("model").predict({asked}))\n```'
    if not (facts.run.model / "config.json").is_file():
        return f"{ours}\n\nIt is several models that answer as one, so warmstart opens it."
    about = read_object(facts.run.model / "config.json", ModelError, finite=False)
    if facts.task == "rank" and (facts.run.model / "modules.json").is_file():
        plain = 'from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer("model")'
        return f"{ours}\n\nIn sentence-transformers:\n\n```python\n{plain}\n```"
    names = about.get("architectures")
    head = names[0] if isinstance(names, list) and names and re.fullmatch(r"\w+", str(names[0])) else "AutoModel"
    if about.get("model_type") == POOLED:
        return f"{ours}\n\nIts head is one that transformers does not have, so warmstart opens it."
    plain = f"from transformers import AutoTokenizer, {head}\n\n"
    plain += f'model = {head}.from_pretrained("model")\ntokenizer = AutoTokenizer.from_pretrained("model")'
    return f"{ours}\n\nIn plain transformers:\n\n```python\n{plain}\n```"


def _data(facts: Facts) -> str:
    lines = ["| part | rows | files | fingerprint |", "| --- | ---: | --- | --- |"]
    for part, about in facts.run.data["parts"].items():
        files = ", ".join(_word(name_of(file)) for file in about["files"][:10])
        lines.append(f"| {part} | {about['rows']:,} | {files} | `{str(about['fingerprint'])[:16]}` |")
    return "\n".join(lines)


def _how(facts: Facts) -> str:
    recipe, run = facts.run.recipe, facts.run
    versions = ", ".join(f"{name} {version}" for name, version in run.environment["versions"].items())
    training = recipe.training
    return (
        f"Rate {training.learning_rate:g}, schedule {training.lr_schedule}, {run.training['steps']:,} optimizer steps, "
        f"batch {training.batch_size}, seed {recipe.seed}, {run.training['precision']}. With {versions}."
    )


def _names(facts: Facts, part: str) -> list[str]:
    return [name_of(file) for file in facts.run.data["parts"].get(part, {}).get("files", ())]


def _library(facts: Facts) -> str:
    ranks = facts.task == "rank" and (facts.run.model / "modules.json").is_file()
    return "sentence-transformers" if ranks else "transformers"


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", Path(name).stem.lower()).strip("-") or "data"


def _word(text: str) -> str:
    """A name from anywhere, as code: it cannot become markup of the card."""
    return f"`{' '.join(clean(text, 80).replace('`', ' ').replace('|', ' ').split()) or '–'}`"
