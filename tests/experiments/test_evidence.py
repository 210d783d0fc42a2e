"""`fit` with seeds: what is trained, selected and recorded, whatever stops it on the way."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import warmstart
from processes import finish_together
from small import FAST, reviews
from test_resume import Crash, Trouble, crash
from warmstart.errors import RecipeError, RunError, TrainingError
from warmstart.evaluation.records.files import as_json
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import RunResult
from warmstart.experiments import repeat as repeating
from warmstart.experiments import selection
from warmstart.experiments.selection import select

LEARN = {**FAST["training"], "epochs": 6}


@pytest.fixture
def fit(encoder, files, tmp_path):
    def start(out="run", **more):
        asked = {
            "model": encoder,
            "train": files["train"],
            "test": files["test"],
            "training": LEARN,
            "seeds": 2,
            **more,
        }
        return warmstart.fit(out=tmp_path / out, **asked)

    return start


@pytest.fixture(scope="module")
def ensemble(encoder, files, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "ensemble"
    data = {"train": files["train"], "test": files["test"], "split": {"dev": 0.2}}
    return warmstart.fit(model=encoder, data=data, seeds=2, select="ensemble", **FAST, out=out)


def test_a_run_of_seeds_is_a_run_like_any_other(fit):
    run = fit(data={"split": {"dev": 0.25}}, seeds=3)
    assert run.finished
    evidence = run.evidence
    own, tfidf = evidence.variants
    seeds = [RunFolder(run.folder / "variants" / "recipe" / f"seed-{seed}") for seed in range(3)]
    values = [seed.metrics["test"]["accuracy"] for seed in seeds]
    assert (own.variant, own.seeds, own.values) == ("recipe", [0, 1, 2], values)
    assert own.mean == pytest.approx(np.mean(values))
    assert own.sd == pytest.approx(np.std(values, ddof=1))
    assert tfidf.variant == "tfidf"
    dev = [seed.metrics["dev"]["accuracy"] for seed in seeds]
    best = evidence.selected.seed
    assert evidence.selected.how == "best"
    assert dev[best] == max(dev)
    assert run.metrics["test"]["accuracy"] == values[best]
    given = [one["label"] for one in run.predict([text for text, _ in reviews(24, start=1000)])]
    assert given == pq.read_table(run.folder / "predictions.parquet")["label"].to_pylist()
    assert (evidence.rows.count, evidence.rows.mean) == pytest.approx((24, values[best]))
    assert run.training.steps == seeds[0].training.steps
    assert not list(run.folder.glob("variants/*/*/model")), "models that are not kept are gone"


def test_all_seeds_hold_out_the_same_rows(fit, files):
    run = fit(test=None, seeds=2)
    each = [pq.read_table(run.folder / f"variants/recipe/seed-{seed}/predictions.parquet")["row"] for seed in (0, 1)]
    assert each[0] == each[1]
    assert run.evidence.comparisons[0].rows.count == len(each[0])


def test_without_dev_rows_the_test_does_not_choose(fit):
    selected = fit().evidence.selected
    assert (selected.how, selected.seed) == ("first", 0)
    assert "test rows may not" in selected.why


def test_an_average_has_the_mean_of_weights_with_one_start(fit, monkeypatch):
    members = {}
    put = selection._average

    def note(sources, staging):
        members.update({number: load_file(one / "model.safetensors") for number, one in enumerate(sources)})
        put(sources, staging)

    monkeypatch.setattr(selection, "_average", note)
    run = fit(select="average")
    found = load_file(run.model / "model.safetensors")
    assert sorted(members) == [0, 1]
    name = "classifier.weight"
    assert not torch.equal(members[0][name], members[1][name])
    for name, value in found.items():
        assert torch.allclose(value, (members[0][name].double() + members[1][name].double()).float() / 2)
    assert run.evidence.selected.how == "average"
    assert "the mean of its members" in run.evidence.selected.why
    recipes = [RunFolder(run.folder / f"variants/recipe/seed-{seed}").recipe for seed in (0, 1)]
    assert [recipe.init_seed for recipe in recipes] == [0, 0]
    given = [one["label"] for one in run.predict([text for text, _ in reviews(24, start=1000)])]
    truth = [label for _, label in reviews(24, start=1000)]
    assert run.metrics["test"]["accuracy"] == np.mean([a == b for a, b in zip(given, truth, strict=True)])


def test_heads_with_one_seed_start_alike_and_are_trained_apart(fit):
    one, other = (
        fit("a", seeds=None, training={**LEARN, "learning_rate": 1e-12}),
        fit("b", seeds=None, seed=1, init_seed=0, training={**LEARN, "learning_rate": 1e-12}),
    )
    a, b = (load_file(run.model / "model.safetensors")["classifier.weight"] for run in (one, other))
    assert torch.allclose(a, b, atol=1e-6)


def test_an_ensemble_says_the_mean_of_what_its_members_say(ensemble):
    texts = [text for text, _ in reviews(10, start=500)]
    members = sorted((ensemble.model / "members").iterdir())
    each = [warmstart.load(member).predict(texts) for member in members]
    for number, given in enumerate(ensemble.predict(texts)):
        for label, chance in given["probabilities"].items():
            assert chance == pytest.approx(np.mean([one[number]["probabilities"][label] for one in each]), abs=1e-6)
    assert len(members) == 2
    assert ensemble.metrics["test"]["rows"] == 24


def test_a_changed_member_is_noticed(ensemble, tmp_path):
    copy = shutil.copytree(ensemble.model, tmp_path / "model")
    path = copy / "members" / "1" / "config.json"
    text = path.read_text()
    path.unlink()
    path.write_text(text + " ")
    with pytest.raises(warmstart.errors.RunError, match=r"members/1/config\.json was changed"):
        warmstart.load(copy)


@pytest.mark.parametrize("task", ["rank", {"name": "tag", "crf": True}, "masked"])
def test_an_ensemble_of_what_cannot_be_averaged_is_refused_before_training(fit, task, tmp_path):
    with pytest.raises(RecipeError, match=r"select: answers of .* cannot be averaged"):
        fit(task=task, select="ensemble")
    assert not (tmp_path / "run").exists()


def test_bad_data_leaves_no_folder(fit, tmp_path):
    with pytest.raises(warmstart.errors.WarmstartError):
        fit(label="nothing")
    assert not (tmp_path / "run").exists()


def test_a_stopped_run_of_seeds_goes_on(fit, monkeypatch):
    undisturbed = fit("b")
    with pytest.raises(Crash):
        fit("a", progress=Trouble(20, crash), checkpoints={"every_steps": 3})
    # And once more between the model and the numbers.
    remove = repeating.remove_weights

    def stop(*_):
        raise Crash

    monkeypatch.setattr("warmstart.experiments.evidence.remove_weights", stop)
    with pytest.raises(Crash):
        fit("a", checkpoints={"every_steps": 3})
    assert not RunFolder(undisturbed.folder.with_name("a")).finished
    monkeypatch.setattr("warmstart.experiments.evidence.remove_weights", remove)
    with pytest.raises(RunError, match="found a model selected as"):
        fit("a", checkpoints={"every_steps": 3}, select="ensemble")
    run = fit("a", checkpoints={"every_steps": 3})
    assert run.metrics == undisturbed.metrics
    assert (
        load_file(run.model / "model.safetensors").keys() == load_file(undisturbed.model / "model.safetensors").keys()
    )
    for name in ("verdict", "rows", "selected"):
        assert getattr(run.evidence, name) == getattr(undisturbed.evidence, name)


def results_of(values, failed=(), dev=None):
    return [
        RunResult(
            "recipe",
            seed,
            None,
            "test",
            {"test": {"accuracy": value}, **({"dev": {"accuracy": dev[seed]}} if dev else {})},
            "accuracy",
            value,
            1,
            1.0,
            "every answer is 'a'" if seed in failed else "",
        )
        for seed, value in enumerate(values)
    ]


def test_a_failed_seed_is_never_kept():
    found = select(results_of([0.5, 0.8, 0.9], failed=[0], dev=[0.99, 0.8, 0.7]), "best")
    assert (found.how, found.seed) == ("best", 1)
    assert "1 of 3 failed and cannot be selected" in found.why
    assert [result.seed for result in select(results_of([0.5, 0.8, 0.9], failed=[0]), "average").results] == [1, 2]
    assert select(results_of([0.5, 0.8], failed=[0]), "ensemble").how == "first"
    with pytest.raises(TrainingError, match=r"no seed learned anything:\n  seed 0: every answer is 'a'"):
        select(results_of([0.5, 0.5], failed=[0, 1]), "best")


def test_baseline_and_ablation_are_compared_with_their_references(fit):
    run = fit(
        baseline="plain",
        ablate=["layers.lr_decay"],
        layers={"lr_decay": 0.95},
        window={"max_tokens": 32},
    )
    names = [variant.variant for variant in run.evidence.variants]
    assert names == ["recipe", "plain", "only layers.lr_decay", "without layers.lr_decay", "tfidf"]
    pairs = [(one.variant, one.reference) for one in run.evidence.comparisons]
    assert pairs == [
        ("recipe", "plain"),
        ("only layers.lr_decay", "plain"),
        ("without layers.lr_decay", "recipe"),
        ("tfidf", "recipe"),
    ]
    recipes = {name: RunFolder(run.folder / "variants" / name / "seed-1").recipe for name in names[:-1]}
    assert {name: recipe.layers.lr_decay for name, recipe in recipes.items()} == {
        "recipe": 0.95,
        "plain": 1.0,
        "only layers.lr_decay": 0.95,
        "without layers.lr_decay": 1.0,
    }
    assert {name: recipe.training.learning_rate for name, recipe in recipes.items()} == {
        "recipe": 3e-3,
        "plain": 5e-5,
        "only layers.lr_decay": 5e-5,
        "without layers.lr_decay": 3e-3,
    }
    assert recipes["plain"].window.max_tokens == 32
    json.dumps(as_json(run.evidence), allow_nan=False)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"ablate": ["layers.lr_decay"]}, r"ablate: layers\.lr_decay is as in plain fine-tuning"),
        ({"ablate": ["layers.decai"]}, r"did you mean 'layers\.lr_decay'"),
        ({"select": "average", "seeds": None}, "there is one seed"),
        ({"test": None, "data": {"split": {"test": 0}}}, "nothing to measure on"),
        (
            {"ablate": ["window.slice_pooling"], "window": {"method": "slices", "slice_pooling": "max"}},
            "variant only window.slice_pooling",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_before_training(fit, said, message, tmp_path):
    with pytest.raises(RecipeError, match=message):
        fit(**said)
    assert not (tmp_path / "run").exists()


WORK = """
import json, sys
import warmstart
run = warmstart.fit(**json.loads(sys.argv[1]))
print(json.dumps([run.metrics, run.evidence.verdict, run.evidence.selected.why]))
"""


def test_two_processes_share_the_seeds_and_one_keeps(encoder, files, tmp_path, commands):
    asked = {"model": encoder, "train": files["train"], "test": files["test"], "training": LEARN, "seeds": 2}
    said = json.dumps({**asked, "out": str(tmp_path / "run")})
    (tmp_path / "work.py").write_text(WORK)
    both = finish_together([commands / "python", tmp_path / "work.py", said], 2)
    outs = [one.stdout for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert outs[0] == outs[1]
    assert not list((tmp_path / "run").glob("variants/*/*/model"))
