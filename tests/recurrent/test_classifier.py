"""The classifier of ULMFiT: three stages by one command, two directions as one model, documents of any length."""

import json

import pytest
import torch
import transformers

import warmstart
from small import weight_bytes
from test_resume import Crash, Trouble, crash
from warmstart.errors import ModelError, RecipeError
from warmstart.inference.ensembles import Ensemble
from warmstart.models.layer_map import LayerMap

LM = {"learning_rate": 1e-2, "epochs": 2, "batch_size": 4}
LAST = {"learning_rate": 2e-2, "epochs": 6, "batch_size": 8}


def stages(corpus):
    """Those of the shipped recipe, shorter."""
    common = {"objective": "clm", "task": {"bptt": 8}, "training": LM}
    return [
        {"pretrain": {"corpus": {"in-domain": [corpus]}, **common}},
        {"pretrain": {"corpus": "within-task", "layers": {"lr_decay": 0.385}, **common}},
    ]


def fit(labelled, out, **given):
    return warmstart.fit(train=labelled["train"], test=labelled["test"], out=out, **given)


@pytest.fixture(scope="module")
def both(corpus, labelled, scratch, tmp_path_factory):
    """The recipe `ulmfit` with a tiny model."""
    given = {"stages": stages(corpus), "training": LAST, "from_scratch": {**scratch, "direction": "both"}}
    return warmstart.fit(
        "recipes:ulmfit",
        train=labelled["train"],
        test=labelled["test"],
        out=tmp_path_factory.mktemp("ulmfit") / "run",
        **given,
    )


def test_one_command_trains_three_stages_in_both_directions(both):
    assert both.metrics["test"]["accuracy"] >= 0.8
    evidence = json.loads((both.folder / "evidence.json").read_text())
    assert evidence["selected"]["how"] == "ensemble"
    assert "2 models, forward and backward" in evidence["selected"]["why"]
    assert {"recipe", "backward"} <= {variant["variant"] for variant in evidence["variants"]}
    assert sorted(path.name for path in (both.folder / "stages").iterdir()) == [
        "01-scratch",
        "02-pretrain",
        "03-pretrain",
        "04-finetune",
    ]


def test_the_ensemble_averages_a_forward_and_a_backward_model(both):
    predictor = warmstart.load(both.folder)
    model = predictor.engine.model
    assert isinstance(model, Ensemble)
    assert [member.config.direction for member in model.members] == ["forward", "backward"]
    text = "a wonderful story that alice loved."
    answer = predictor.predict([text])[0]
    ids = predictor.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        chances = [member(**ids).logits[0].softmax(-1) for member in model.members]
    expected = torch.stack(chances).mean(0)[model.config.label2id["pos"]].item()
    assert answer["probabilities"]["pos"] == pytest.approx(expected, abs=1e-6)


def test_the_ensemble_is_exported_with_the_same_answers(both, tmp_path):
    pytest.importorskip("onnxruntime")
    about = warmstart.export(both.folder, tmp_path / "onnx")
    assert about["engines"]["onnx"]["differ"] == 0
    texts = ["a great film", "this book was terrible and every page was boring. " * 20]
    there = warmstart.load(tmp_path / "onnx", engine="onnx").predict(texts)
    for one, other in zip(both.predict(texts), there, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)


def test_a_long_document_is_not_cut(both):
    text = "a wonderful film with a great story. " * 300
    predictor = warmstart.load(both.folder)
    predictor.predict([text])
    assert predictor.cut.tokens_cut == 0
    assert predictor.cut.tokens == 2400


def test_layers_have_discriminative_rates_and_are_unfrozen_from_the_top(both):
    recipe = both.recipe
    assert (recipe.layers.lr_decay, recipe.layers.unfreeze) == (0.385, "gradual")
    assert recipe.layers.schedules_phases
    member = both.model / "members" / "0"
    layers = LayerMap.of(transformers.AutoModelForSequenceClassification.from_pretrained(member))
    assert [group.name for group in layers.groups] == ["embeddings", "block 0", "block 1", "head"]
    rates = layers.learning_rates(0.01, 0.385)
    assert rates["block 1"] == pytest.approx(0.01 / 2.6, rel=0.01)


def test_a_crash_changes_nothing(corpus, labelled, scratch, tmp_path):
    given = {"from_scratch": scratch, "training": LAST, "layers": {"unfreeze": "gradual"}, "reuse_stages": False}
    given["checkpoints"] = {"every_steps": 4, "when_finished": "keep"}
    whole = fit(labelled, tmp_path / "whole", **given)
    with pytest.raises(Crash):
        fit(labelled, tmp_path / "killed", progress=Trouble(30, crash), **given)
    resumed = fit(labelled, tmp_path / "killed", **given)
    assert weight_bytes(resumed.model) == weight_bytes(whole.model)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_scores_and_tags_can_be_learned_too(files, scratch, tmp_path, direction):
    given = {"from_scratch": {**scratch, "direction": direction}, "training": {"max_steps": 2}}
    run = warmstart.fit(task="score", train=files["scores"], out=tmp_path / "score", **given)
    assert isinstance(run.predict(["a good film"])[0]["score"], float)
    person = {"start": 0, "end": 5, "label": "PER"}
    rows = [{"text": f"alice lives in paris {number}", "entities": [person]} for number in range(10)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = warmstart.fit(task="tag", train=str(path), out=tmp_path / "tag", **given)
    assert "entities" in run.predict(["alice lives in paris"])[0]


def test_a_pair_is_one_sequence_with_a_separator(files, scratch, tmp_path):
    run = warmstart.fit(
        train=files["pairs"], pair="other", from_scratch=scratch, training={"max_steps": 2}, out=tmp_path / "run"
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    first, second = ("the film was good", "it was pos")
    encoded = tokenizer.convert_ids_to_tokens(tokenizer(first, second)["input_ids"])
    assert encoded.index("<sep>") == 1 + len(tokenizer.tokenize(first))
    assert run.predict([(first, second)])[0]["label"] in {"pos", "neg"}


def test_what_it_cannot_do_is_refused_in_words(labelled, corpus, scratch, tmp_path):
    out, both_ways = tmp_path / "run", {**scratch, "direction": "both"}
    with pytest.raises(RecipeError, match="models that read in different directions, whose weights have no mean"):
        fit(labelled, out, from_scratch=both_ways, seeds=2, select="average")
    with pytest.raises(RecipeError, match="direction: answers of masked with these options cannot be averaged"):
        warmstart.fit(train=corpus, task={"name": "masked", "objective": "clm"}, from_scratch=both_ways, out=out)
    answers = [{"text": "alice", "start": 0}]
    rows = [{"context": f"alice lives in paris {n}", "question": "who", "answers": answers} for n in range(20)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ModelError, match="no QuestionAnswering head for the architecture awd-lstm"):
        warmstart.fit(task="span", train=str(path), from_scratch=scratch, out=out)
