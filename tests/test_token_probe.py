"""A linear probe for each token: a tagger in seconds, a start for fine-tuning, and a score to compare with."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import warmstart
from small import FAST
from tiny import save_tiny
from warmstart.errors import RecipeError
from warmstart.pipeline import token_probe
from warmstart.pipeline.token_probe import sample_texts

SOLVED = {"layers.freeze": "encoder", "head.init": "linear-probe"}
PEOPLE, PLACES = ["alice", "bob"], ["paris", "london", "tokyo"]


def rows(count, words=1):
    """Texts with a person and a city; the last words of a long one are beyond a small window."""
    for number in range(count):
        person, place = PEOPLE[number % 2], PLACES[number % 3]
        text = f"{'the film was good and ' * (words - 1)}{person} is in {place} {number}"
        entities = [
            {"start": text.index(name), "end": text.index(name) + len(name), "label": label}
            for name, label in ((person, "PER"), (place, "LOC"))
        ]
        yield {"text": text, "entities": entities}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("encoder"), initializer_range=0.2))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags")
    for name, made in {"train": rows(60), "test": rows(20), "long": rows(30, words=9)}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    return folder


def fit(encoder, files, out, train="train", **settings):
    data = {"train": str(files / f"{train}.jsonl"), "test": str(files / "test.jsonl")}
    settings = {"training": {"precision": "fp32"}, **settings}
    return warmstart.fit(model=encoder, task=settings.pop("task", "tag"), out=out, **data, **settings)


@pytest.mark.parametrize("settings", [{}, {"task": {"name": "tag", "scheme": "IOBES", "subtoken_pooling": "mean"}}])
def test_a_tagger_is_solved_without_training(encoder, files, tmp_path, settings):
    run = fit(encoder, files, tmp_path / "run", **SOLVED, **settings)
    probe = run.training.linear_probe
    assert run.training.steps == 0
    assert (probe.metric, probe.folds, probe.rows, probe.of_rows) == ("f1", 5, 60, 60)
    assert "f1" in probe.sentence
    assert "by 5-fold cross-validation" in probe.sentence
    assert run.metrics["test"]["f1"] > 0.9
    assert probe.value > 0.8
    [answer] = warmstart.load(run.folder).predict(["bob is in tokyo 7"])
    assert [(entity["text"], entity["label"]) for entity in answer["entities"]] == [("bob", "PER"), ("tokyo", "LOC")]
    head = load_file(run.folder / "linear-probe" / "head.safetensors")
    assert torch.equal(run.predictor.engine.model.classifier.weight.cpu(), head["weight"])


def test_a_long_text_is_held_out_with_all_of_its_windows(encoder, files, tmp_path):
    run = fit(encoder, files, tmp_path / "run", train="long", **SOLVED, **{"window.max_tokens": 16})
    assert (run.training.linear_probe.rows, run.training.linear_probe.of_rows) == (30, 30)
    assert run.training.linear_probe.value > 0.8


def test_fine_tuning_starts_from_the_solution_and_a_stopped_run_does_not_fit_it_again(
    encoder, files, tmp_path, monkeypatch
):
    still = {**FAST["training"], "learning_rate": 1e-12, "max_steps": 2}
    settings = {"head.init": "linear-probe", "training": still}
    solved = fit(encoder, files, tmp_path / "solved", **SOLVED)
    run = fit(encoder, files, tmp_path / "run", **settings)
    assert run.training.steps == 2
    assert run.training.linear_probe.value == pytest.approx(solved.training.linear_probe.value)
    start = load_file(run.folder / "linear-probe" / "start.safetensors")
    assert torch.allclose(run.predictor.engine.model.classifier.weight.cpu(), start["weight"], atol=1e-6)
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        patch.setattr("warmstart.pipeline.finetune.train", None)
        with pytest.raises(TypeError):
            fit(encoder, files, folder, **settings)
    monkeypatch.setattr(token_probe, "fit_head", None)
    again = fit(encoder, files, folder, **settings)
    weights = [load_file(one.model / "model.safetensors") for one in (run, again)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_crf_is_refused(encoder, files, tmp_path):
    with pytest.raises(RecipeError, match=r"head.init: found linear-probe, but tag"):
        fit(encoder, files, tmp_path / "run", task={"name": "tag", "crf": True}, **SOLVED)


def test_many_tokens_are_sampled_by_texts_and_no_label_is_lost():
    texts = np.repeat(np.arange(50), 2)
    labels = [{0} for _ in texts]
    labels[97] = {0, 3}
    chosen = sample_texts(texts, [5] * len(texts), labels, 100, seed=1)
    assert 10 <= len(chosen) <= 12
    assert 48 in chosen
    assert len(sample_texts(texts, [5] * len(texts), labels, 500, seed=1)) == 50
