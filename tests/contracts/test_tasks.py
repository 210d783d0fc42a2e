"""Every task, found by scanning, does what any task must: fit, predict, evaluate, and open in plain transformers."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import transformers

import warmstart
from small import FAST
from warmstart import tasks


@dataclass
class Case:
    """One way to use a task."""

    task: str
    file: str
    options: dict = field(default_factory=dict)
    texts: tuple = ("a good film", "it was boring", "the very long story of a terrible book " * 30)
    many: bool = False


PAIRS = (("a good film", "it was neg"), ("bad", "it was pos"), ("the story " * 200, "it was " * 90))
LONG = {"training.epochs": 60}
CASES = {
    "classify": Case("classify", "train"),
    "classify pairs": Case("classify", "pairs", {"pair": "other"}, PAIRS),
    "classify many": Case("classify", "many", {"task.multi_label": True, "data.label_separator": "|"}, many=True),
    "classify balanced": Case("classify", "train", {"task.class_weight": "balanced"}),
    "score": Case("score", "scores", LONG),
    "score pairs": Case("score", "pairs-scores", {"pair": "other", **LONG}, PAIRS),
}


@pytest.fixture(scope="module")
def runs(encoder, files, tmp_path_factory):
    made = {}
    scored = Path(files["pairs"]).read_text(encoding="utf-8").replace(",pos\n", ",4.5\n").replace(",neg\n", ",1\n")
    path = tmp_path_factory.mktemp("scored") / "pairs.csv"
    path.write_text(scored, encoding="utf-8")
    files = {**files, "pairs-scores": str(path)}

    def make(name):
        if name not in made:
            case = CASES[name]
            out = tmp_path_factory.mktemp("runs") / "run"
            made[name] = warmstart.fit(
                model=encoder,
                task=case.task,
                train=files[case.file],
                out=out,
                window={"max_tokens": 64},
                **FAST,
                **case.options,
            )
        return made[name]

    return make


@pytest.mark.parametrize("name", tasks.names())
def test_a_task_says_what_it_reads_and_what_its_options_mean(name):
    kind = tasks.find(name)
    schema = kind.schema(kind.options_class())
    assert schema.answers or name == "masked"  # which learns the text itself
    assert schema.texts
    assert all(option.description for option in kind.options_class.model_fields.values())


@pytest.mark.parametrize("name", CASES)
def test_the_run_explains_itself(runs, name):
    run = runs(name)
    assert run.finished
    assert run.metrics["test"]["rows"] > 0
    assert run.training.steps > 0
    assert run.data.parts["train"].fingerprint != run.data.parts["test"].fingerprint
    assert run.environment["versions"]["torch"]
    assert any(finding.kind == "held-out" for finding in run.data.findings)
    assert not (run.folder / ".work").exists()
    assert run.recipe.task.name == CASES[name].task


@pytest.mark.parametrize("name", CASES)
def test_plain_transformers_gives_the_predictors_numbers(runs, name):
    """The model folder, opened without warmstart, with the tokenizer's own truncation."""
    run, case = runs(name), CASES[name]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run.model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    for text in case.texts:
        both = (text,) if isinstance(text, str) else text
        inputs = tokenizer(*both, truncation="longest_first", max_length=64, return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).logits[0]
        [answer] = warmstart.load(run.folder).predict([text])
        if case.task == "score":
            assert answer["score"] == pytest.approx(float(logits[0]), abs=1e-6)
            continue
        chances = logits.sigmoid() if case.many else logits.softmax(-1)
        assert len(answer["probabilities"]) == model.config.num_labels
        for number, label in model.config.id2label.items():
            assert answer["probabilities"][label] == pytest.approx(float(chances[number]), abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_answers_come_in_order_and_do_not_depend_on_their_neighbours(runs, name):
    predictor, texts = runs(name).predictor, list(CASES[name].texts)
    together = predictor.predict(texts * 3, batch_size=2)
    alone = [predictor.predict([text])[0] for text in texts]
    for given, expected in zip(together, alone * 3, strict=True):
        numbers = given.get("probabilities") or {"score": given["score"]}
        wanted = expected.get("probabilities") or {"score": expected["score"]}
        assert numbers == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_saved_model_measured_again_gives_the_runs_numbers(runs, name):
    from warmstart.evaluation.evaluate import evaluate
    from warmstart.pipeline.prepare import read_parts
    from warmstart.runtime.progress import silent
    from warmstart.storage.cache import cache_folder

    run = runs(name)
    predictor = warmstart.load(run.folder)
    schema = predictor.task.schema(predictor.task.options)
    parts = read_parts(run.recipe, schema, cache_folder(), silent)
    assert evaluate(predictor, parts.tables["test"]) == run.metrics["test"]
    assert predictor.task.headline in run.metrics["test"]


@pytest.mark.parametrize("name", CASES)
def test_the_task_is_learned(runs, name):
    found = runs(name).metrics["test"]
    if CASES[name].task == "score":
        assert found["pearson"] > 0.8
    else:
        assert found.get("accuracy", found.get("micro_f1")) > 0.8


def test_what_the_window_cut_is_counted(encoder, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("text,label\n" + "".join(f"{'good ' * n} x{n},{'ab'[n % 2]}\n" for n in range(1, 21)))
    run = warmstart.fit(
        model=encoder,
        train=str(path),
        out=tmp_path / "run",
        window={"max_tokens": 12},
        **{**FAST, "data.split.test": 0},
    )
    cut = run.training.window.train
    lengths = [n + 1 + len(str(n)) for n in range(1, 21)]
    assert cut.rows_cut == sum(length > 10 for length in lengths)
    assert cut.tokens_cut == sum(max(length - 10, 0) for length in lengths)


def test_the_label_map_is_stored_once_and_the_same_whatever_the_order_of_rows(run):
    config = json.loads((run.model / "config.json").read_text())
    assert config["id2label"] == {"0": "neg", "1": "pos"}
    assert '"pos"' not in (run.model / "warmstart.json").read_text()
