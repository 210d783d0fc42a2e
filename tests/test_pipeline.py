"""A recipe carried out: what is held out, dropped and refused is said, and a folder is never half a run."""

import json

import pyarrow.parquet as pq
import pytest

import warmstart
from small import FAST, reviews
from warmstart.errors import DataError, RecipeError, RunError, WarmstartError

QUICK = {"training": {"max_steps": 1, "batch_size": 4}}


def table(path, rows, header="text,label"):
    path.write_text(header + "\n" + "".join(f"{','.join(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def kinds(run):
    return {finding.kind: finding for finding in run.data.findings}


def test_a_label_that_training_never_saw_is_refused_with_its_line(encoder, files, tmp_path):
    test = table(tmp_path / "test.csv", [*reviews(2), ("the end", "posi")])
    with pytest.raises(DataError, match=rf"{test}:4: label 'posi' was not seen in training, .*; did you mean 'pos'"):
        warmstart.fit(model=encoder, train=files["train"], test=test, out=tmp_path / "run", **QUICK)


def test_a_fault_in_the_data_leaves_no_folder(encoder, tmp_path):
    train = table(tmp_path / "train.csv", [("a", "x"), ("b", "y", "z")])
    with pytest.raises(DataError, match=f"{train}:3"):
        warmstart.fit(model=encoder, train=train, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_one_label_only_is_refused(encoder, tmp_path):
    train = table(tmp_path / "train.csv", [(text, "same") for text, _ in reviews(20)])
    with pytest.raises(DataError, match=r"hold 1 label \('same'\); expected 2 or more"):
        warmstart.fit(model=encoder, train=train, out=tmp_path / "run", **QUICK)


def test_rows_shared_with_test_are_warned_of_or_left_out_as_asked(encoder, files, tmp_path):
    test = table(tmp_path / "test.csv", [*reviews(3), *reviews(3, start=500)])
    kept = warmstart.fit(model=encoder, train=files["train"], test=test, out=tmp_path / "kept", **QUICK)
    assert kinds(kept)["shared"].severity == "warning"
    assert kinds(kept)["shared"].count == 3
    assert kept.data.parts["train"].rows == 64
    dropped = warmstart.fit(
        model=encoder, train=files["train"], test=test, out=tmp_path / "dropped", **QUICK, **{"data.drop": ["leaked"]}
    )
    assert dropped.data.parts["train"].rows == 61
    assert "left out of training" in kinds(dropped)["shared"].message


def test_rows_without_a_label_are_refused_or_dropped_and_counted(encoder, tmp_path):
    train = table(tmp_path / "train.csv", [*reviews(20), ("no label here", "")])
    with pytest.raises(DataError, match=f"{train}:22"):
        warmstart.fit(model=encoder, train=train, out=tmp_path / "run", **QUICK)
    run = warmstart.fit(
        model=encoder, train=train, out=tmp_path / "run", **QUICK, **{"data.drop": ["unlabelled"], "data.split.test": 0}
    )
    assert run.data.parts["train"].rows == 20
    assert "unlabelled" in kinds(run)


def test_a_fraction_of_the_training_rows_is_used_and_said_while_test_rows_stay(encoder, files, tmp_path):
    given = {"model": encoder, "train": files["train"], **QUICK, "data.split.test": 0.25}
    whole = warmstart.fit(**given, out=tmp_path / "whole")
    half = warmstart.fit(**given, out=tmp_path / "half", **{"data.fraction": 0.5})
    assert whole.data.parts["train"].rows == 48
    assert half.data.parts["train"].rows == 24
    assert half.data.parts["test"] == whole.data.parts["test"]
    assert "24 of the 48 training rows are used (data.fraction: 0.5" in kinds(half)["fraction"].message
    with pytest.raises(RecipeError, match=r"data\.fraction: found 1\.5"):
        warmstart.fit(**given, out=tmp_path / "more", **{"data.fraction": 1.5})


def test_a_dev_part_is_measured_too_and_no_test_part_means_no_numbers(encoder, files, tmp_path):
    run = warmstart.fit(
        model=encoder, train=files["train"], out=tmp_path / "run", **QUICK, **{"data.split": {"dev": 0.25, "test": 0}}
    )
    assert set(run.metrics) == {"dev"}
    assert run.metrics["dev"]["rows"] == 16


def test_the_f1_of_the_positive_label_is_the_headline_where_that_is_asked_for(encoder, tmp_path):
    """Labels 0 and 1, as MRPC has them, which YAML reads as numbers."""
    train = table(tmp_path / "train.csv", [(text, str(int(label == "pos"))) for text, label in reviews(40)])
    given = {"model": encoder, "train": train, "test": train, **QUICK, "task.positive_label": 1, "task.metric": "f1"}
    run = warmstart.fit(**given, out=tmp_path / "run")
    kept = pq.read_table(run.folder / "predictions.parquet").to_pylist()
    right, predicted, gold = (
        sum(test(row) for row in kept)
        for test in (
            lambda row: row["answer"] == row["label"] == "1",
            lambda row: row["label"] == "1",
            lambda row: row["answer"] == "1",
        )
    )
    assert next(iter(run.metrics["test"])) == "f1"
    assert run.metrics["test"]["f1"] == pytest.approx(2 * right / (predicted + gold))
    assert (warmstart.load(run.folder).task.headline, run.predictor.task.options.positive_label) == ("f1", "1")


def test_each_prediction_is_kept_with_its_row(run):
    kept = pq.read_table(run.folder / "predictions.parquet").to_pylist()
    assert len(kept) == 24
    assert kept[0]["row"].endswith("test.csv:2")
    right = sum(row["answer"] == row["label"] for row in kept)
    assert right / len(kept) == run.metrics["test"]["accuracy"]
    assert set(json.loads(kept[0]["probabilities"])) == {"pos", "neg"}


def test_a_finished_run_is_not_overwritten_and_an_unfinished_one_starts_over(run, encoder, files, tmp_path):
    with pytest.raises(RunError, match="holds a finished run"):
        warmstart.fit(model=encoder, train=files["train"], out=run.folder, **QUICK)
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="files that are no run"):
        warmstart.fit(model=encoder, train=files["train"], out=tmp_path, **QUICK)
    with pytest.raises(RunError, match="is a file"):
        warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "thesis.txt", **QUICK)
    half = tmp_path / "half"
    half.mkdir()
    (half / "recipe.yaml").write_text("model: x\n")
    (half / "model").mkdir()
    assert warmstart.fit(model=encoder, train=files["train"], out=half, **QUICK).finished


def test_the_runs_own_recipe_gives_the_same_run(run, tmp_path):
    again = warmstart.fit(run.folder / "recipe.yaml", out=tmp_path / "again")
    assert again.metrics == run.metrics
    same = "model/model.safetensors"
    assert (again.folder / same).read_bytes() == (run.folder / same).read_bytes()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": "clasify"}, "did you mean 'classify'"),
        ({"task.label": "many"}, "did you mean 'multi_label'"),
        ({"window": {"max_tokens": 9999}}, "takes at most 512"),
        ({"window": {"max_tokens": 4}, "pair": "text"}, "leaves no text"),
        ({"window": {"method": "slices", "max_tokens": 12, "overlap": 10}}, r"window\.overlap: found 10"),
        ({"window": {"method": "head+tail", "max_tokens": 12, "head_tokens": 10}}, r"window\.head_tokens: found 10"),
        (
            {"trainer": {"per_device_train_batch_size": 2}},
            r"trainer\.per_device_train_batch_size is called training\.batch_size here",
        ),
        ({"text": "txt"}, "txt"),
        ({"model": "no/model"}, "no/model: cannot be loaded as a model"),
        ({"test": "many"}, "was not seen in training"),
        ({"task.class_weight": {"pos": -1}}, "greater than 0"),
        ({"task.metric": "f1"}, "not of which label; set positive_label"),
        ({"task.positive_label": "poss"}, "'poss' is not a label of the data; did you mean 'pos'"),
        ({"task.metric": "micro_f1"}, "expected accuracy, macro_f1, mcc or f1"),
        ({"task.multi_label": True, "task.positive_label": "pos"}, "leave one of them out"),
    ],
)
def test_a_wrong_setting_is_refused_and_leaves_no_folder(encoder, files, tmp_path, wrong, said):
    wrong = {name: files.get(value, value) if isinstance(value, str) else value for name, value in wrong.items()}
    with pytest.raises(WarmstartError, match=said):
        warmstart.fit(train=files["train"], out=tmp_path / "run", **FAST, **{"model": encoder, **wrong})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", [{"eval_strategy": "epoch"}, {"optim": "nothing"}, {"bf16": True}])
def test_a_trainer_option_that_cannot_be_is_an_error_of_the_recipe(encoder, files, tmp_path, option):
    with pytest.raises(RecipeError, match="trainer"):
        warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "run", **FAST, trainer=option)
