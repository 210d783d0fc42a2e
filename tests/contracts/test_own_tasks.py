"""A task is one file: nobody else knows tasks by name, and a class from anywhere trains, predicts and reports."""

import ast
import json
import shutil
import sys
from pathlib import Path
from typing import NotRequired

import pytest
import torch

import warmstart
from small import FAST
from tiny import save_tiny
from warmstart import tasks
from warmstart.data.schema import Column, Schema
from warmstart.errors import ModelError, PluginError, RecipeError
from warmstart.evaluation.run_result import read_result
from warmstart.options import Options
from warmstart.storage import artifacts
from warmstart.tasks.base import Task, TextFeature
from warmstart.tasks.classify import Classify
from warmstart.tasks.shared.text_inputs import PAIR, TEXT, encode_texts, pad

SRC = Path(warmstart.__file__).parent
ALLOWED = {
    "estimators/text_estimators.py": {
        "classify",
        "score",
    },  # each is one task; `score` is in its answers, too
    "recipe/fields.py": {"classify"},  # the default task
    "pipeline/earlier_stages.py": {"masked"},  # a pretraining stage trains this task
    "cli/synonyms.py": {"classify", "score"},  # what users of other tools type for a verb or an option
    "evaluation/predictions.py": {"score"},  # a field of answers
    "inference/search.py": {"score", "rank"},  # fields of answers
    "cli/answer_tables.py": {"score", "rank"},  # columns of a table
    "cli/search_documents.py": {"rank", "score"},  # fields of a search result
    "recipe/study.py": {"classify", "score", "rank"},  # the tasks that a job of a peer can be about
    "recipe/study_claims.py": {"score"},  # what a claim is about
    "cli/diagnosis_tables.py": {"score"},  # a column of a table
    "report/error_sections.py": {"score"},  # a column of a table
    "report/training_sections.py": {"score"},  # the label of an axis
    "data/fault_kinds.py": {"tag"},  # a kind of fault
    "data/formats/conll.py": {"tag"},  # a kind of fault
    "data/structured_values.py": {"span"},  # a key in files
    "inspection/masked_texts.py": {"masked"},  # a count in a record
    "inspection/token_reader.py": {"masked"},  # a count in a record
}
"""Where a word that is a task's name stands for something else, or for the one task that is meant."""


def test_no_other_file_names_a_task():
    named = {}
    for path in SRC.rglob("*.py"):
        if path.is_relative_to(SRC / "tasks"):
            continue
        words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        if words := words & set(tasks.names()):
            named[path.relative_to(SRC).as_posix()] = words
    assert {file: words - ALLOWED.get(file, set()) for file, words in named.items()} == {file: set() for file in named}
    assert set(ALLOWED) == set(named)  # nothing is allowed that is not needed


class PraiseOptions(Options):
    """Options of the task below."""

    threshold: float = 0.5
    """The probability from which a text is praise."""


class PraiseFeature(TextFeature):
    labels: NotRequired[float]


class Praise(Task[PraiseOptions, PraiseFeature]):
    """Whether a text is praise: a task of somebody else's."""

    name = "praise"
    options_class = PraiseOptions
    pipeline_tag = "text-classification"
    auto_class = "AutoModelForSequenceClassification"
    headline = "accuracy"
    answer_fields = ("praise",)

    @classmethod
    def schema(cls, options):
        return Schema((TEXT, PAIR, Column("label", "label", "pos or neg", answer=True)))

    @classmethod
    def from_answers(cls, options, answers, pair, config=None):
        return cls(options, pair)

    @classmethod
    def from_config(cls, options, pair, config):
        return cls(options, pair)

    def config_kwargs(self):
        return {"num_labels": 1, "problem_type": "multi_label_classification"}

    def encode(self, rows, tokenizer, window):
        features = encode_texts(rows, tokenizer, window, self.pair)
        for feature, label in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = float(label == "pos")
        return features

    def collate(self, features, tokenizer):
        batch = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = torch.tensor([[feature["labels"]] for feature in features])
        return batch

    def decode(self, outputs, features):
        chances = outputs["logits"].double().sigmoid().reshape(-1).tolist()
        return [{"praise": "pos" if chance >= self.options.threshold else "neg"} for chance in chances]

    @property
    def answer_schema(self):
        return {"praise": "text"}

    def compute_metrics(self, columns, predictions):
        right = [answer["praise"] == truth for truth, answer in zip(columns["label"], predictions, strict=True)]
        return {"accuracy": sum(right) / len(right)}


@pytest.fixture(scope="module")
def praise(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("praise")
    encoder = str(save_tiny(folder / "tiny-bert", initializer_range=0.2))
    return warmstart.fit(
        model=encoder,
        task={"name": Praise, "threshold": 0.4},
        train=files["train"],
        test=files["test"],
        out=folder / "run",
        **FAST,
    )


def test_a_class_of_ones_own_trains_evaluates_and_reports(praise):
    assert praise.metrics["test"]["accuracy"] > 0.9
    assert praise.recipe.task.name == f"{__name__}:Praise"
    assert warmstart.load(praise.folder).predict(["a great film", "a terrible book"]) == [
        {"praise": "pos"},
        {"praise": "neg"},
    ]
    assert "pipeline_tag: text-classification" in (praise.model / "README.md").read_text()
    assert praise.report().stat().st_size > 10_000
    result = read_result(praise.folder, "praise", 0)
    assert result.failed == ""
    assert result.scores.mean() == praise.metrics["test"]["accuracy"]


def test_in_another_process_the_class_must_be_passed(praise, monkeypatch):
    monkeypatch.setattr(tasks, "_passed", {})
    with pytest.raises(ModelError, match=r"warmstart.json: task: .*:Praise' is a class that is not registered; pass"):
        warmstart.load(praise.folder)
    predictor = warmstart.load(praise.folder, task=Praise)
    assert predictor.task.options.threshold == 0.4
    assert predictor.predict(["a great film"]) == [{"praise": "pos"}]
    with pytest.raises(ModelError, match=r"task: found '.*:Praise', but the class passed is 'classify'"):
        warmstart.load(praise.folder, task=Classify)


def test_what_a_model_folder_names_is_never_imported(praise, tmp_path, monkeypatch):
    shutil.copytree(praise.folder, tmp_path / "run")
    (tmp_path / "planted.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "run" / "model" / "warmstart.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "task": "planted:Task"}))
    manifest = tmp_path / "run" / "model" / "manifest.json"
    about = json.loads(manifest.read_text())
    del about["seal"]
    about["files"]["warmstart.json"] = artifacts.checksum(path)
    manifest.write_text(json.dumps({**about, "seal": artifacts._seal(about)}))
    with pytest.raises(ModelError, match="'planted:Task' is a class that is not registered"):
        warmstart.load(tmp_path / "run")
    assert "planted" not in sys.modules


class Half(Praise):
    decode = Task.decode
    __abstractmethods__ = frozenset({"decode"})


@pytest.mark.parametrize(("task", "message"), [(dict, "expected a subclass of"), (Half, "Half lacks decode")])
def test_what_is_not_a_task_is_refused(task, message):
    with pytest.raises(PluginError, match=message):
        tasks.use(task)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match="'clasify' is not a task; did you mean 'classify'"):
        tasks.find("clasify")
