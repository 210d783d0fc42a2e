"""Stages before a fine-tuning: carried out once, kept for all, used again, and gone on with after a kill."""

import itertools
import json
from contextlib import contextmanager

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

import warmstart
from small import FAST, reviews
from test_resume import Crash, Trouble, crash
from tiny import declare_pooling, save_tiny
from warmstart.cli.main import app
from warmstart.errors import RecipeError
from warmstart.evaluation.run import RunFolder
from warmstart.models.sentence_transformers_folder import declared_pooling
from warmstart.pipeline import run_recipe
from warmstart.pipeline.reuse import reuse_finetuning
from warmstart.pipeline.run_recipe import plan_stages
from warmstart.recipe import StageOptions, load_recipe, make_recipe
from warmstart.runtime.progress import silent

PRETRAIN = {"pretrain": {"max_tokens": 32, "steps": 6, "training": {"precision": "fp32", "batch_size": 8}}}
SAVES = {"checkpoints": {"every_steps": 2, "when_finished": "keep"}}
LEARN = {"training": {**FAST["training"], "epochs": 1}}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fit(encoder, files, tmp_path, cache):
    def call(out, progress=None, **more):
        settings = {"model": encoder, "stages": [PRETRAIN], **LEARN, **SAVES, **more}
        said = {"progress": progress} if progress else {}
        return warmstart.fit(train=files["train"], test=files["test"], out=tmp_path / out, **settings, **said)

    return call


def weights(run):
    return load_file(run.model / "model.safetensors")


def kept(cache, stage="pretrain"):
    return sorted(path for path in (cache / "stages").glob(f"{stage}-*") if path.is_dir())


def test_a_fine_tuning_starts_where_the_stage_before_it_ended(fit, cache, encoder):
    run = fit("run", training={**LEARN["training"], "learning_rate": 1e-12})
    [stage] = kept(cache)
    before, after = load_file(f"{encoder}/model.safetensors"), load_file(stage / "model" / "model.safetensors")
    name = "encoder.layer.0.output.dense.weight"
    learned, start = after[f"bert.{name}"], before[name]
    assert not learned.equal(start), "the stage has learned something"
    assert weights(run)[f"bert.{name}"].allclose(learned, atol=1e-7)
    told = json.loads((run.folder / "stages/01-pretrain/stage.json").read_text())
    assert told["store"] == stage.name
    assert told["training"]["steps"] == 6
    assert 0 <= told["metrics"]["test"]["accuracy"] <= 1
    assert (run.folder / "stages/02-finetune/history.json").is_file()
    assert run.training.steps > 0


@pytest.mark.parametrize("stage", ["pretrain", "multitask"])
def test_a_stage_does_not_forget_how_the_encoder_is_pooled(stage, fit, cache, files, tmp_path):
    encoder = save_tiny(tmp_path / "first-token")
    declare_pooling(encoder, {"pooling_mode_cls_token": True})
    other = make_recipe({"task": "classify", "model": str(encoder), "data.train": files["train"]})
    (tmp_path / "other.yaml").write_text(other.yaml())
    together = {"with": [str(tmp_path / "other.yaml")], "training": LEARN["training"]}
    run = fit("run", model=str(encoder), stages=[PRETRAIN if stage == "pretrain" else {"multitask": together}])
    [kept_stage] = kept(cache, stage)
    assert declared_pooling(str(kept_stage / "model")) == "cls"
    assert json.loads((run.model / "config.json").read_text())["pooling"] == "cls"
    SentenceTransformer = pytest.importorskip("sentence_transformers").SentenceTransformer
    vector = SentenceTransformer(str(kept_stage / "model"), device="cpu").encode("a good film")
    assert vector.shape == (32,)


def test_ten_fine_tunings_share_one_stage(fit, cache):
    fit("one")
    notes = Trouble()
    fit("two", notes, seed=1)
    assert len(kept(cache)) == 1
    assert any("01-pretrain is finished" in line for line in notes.said)


def test_the_same_again_trains_nothing(fit):
    first, notes = fit("one"), Trouble(1, crash)
    again = fit("two", notes)
    assert any("fine-tuning is finished" in line for line in notes.said)
    assert again.metrics == first.metrics
    assert all(one.equal(two) for one, two in zip(weights(first).values(), weights(again).values(), strict=True))
    assert again.training.history == first.training.history
    assert warmstart.load(again.folder).predict(["a good film"])


def test_a_reused_fine_tuning_leaves_no_checkpoints_of_its_own(fit, tmp_path):
    done, stopped = fit("one").folder, tmp_path / "two"
    (stopped / "checkpoints" / "step-000000001").mkdir(parents=True)
    reuse_finetuning(done, stopped, silent)
    assert not (stopped / "checkpoints").exists()
    assert (stopped / "metrics.json").is_file()


def test_reuse_can_be_refused(fit):
    first = fit("one")
    with pytest.raises(Crash):
        fit("two", Trouble(1, crash), reuse_stages=False)
    again = fit("two", reuse_stages=False)
    assert all(one.equal(two) for one, two in zip(weights(first).values(), weights(again).values(), strict=True))


def test_a_stage_that_another_run_has_just_finished_is_not_trained_again(fit, cache, monkeypatch):
    lock, notes = run_recipe.locked_stage, Trouble()

    @contextmanager
    def after_another_run(folder, identity):
        monkeypatch.setattr(run_recipe, "locked_stage", lock)
        fit("other")
        with lock(folder, identity):
            yield

    monkeypatch.setattr(run_recipe, "locked_stage", after_another_run)
    removed = []
    monkeypatch.setattr(run_recipe, "discard", removed.append)
    fit("run", notes)
    assert removed == [], "the other run may still be reading it"
    assert any("01-pretrain was just finished" in line for line in notes.said)


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_crash_in_a_stage(fit, cache, monkeypatch, tmp_path, step):
    with pytest.raises(Crash):
        fit("run", Trouble(step, crash))
    assert not (kept(cache)[0] / "metrics.json").exists()
    run = fit("run")
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "other"))
    whole = fit("whole")
    assert all(one.equal(two) for one, two in zip(weights(run).values(), weights(whole).values(), strict=True))


def test_other_settings_make_another_stage_and_the_command_says_why(fit, cache, encoder, files, tmp_path):
    fit("one")
    recipe = {"model": encoder, "data.train": files["train"], "data.test": files["test"], "stages": [PRETRAIN]}
    path = tmp_path / "recipe.yaml"
    path.write_text(make_recipe(recipe).yaml())
    told = CliRunner().invoke(app, ["stages", str(path)])
    assert "01-pretrain: finished" in told.output, told.output
    changed = {"pretrain": {**PRETRAIN["pretrain"], "steps": 7}}
    path.write_text(make_recipe({**recipe, "stages": [changed]}).yaml())
    told = CliRunner().invoke(app, ["stages", str(path)])
    assert "recipe.training.max_steps: then 6, now 7" in told.output, told.output
    listed = json.loads(CliRunner().invoke(app, ["stages", "--json"]).output)
    assert [one["stage"] for one in listed] == [kept(cache)[0].name]
    assert CliRunner().invoke(app, ["stages", "--prune", "all"]).exit_code == 0
    assert kept(cache) == []


def test_texts_of_files_and_of_the_task_itself(fit, cache, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("review\n" + "\n".join(f"a film like number {n}" for n in range(40)) + "\n")
    on = {"in-domain": ["within-task", {"file": str(more), "columns": {"text": "review"}}]}
    fit("run", stages=[{"pretrain": {**PRETRAIN["pretrain"], "corpus": on}}])
    rows = json.loads((kept(cache)[0] / "data.json").read_text())["parts"]
    own = len((tmp_path / "run" / "recipe.yaml").read_text()) and RunFolder(tmp_path / "run").data.parts["train"].rows
    assert rows["train"]["rows"] + rows["test"]["rows"] == own + 40


def test_cross_domain_is_the_domain_of_the_task_and_others(encoder, files, cache, tmp_path):
    """As in Sun et al. 2019, section 3.2: "both the same and other different domains to a target task"."""
    far = tmp_path / "far.txt"
    far.write_text("a sermon on snow\n\na sermon on rain\n")
    own = [text for text, _ in reviews(64)]
    for listed in ([str(far)], ["within-task", str(far)]):  # named or not, its own texts come once
        stage = {"pretrain": {**PRETRAIN["pretrain"], "corpus": {"cross-domain": listed}}}
        recipe = make_recipe({"model": encoder, "data.train": files["train"], "data.test": files["test"]})
        [planned] = plan_stages(recipe.model_copy(update={"stages": [StageOptions.model_validate(stage)]}))
        assert list(planned.texts) == [*own, "a sermon on snow", "a sermon on rain"]


@pytest.mark.parametrize("name", ["within-task", "in-domain", "cross-domain"])
@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_shipped_pretraining_also_predicts_the_next_sentence(name, kind, cache, files, tmp_path, monkeypatch):
    """With any encoder for masked tokens, and where rows have one sentence: then it predicts tokens alone."""
    monkeypatch.chdir(tmp_path)
    texts = [f"{text}. The plot was bad! I loved it. It was long." for text, _ in reviews(64, start=100)]
    for file in ("in-domain.txt", "cross-domain.txt"):
        (tmp_path / file).write_text("\n\n".join(texts))
    [stage] = load_recipe(f"recipes:{name}", {"model": "m", "data.train": "x"}).stages
    assert stage.pretrain.objective == "mlm+nsp"
    short = {**stage.pretrain.model_dump(exclude_unset=True), **PRETRAIN["pretrain"], "steps": 2}
    given = {"model": str(save_tiny(tmp_path / kind, kind)), "train": files["train"], "test": files["test"]}
    notes = Trouble()
    run = warmstart.fit(
        f"recipes:{name}", out=tmp_path / "run", progress=notes, stages=[{"pretrain": short}], **given, **LEARN
    )
    numbers = json.loads((run.folder / "stages/01-pretrain/stage.json").read_text())["metrics"]["test"]
    assert (numbers["nsp_pairs"] > 0) == (name != "within-task"), "rows of the task have one sentence each"
    assert any("has no head for pairs" in line for line in notes.said) == (kind == "distilbert")


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"stages": [{"pretrain": {"corpus": "everything"}}]}, "expected within-task"),
        ({"stages": [{}]}, "expected one of pretrain"),
        ({"stages": [{"pretrain": {"steps": 3, "training": {"max_steps": 4}}}]}, "leave one out"),
        (
            {"stages": [{"multitask": {"with": ["a.yaml"], "keep_head": True}}], "head.reuse": False},
            "head.reuse: found false, but a stage multitask has keep_head",
        ),
        (
            {"stages": [{"multitask": {"with": ["a.yaml"], "keep_head": True}}, PRETRAIN]},
            r"stages\.0\.multitask\.keep_head: found true, but a stage pretrain follows",
        ),
        ({"from_scratch": {"hidden_size": 30, "num_heads": 4}}, "does not divide"),
        ({"model": "x", "from_scratch": {}}, "leave one out"),
    ],
)
def test_what_does_not_go_together_is_refused(said, match):
    with pytest.raises(RecipeError, match=match):
        make_recipe({**({} if "from_scratch" in said else {"model": "x"}), "data.train": "x.csv", **said})


@pytest.fixture
def other(encoder, files, tmp_path):
    """The recipe file of a second task."""
    path = tmp_path / "stars.yaml"
    path.write_text(make_recipe({"model": encoder, "task": "score", "data.train": files["scores"]}).yaml())
    return str(path)


def test_three_stages_in_one_recipe(fit, cache, other):
    several = {"multitask": {"with": [other], "training": {**LEARN["training"], "max_steps": 6}}}
    run = fit("run", stages=[PRETRAIN, several])
    [stage] = kept(cache, "multitask")
    told = json.loads((run.folder / "stages/02-multitask/stage.json").read_text())
    assert set(told["metrics"]) == {"own", "stars"}
    assert warmstart.load(stage / "heads" / "stars").predict(["a good film"])[0].keys() == {"score"}
    assert (run.folder / "stages/03-finetune/history.json").is_file()
    notes = Trouble(1, crash)
    fit("again", notes, stages=[PRETRAIN, several])
    assert len([line for line in notes.said if "is finished" in line]) == 3
    fit("seeds", stages=[PRETRAIN, several], **{"data.split.seed": 0})
    assert kept(cache, "multitask") == [stage], "several seeds name the seed of the split, which gives the same rows"


STILL = {"training": {**LEARN["training"], "learning_rate": 1e-12}}
"""A fine-tuning that leaves everything as it finds it."""


def test_a_fine_tuning_after_several_tasks_has_the_pretrained_pooler(fit, encoder, other):
    """As one without a stage before it has: the stage's encoder alone came without, and its pooler was drawn anew."""
    several = {"multitask": {"with": [other], "training": {**LEARN["training"], "max_steps": 4}}}
    pretrained = load_file(f"{encoder}/model.safetensors")
    for stages in ([], [several], [PRETRAIN, several]):
        run = fit(f"run{len(stages)}", stages=stages, **STILL)
        assert not any("pooler" in name for name in run.training.new_parameters)
        for name in ("pooler.dense.weight", "pooler.dense.bias"):
            assert weights(run)[f"bert.{name}"].allclose(pretrained[name], atol=1e-7)


def test_a_fine_tuning_can_go_on_with_its_own_head(fit, cache, other):
    training = {**LEARN["training"], "max_steps": 4}
    several = {"multitask": {"with": [other], "training": training, "keep_head": True}}
    run = fit("run", stages=[several], **STILL)
    [stage] = kept(cache, "multitask")
    head = load_file(stage / "heads/own/model.safetensors")
    after = weights(run)
    assert run.training.new_parameters == []
    assert set(after) == set(head)
    assert all(after[name].allclose(value, atol=1e-7) for name, value in head.items())
    plain = fit("plain", stages=[{"multitask": {"with": [other], "training": training}}], **STILL)
    assert plain.training.new_parameters == ["classifier.bias", "classifier.weight"]


@pytest.mark.parametrize("step", [8, 14])
def test_a_crash_in_any_stage_of_three(fit, monkeypatch, tmp_path, other, step):
    """Of 6, 6 and 4 steps."""
    several = {"multitask": {"with": [other], "training": {**LEARN["training"], "max_steps": 6}}}

    class Late(Trouble):
        """Trouble at a step counted over all stages."""

        total = 0

        def advance(self, amount=1, note=""):
            self.total += amount if self.training else 0
            if self.training and self.total == self.step:
                self.what()

    with pytest.raises(Crash):
        fit("run", Late(step, crash), stages=[PRETRAIN, several])
    run = fit("run", stages=[PRETRAIN, several])
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "other"))
    whole = fit("whole", stages=[PRETRAIN, several])
    assert all(one.equal(two) for one, two in zip(weights(run).values(), weights(whole).values(), strict=True))


def test_an_encoder_from_scratch(fit, cache):
    small = {"num_layers": 1, "hidden_size": 16, "num_heads": 2, "vocab_size": 300, "max_tokens": 48}
    run = fit("run", model="", from_scratch=small)
    assert run.folder.joinpath("stages/01-scratch").is_dir()
    assert run.folder.joinpath("stages/03-finetune").is_dir()
    assert weights(run)["bert.encoder.layer.0.output.dense.weight"].shape == (16, 64)
    assert len(kept(cache, "scratch")) == 1


def test_what_each_stage_forgets_is_seen_from_the_first_encoder(fit, other, tmp_path, encoder):
    general = tmp_path / "general.txt"
    general.write_text("\n\n".join(f"alice and bob saw film {n} in paris and loved it" for n in range(24)))
    several = {"multitask": {"with": [other], "training": {**LEARN["training"], "max_steps": 4}}}
    run = fit("run", stages=[PRETRAIN, several], forgetting={"text": str(general), "rows": 8})
    assert list(run.forgetting) == ["01-pretrain", "02-multitask", "03-finetune"]
    ends = [(one.seen[0].cka[-1], one.seen[-1].cka[-1]) for one in run.forgetting.values()]
    assert ends[0][0] == pytest.approx(1, abs=1e-4), "the first stage starts from the encoder itself"
    assert ends[0][1] < 1
    for before, after in itertools.pairwise(ends):
        assert after[0] == pytest.approx(before[1], abs=1e-3), "a stage starts where the one before it ended"


def test_a_complete_recipe_is_read_again(encoder, files, other, tmp_path):
    several = {"multitask": {"with": [other]}}
    made = make_recipe({"model": encoder, "data.train": files["train"], "stages": [PRETRAIN, several]})
    path = tmp_path / "recipe.yaml"
    path.write_text(made.yaml())
    assert load_recipe(path) == made


def test_every_stage_is_planned(encoder, files, other, cache, tmp_path):
    several = {"multitask": {"with": [other], "training": {"max_steps": 6, "batch_size": 16}}}
    made = make_recipe({"model": encoder, "data.train": files["train"], "stages": [PRETRAIN, several]})
    path = tmp_path / "recipe.yaml"
    path.write_text(made.yaml())
    told = CliRunner().invoke(app, ["plan", str(path), "--hardware", "t4", "--json"])
    assert told.exit_code == 0, told.exception
    stages = json.loads(told.stdout)["stages"]
    assert [one["stage"] for one in stages] == ["pretrain", "multitask: own", "multitask: stars", "finetune"]
    assert stages[0]["steps"] == 6
    assert stages[1]["steps"] + stages[2]["steps"] == 6
    assert kept(cache) == [], "nothing was trained"
