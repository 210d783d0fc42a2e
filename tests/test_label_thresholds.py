"""Thresholds per label: chosen on dev rows, kept in the model folder, and used by whatever answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from small import FAST
from warmstart.errors import ModelError, RecipeError
from warmstart.inference.predictor import Predictor
from warmstart.tasks.shared.label_thresholds import choose_threshold

SCORES = [0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1]
TRUTH = [True, True, False, True, True, False, False, False]


def precision_and_recall(threshold, scores=SCORES, truth=TRUTH):
    predicted = [score >= threshold for score in scores]
    right = sum(a and b for a, b in zip(predicted, truth, strict=True))
    return right / max(1, sum(predicted)), right / sum(truth)


def test_each_metric_has_its_threshold():
    assert choose_threshold(SCORES, TRUTH, "f1", None, 0.5) == pytest.approx(0.35)
    assert choose_threshold(SCORES, TRUTH, "precision", 1.0, 0.5) == pytest.approx(0.8)
    assert choose_threshold(SCORES, TRUTH, "precision", 0.8, 0.5) == pytest.approx(0.4)
    assert choose_threshold(SCORES, TRUTH, "recall", 0.5, 0.5) == pytest.approx(0.75)
    assert choose_threshold(SCORES, TRUTH, "recall", 0.75, 0.5) == pytest.approx(0.5)


def test_without_a_row_of_the_label_the_default_stays():
    assert choose_threshold(SCORES, [False] * 8, "f1", None, 0.4) == 0.4


def test_a_precision_out_of_reach_is_the_highest_there_is():
    assert choose_threshold([0.9, 0.8, 0.7], [False, True, False], "precision", 0.9, 0.5) == pytest.approx(0.8)


rows = st.lists(st.tuples(st.floats(0, 1).map(lambda x: round(x, 2)), st.booleans()), min_size=1, max_size=30)


@given(rows.filter(lambda some: any(has for _, has in some)), st.floats(0.05, 1))
def test_the_choice_is_as_good_as_any(some, target):
    scores, truth = [score for score, _ in some], [has for _, has in some]
    every = [precision_and_recall(score, scores, truth) for score in scores]

    def f1(pair):
        return 2 * pair[0] * pair[1] / max(sum(pair), 1e-9)

    chosen = precision_and_recall(choose_threshold(scores, truth, "f1", None, 0.5), scores, truth)
    assert f1(chosen) == pytest.approx(max(map(f1, every)))
    reached = [recall for precision, recall in every if precision >= target]
    if reached:
        chosen = precision_and_recall(choose_threshold(scores, truth, "precision", target, 0.5), scores, truth)
        assert chosen[0] >= target - 1e-9
        assert chosen[1] == pytest.approx(max(reached))
    chosen = precision_and_recall(choose_threshold(scores, truth, "recall", target, 0.5), scores, truth)
    assert chosen[1] >= target - 1e-9


@pytest.fixture(scope="module")
def settings(encoder, files):
    many = files["many"]
    training = {**FAST["training"], "epochs": 2}
    return {
        "model": encoder,
        "train": many,
        "dev": many,
        "test": many,
        "data.label_separator": "|",
        "training": training,
    }


@pytest.fixture(scope="module")
def tuned(settings, tmp_path_factory):
    task = {"name": "classify", "multi_label": True, "threshold_metric": "f1", "thresholds": {"pos": 0.9}}
    return warmstart.fit(**settings, task=task, out=tmp_path_factory.mktemp("tuned") / "run")


def test_the_model_folder_keeps_them_and_answers_by_them(tuned, files):
    options = json.loads((tuned.model / "warmstart.json").read_text())["options"]
    assert set(options["thresholds"]) == {"film", "neg", "pos"}
    assert options["thresholds"]["pos"] == 0.9
    assert options["thresholds"]["film"] != 0.5
    predictor = Predictor.load(tuned.folder)
    for answer in predictor.predict(["a good film", "a terrible and boring plot"]):
        above = [name for name, chance in answer["probabilities"].items() if chance >= options["thresholds"][name]]
        assert answer["labels"] == above


def test_an_export_answers_by_them(tuned):
    pytest.importorskip("onnxruntime")
    warmstart.export(tuned.folder)
    texts = ["a good film", "a terrible and boring plot"]
    exported = Predictor.load(tuned.folder, engine="onnx").predict(texts)
    assert [answer["labels"] for answer in exported] == [
        answer["labels"] for answer in Predictor.load(tuned.folder).predict(texts)
    ]


def test_a_threshold_of_a_label_that_the_model_has_not_is_refused(tuned, tmp_path):
    import shutil

    from warmstart.storage.artifacts import republish

    shutil.copytree(tuned.folder, tmp_path / "run")
    with republish(tmp_path / "run" / "model") as staging:
        path = staging / "warmstart.json"
        text = path.read_text().replace('"pos": 0.9', '"poss": 0.9')
        path.unlink()
        path.write_text(text)
    with pytest.raises(ModelError, match="'poss' is not a label"):
        Predictor.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"threshold_metric": "f1"}, "multi_label: false"),
        ({"multi_label": True, "threshold_metric": "precision"}, "set threshold_target: 0.9"),
        ({"multi_label": True, "threshold_target": 0.9}, "set threshold_metric: precision or recall"),
        ({"multi_label": True, "thresholds": {"poss": 0.3}}, "did you mean 'pos'"),
        ({"multi_label": True, "thresholds": {"pos": 1.3}}, "less than or equal to 1"),
        ({"multi_label": True, "label_thresholds": {"pos": 0.3}}, "is called .*thresholds here"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, tmp_path, task, said):
    with pytest.raises(RecipeError, match=said):
        warmstart.fit(**settings, task={"name": "classify", **task}, out=tmp_path / "run")


def test_without_dev_rows_there_is_nothing_to_choose_on(settings, tmp_path):
    without = {name: value for name, value in settings.items() if name != "dev"}
    task = {"name": "classify", "multi_label": True, "threshold_metric": "f1"}
    with pytest.raises(RecipeError, match=r"task\.threshold_metric: there are no dev rows .* data\.split\.dev"):
        warmstart.fit(**without, task=task, out=tmp_path / "run")
