"""Several tasks on one encoder: all learn, each head is a plain model, and a stopped stage goes on to the bit."""

import json
from contextlib import contextmanager

import pytest
import torch
import transformers
from safetensors.torch import load_file

from small import relations, reviews
from tiny import ARCHITECTURES, NoStockHead, save_tiny, tiny_model, tiny_tokenizer
from warmstart.errors import RecipeError, RunError
from warmstart.inference.predictor import Predictor
from warmstart.models.hidden_states import encoder_of
from warmstart.models.layer_map import LayerMap
from warmstart.models.shared_encoder import MultiTaskModel
from warmstart.pipeline.multitask import train_multitask
from warmstart.pipeline.multitask_recipes import MultitaskStage, task_recipes
from warmstart.recipe import CheckpointOptions, MultitaskOptions, make_recipe

LEARN = {"learning_rate": 3e-3, "epochs": 12, "batch_size": 8, "precision": "fp32"}
SHORT = {**LEARN, "epochs": 1}


def people(count, start=0):
    rows = []
    for number in range(start, start + count):
        name, city = ("alice", "bob")[number % 2], ("paris", "london", "tokyo")[number % 3]
        text = f"{name} lives in {city} {number}"
        place = text.index(city)
        entities = [
            {"start": 0, "end": len(name), "label": "PER"},
            {"start": place, "end": place + len(city), "label": "LOC"},
        ]
        rows.append({"text": text, "entities": entities})
    return rows


def opinions(count, start=0, kind=str):
    said = {"pos": 1.0, "neg": -1.0}
    return [{"text": text, "label": label if kind is str else said[label]} for text, label in reviews(count, start)]


ROWS = {
    "opinion": {"train": opinions(48), "test": opinions(24, 1000)},
    "people": {"train": people(24), "test": people(12, 1000)},
    "stars": {"train": opinions(24, 100, float), "test": opinions(24, 2000, float)},
}
TASKS = {"opinion": "classify", "people": "tag", "stars": "score"}


def recipes(encoder, names=TASKS, **more):
    values = {"model": encoder, "data.train": "(rows in memory)"}
    return {name: make_recipe({**values, "task": TASKS.get(name, name), **more.get(name, {})}) for name in names}


def options(training=LEARN, **more):
    return MultitaskOptions(**{"with": ["others.yaml"], "training": training, **more})


def together(folder, encoder, options, names=TASKS, **more):
    work = folder / ".work"
    work.mkdir(parents=True, exist_ok=True)
    chosen = more.pop("recipes", None) or recipes(encoder, names)
    saves, rows = CheckpointOptions(every_steps=5, when_finished="keep"), more.pop("rows", ROWS)
    stage = MultitaskStage(chosen, options, checkpoints=saves, rows=rows)
    train_multitask(stage, folder, folder / ".cache", work, **more)
    return folder


@pytest.fixture(scope="module")
def done(encoder, tmp_path_factory):
    return together(tmp_path_factory.mktemp("multi") / "stage", encoder, options())


def read(path):
    return json.loads(path.read_text())


def test_tasks_of_different_kinds_are_all_learned(done):
    found = read(done / "metrics.json")
    assert found["opinion"]["test"]["accuracy"] == 1.0
    assert found["people"]["test"]["f1"] == 1.0
    assert found["stars"]["test"]["pearson"] > 0.95
    assert {name: one["test"]["rows"] for name, one in found.items()} == {"opinion": 24, "people": 12, "stars": 24}


def test_the_encoder_is_one_and_has_moved(done, encoder):
    shared, before = load_file(done / "model" / "model.safetensors"), load_file(f"{encoder}/model.safetensors")
    assert set(before) == set(shared)
    pooler = {name: shared.pop(name) for name in before if name.startswith("pooler.")}
    assert all(torch.equal(value, before[name]) for name, value in pooler.items()), "as it was pretrained"
    # A key's bias moves all scores alike, so it has hardly a gradient.
    assert all(not torch.equal(shared[name], before[name]) for name in shared)
    for name in TASKS:
        head = load_file(done / "heads" / name / "model.safetensors")
        assert all(torch.equal(head[f"bert.{key}"], value) for key, value in shared.items())
        assert set(head) > {f"bert.{key}" for key in shared}


def test_a_head_opens_in_plain_transformers_and_gives_the_same(done):
    text = "the film 7 was good and very great"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(done / "heads" / "opinion").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(done / "heads" / "opinion")(text, return_tensors="pt")
    (answer,) = Predictor.load(done / "heads" / "opinion").predict([text])
    with torch.no_grad():
        chances = model(**tokens).logits.double().softmax(-1)[0].tolist()
    assert answer["probability"] == pytest.approx(max(chances))
    assert answer["label"] == "pos"
    assert (
        transformers.AutoModelForTokenClassification.from_pretrained(done / "heads" / "people").config.num_labels == 5
    )
    encoder = transformers.AutoModel.from_pretrained(done / "model")
    assert torch.equal(encoder.embeddings.word_embeddings.weight, model.bert.embeddings.word_embeddings.weight)


def test_the_folder_says_what_was_done(done):
    data, history = read(done / "data.json"), read(done / "trained" / "history.json")
    assert {name: one["parts"]["train"]["rows"] for name, one in data.items()} == {
        "opinion": 48,
        "people": 24,
        "stars": 24,
    }
    assert history["steps"] == 12 * 12
    assert history["weights"] == {"opinion": 1.0, "people": 1.0, "stars": 1.0}
    assert read(done / "multitask.json")["with"] == ["others.yaml"]
    assert sorted(path.name for path in (done / "recipes").iterdir()) == ["opinion.yaml", "people.yaml", "stars.yaml"]
    assert not (done / "trainer").exists()


def test_a_checkpoint_holds_the_encoder_once(done):
    newest = sorted((done / "checkpoints").iterdir())[-1]
    weights = [name for name in load_file(newest / "tensors.safetensors") if name.startswith("/weights")]
    assert len([name for name in weights if name.endswith("word_embeddings.weight")]) == 1


def test_the_model_is_the_start_of_the_next_stage(done, encoder, files, tmp_path):
    import warmstart

    training = {"training": {**LEARN, "epochs": 2}}
    run = warmstart.fit(
        model=str(done / "model"), train=files["train"], test=files["test"], out=tmp_path / "r", **training
    )
    assert run.metrics["test"]["accuracy"] == 1.0
    kept = warmstart.fit(
        model=str(done / "heads" / "opinion"), train=files["train"], test=files["test"], out=tmp_path / "k", **training
    )
    assert kept.metrics["test"]["accuracy"] == 1.0


class Crash(Exception):
    """Stands for a kill."""


class Trouble:
    """Progress that ends a training at a step of it."""

    def __init__(self, step):
        self.step, self.done, self.said = step, 0, []

    @contextmanager
    def bar(self, name, total):
        self.training, self.done = name == "training", 0
        yield self

    def advance(self, amount=1, note=""):
        self.done += amount
        if self.training and self.done == self.step:
            raise Crash

    def log(self, text):
        self.said.append(text)


def test_a_stopped_stage_goes_on_to_the_bit_and_uncertain_weights_are_learned(encoder, tmp_path):
    asked = options({**LEARN, "epochs": 3, "average_last_epochs": 2}, sampling="annealed", loss_weights="uncertainty")
    whole = together(tmp_path / "whole", encoder, asked)
    for step in (13, 27):  # in the second epoch, and in the third
        with pytest.raises(Crash):
            together(tmp_path / "stopped", encoder, asked, progress=Trouble(step))
    again = Trouble(None)
    together(tmp_path / "stopped", encoder, asked, progress=again)
    assert again.said == ["resuming from step-000000025"]
    for path in ["model/model.safetensors", *(f"heads/{name}/model.safetensors" for name in TASKS)]:
        assert (whole / path).read_bytes() == (tmp_path / "stopped" / path).read_bytes()
    assert read(whole / "metrics.json") == read(tmp_path / "stopped" / "metrics.json")
    history = [read(folder / "trained" / "history.json") for folder in (whole, tmp_path / "stopped")]
    assert history[0]["history"] == history[1]["history"]
    assert history[0]["weights"] == history[1]["weights"]
    moved = [abs(weight - 0.5) for weight in history[0]["weights"].values()]  # from ½ on
    assert min(moved) > 0
    assert max(moved) > 0.05


def test_a_finished_stage_is_used_as_it_stands_and_another_one_refused(done, encoder):
    said = Trouble(None)
    before = (done / "metrics.json").stat().st_mtime_ns
    together(done, encoder, options(), progress=said)
    assert said.said == ["stage is trained; reused"]
    assert (done / "metrics.json").stat().st_mtime_ns == before
    with pytest.raises(RunError, match=r"multitask\.sampling: then 'square-root', now 'uniform'"):
        together(done, encoder, options(sampling="uniform"))
    with pytest.raises(RunError, match=r"stars\.data\.train"):
        together(done, encoder, options(), rows={**ROWS, "stars": {**ROWS["stars"], "train": opinions(24, 500, float)}})


def heads(weights=(), names=("sequence", "token")):
    models = {name: tiny_model("bert", name, num_labels=3) for name in names}
    return MultiTaskModel(models, dict.fromkeys(names), dict(weights) if not isinstance(weights, str) else weights)


def batch(task):
    inputs = tiny_tokenizer()(["the good film", "bad"], padding=True, return_tensors="pt")
    labels = torch.tensor([0, 2]) if task == "sequence" else torch.ones_like(inputs["input_ids"])
    return {**inputs, "labels": labels, "task": task}


def test_weights_by_hand_scale_gradients():
    for task, scale in (("sequence", 1.0), ("token", 3.0)):
        plain, weighted = heads(), heads({"token": 3.0})
        for model in (plain, weighted):
            model.eval()(**batch(task))["loss"].backward()
        one, two = (model.encoder.embeddings.word_embeddings.weight.grad for model in (plain, weighted))
        assert torch.allclose(two, scale * one, rtol=1e-5)
        assert one.abs().max() > 0


def test_an_uncertain_loss_is_that_of_the_formula():
    plain, learned = heads().eval(), heads("uncertainty").eval()
    loss = float(plain(**batch("token"))["loss"])
    assert float(learned(**batch("token"))["loss"]) == pytest.approx(loss / 2)
    with torch.no_grad():
        learned.scaled[1] = 0.01  # a log-variance of 1
    found = learned(**batch("token"))["loss"]
    assert float(found) == pytest.approx(0.5 * loss / 2.718281828 + 0.5)
    found.backward()
    assert learned.scaled.grad.tolist() == pytest.approx([0, 0.5 - 0.5 * loss / 2.718281828])


def test_frozen_layers_stay_and_a_head_moves_only_with_its_own_task(encoder, tmp_path):
    asked = options(SHORT, layers={"freeze": 2, "unfreeze": "head-first", "unfreeze_every": 2})
    folder = together(tmp_path / "stage", encoder, asked)
    before, after = load_file(f"{encoder}/model.safetensors"), load_file(folder / "model" / "model.safetensors")
    still = {name for name in after if torch.equal(before[name], after[name])}
    assert {name for name in after if name.startswith(("embeddings", "encoder.layer.0."))} <= still
    assert not any(name.startswith(("encoder.layer.1.", "encoder.layer.2.")) for name in still)


def test_the_layer_map_shows_one_encoder_and_all_heads():
    model = heads("uncertainty", ("sequence", "token", "span"))
    layers = LayerMap.of(model)
    one = LayerMap.of(tiny_model("bert", None))
    assert [group.num_parameters for group in layers.groups[:-1]] == [group.num_parameters for group in one.groups[:-1]]
    assert "scaled" in layers.head.parameters
    assert sum(group.num_parameters for group in layers.groups) == sum(p.numel() for p in model.parameters())
    poolers = [name for name in layers.head.parameters if "pooler" in name]
    assert poolers == ["models.0.bert.pooler.dense.weight", "models.0.bert.pooler.dense.bias"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_can_be_shared(name):
    models = {}
    for head in ("sequence", "token", "span", "masked"):
        try:
            models[head] = tiny_model(name, head, seed=len(models))
        except NoStockHead:
            continue
    if len(models) < 2:
        pytest.skip("transformers has one stock head at most for it")
    model = MultiTaskModel(models, dict.fromkeys(models), {}).eval()
    inputs = tiny_tokenizer(name)("the", "good film", return_tensors="pt")
    own = dict(model.encoder.named_parameters())
    for task, one in models.items():
        inside = dict(encoder_of(one).named_parameters())
        assert all(inside[key] is parameter for key, parameter in own.items())
        assert not any(p.is_meta for p in one.parameters())
        labels = {"start_positions": torch.tensor([0]), "end_positions": torch.tensor([1])}
        if task != "span":
            labels = {"labels": torch.tensor([0]) if task == "sequence" else torch.zeros_like(inputs["input_ids"])}
        if task == "masked" and one.config.tie_word_embeddings:
            assert one.get_output_embeddings().weight is one.get_input_embeddings().weight
        model(task=task, **inputs, **labels)["loss"].backward()
        assert one.get_input_embeddings().weight.grad.abs().sum() > 0
        model.zero_grad()
    state = {key: torch.zeros_like(value) for key, value in model.state_dict().items()}
    model.load_state_dict(state)
    assert all(not value.any() for one in models.values() for value in one.parameters())
    assert LayerMap.of(model).depth == 3


def test_a_task_with_tokens_of_its_own_widens_the_encoder_of_all(encoder, tmp_path):
    rows = {"relate": {"train": relations(48), "test": relations(24, 48)}, "opinion": ROWS["opinion"]}
    folder = together(tmp_path / "stage", encoder, options(), ["opinion", "relate"], rows=rows)
    found = read(folder / "metrics.json")
    assert found["opinion"]["test"]["accuracy"] == 1.0
    assert found["relate"]["test"]["macro_f1"] > 0.7
    sizes = {
        transformers.AutoConfig.from_pretrained(folder / path).to_dict().get("vocab_size")
        for path in ("model", "heads/opinion")
    }
    assert len(sizes) == 1
    assert "[E1]" in transformers.AutoTokenizer.from_pretrained(folder / "model").get_vocab()
    masked = {"mask": {"task.name": "relate", "task.entity_marking": "mask"}, "relate": {}}
    both = recipes(encoder, ["relate", "mask"], **masked)
    with pytest.raises(
        RecipeError, match=r"tasks add different tokens \(relate: \[E1\].*set the same task.entity_marking"
    ):
        together(
            tmp_path / "two", encoder, options(), recipes=both, rows={"relate": rows["relate"], "mask": rows["relate"]}
        )


@pytest.mark.parametrize("drop", [[], ["leaked"]])
def test_rows_that_another_task_is_tested_on_are_told_and_can_be_left_out(encoder, tmp_path, drop):
    rows = {
        **ROWS,
        "stars": {"train": opinions(24, 100, float) + opinions(6, 1000, float), "test": opinions(6, 1, float)},
    }
    chosen = recipes(encoder, **{name: {"data.drop": drop} for name in TASKS})
    folder = together(tmp_path / "stage", encoder, options({**SHORT, "max_steps": 1}), recipes=chosen, rows=rows)
    data = read(folder / "data.json")
    told = [one["message"] for one in data["stars"]["findings"] if one["kind"] == "shared"]
    assert len(told) == 1
    assert told[0].startswith("6 training rows are in the test of opinion, this one first; ")
    assert data["stars"]["parts"]["train"]["rows"] == (24 if drop else 30)
    assert [one["count"] for one in data["opinion"]["findings"] if one["kind"] == "shared"] == [6]
    assert data["opinion"]["parts"]["train"]["rows"] == (42 if drop else 48)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"sampling": "uniform", "temperature": 2.0}, "temperature: found 2.0, but sampling is uniform"),
        ({"keep_head": True, "include_own": False}, "keep_head: found true, but include_own is false"),
        ({"head": {"layers": "scalar-mix"}}, "head.layers: belongs to one task; put it into the recipe of that task"),
        ({"layers": {"freeze": "encoder"}}, "layers.freeze: found encoder"),
        ({"training": {"r_drop": 1.0}}, "training.r_drop: found 1.0"),
        ({"training": {"batch_tokens": 100}}, "training.batch_tokens: found 100"),
        ({"loss_weights": {"own": 0}}, "greater than 0"),
        ({"sampling": "square"}, "sampling: found 'square'"),
        ({"samplng": "uniform"}, "did you mean 'sampling'"),
        ({"wiht": []}, "did you mean 'with'"),
        ({"with": []}, "with: found"),
    ],
)
def test_impossible_options_are_refused(said, told):
    with pytest.raises(RecipeError, match=told):
        MultitaskOptions.check({"with": ["a.yaml"], **said}, "recipe.yaml")


def test_a_stage_without_others_is_refused():
    with pytest.raises(RecipeError, match="with is missing; expected recipe files of the other tasks"):
        MultitaskOptions.check({}, "recipe.yaml")


def test_the_others_take_the_model_of_the_recipe(encoder, tmp_path):
    (tmp_path / "trec.yaml").write_text("model: another\ntask: score\ndata: {train: trec.csv}\n")
    (own,) = recipes(encoder, ["opinion"]).values()
    found = task_recipes(own, options(**{"with": ["trec.yaml"]}), tmp_path)
    assert list(found) == ["own", "trec"]
    assert found["trec"].model == encoder
    assert found["trec"].task.name == "score"
    assert found["trec"].data.train == str(tmp_path / "trec.csv")
    assert list(task_recipes(own, options(include_own=False, **{"with": ["trec.yaml"]}), tmp_path)) == ["trec"]
    with pytest.raises(RecipeError, match="two tasks would have the name trec"):
        task_recipes(own, options(**{"with": ["trec.yaml", "trec.yaml"]}), tmp_path)


def test_unlike_models_and_unknown_weights_are_refused(encoder, tmp_path):
    unlike = recipes(encoder) | recipes(str(save_tiny(tmp_path / "other")), ["stars"])
    with pytest.raises(RecipeError, match="found several models"):
        together(tmp_path / "stage", encoder, options(), recipes=unlike)
    with pytest.raises(RecipeError, match="'star' is not a task here; did you mean 'stars'"):
        together(tmp_path / "stage", encoder, options(loss_weights={"star": 2}))
    assert not (tmp_path / "stage" / "recipes").exists()
