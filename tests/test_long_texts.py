"""Texts longer than the window, from fit to predict: the same tokens are seen everywhere, and the rest is counted."""

import json
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

import warmstart
from hostile import change, sign
from small import BAD, FAST, GOOD
from test_resume import SAVES, Crash, Trouble, crash, same
from tiny import tiny_config, tiny_model, tiny_tokenizer
from warmstart.cli.main import app
from warmstart.errors import ModelError, RecipeError
from warmstart.evaluation.start_vectors import start_vectors
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification
from warmstart.recipe.fields import WindowOptions
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.text.windows import Frame, Window, views
from warmstart.training.drawn_slices import draw_slices

WORDS = ["the", "film", "book", "food", "movie", "story", "actor", "plot"]
KINDS = [
    Window(14),
    Window(14, "tail"),
    Window(14, "head+tail"),
    Window(14, "head+tail", head_tokens=8),
    Window(14, "slices", overlap=2, max_slices=3),
]


def text(number, length):
    """A text of one token a word whose telling word is anywhere in it."""
    words = [WORDS[(number + at) % 8] for at in range(length)]
    words[number * 7 % length] = ((GOOD, BAD)[number % 2])[number % 3]
    return " ".join([*words, *str(number)])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "long.csv"
    rows = [f"{text(number, 8 + number * 5 % 40)},{('pos', 'neg')[number % 2]}\n" for number in range(40)]
    path.write_text("text,label\n" + "".join(rows))
    return str(path)


def predictor(window, pair=False):
    """A predictor that has learned nothing."""
    task = Classify.from_answers(ClassifyOptions(), ["a", "b", "c"], pair)
    torch.manual_seed(0)
    model = tiny_model("bert")
    if window.method == "slices":
        model = PooledForSequenceClassification(PooledConfig(encoder=tiny_config("bert"), num_labels=3))
    model.config.id2label = dict(enumerate("abc"))
    return Predictor(TorchEngine(model), tiny_tokenizer(), task, window)


@pytest.mark.parametrize("pair", [False, True], ids=["text", "pair"])
@pytest.mark.parametrize("window", KINDS, ids=lambda window: window.summary())
def test_a_token_counts_in_an_answer_if_and_only_if_the_window_shows_it(window, pair):
    ready = predictor(window, pair)
    lengths = (20, 45) if pair else (45,)
    both = [[WORDS[at % 8] for at in range(length)] for length in lengths]
    shown = views(window, Frame.of(ready.tokenizer, pair), *lengths)
    seen = [{at for view in shown for start, stop in view[which] for at in range(start, stop)} for which in (0, 1)]

    def answer(words):
        texts = [" ".join(one) for one in words]
        return ready.predict([tuple(texts) if pair else texts[0]])[0]["probabilities"]

    plain = answer(both)
    for which, length in enumerate(lengths):
        for at in range(0, length, 3):
            changed = [list(words) for words in both]
            changed[which][at] = "terrible"
            assert (answer(changed) != plain) == (at in seen[which]), (which, at)
    assert ready.cut.tokens_cut == ready.cut.rows * (sum(lengths) - sum(map(len, seen)))


def test_a_batch_counts_slices_and_answers_do_not_depend_on_it(monkeypatch):
    ready = predictor(Window(10, "slices", overlap=2))
    texts = [text(number, 3 + number * 11 % 60) for number in range(20)]
    sizes = []
    inner = ready._outputs
    monkeypatch.setattr(ready, "_outputs", lambda features: sizes.append(features) or inner(features))
    together = ready.predict(texts, batch_size=32)
    for features in sizes:
        assert len(features) == 1 or sum(len(one["input_ids"]) for one in features) <= 32
    alone = ready.predict(texts, batch_size=1)
    assert all(len(features) == 1 for features in sizes[-len(texts) :])
    for one, two in zip(together, alone, strict=True):
        assert one["probabilities"] == pytest.approx(two["probabilities"], abs=1e-5)


@pytest.mark.parametrize("pool", ["mean", "max", "attention"])
def test_slices_are_learned_measured_and_opened_again(encoder, file, tmp_path, pool):
    window = {"method": "slices", "max_tokens": 12, "overlap": 2, "slice_pooling": pool}
    training = {**FAST["training"], "max_steps": 6}
    run = warmstart.fit(model=encoder, train=file, out=tmp_path / "run", window=window, training=training)
    assert run.training.window.method == "slices"
    assert run.training.window.train.rows_cut == 0
    assert json.loads((run.model / "config.json").read_text())["slice_pooling"] == pool
    told = json.loads(call("evaluate", run.folder, "--json").stdout)
    assert told["metrics"] == run.metrics["test"]
    texts = [text(number, 9 + number) for number in range(12)]
    ready = warmstart.load(run.folder)
    for one, two in zip(ready.predict(texts, batch_size=1), ready.predict(texts, batch_size=32), strict=True):
        assert one["probabilities"] == pytest.approx(two["probabilities"], abs=1e-5)
    again = warmstart.fit(model=str(run.model), train=file, out=tmp_path / "again", window=window, training=training)
    assert again.training.new_parameters == []


def test_vectors_by_the_encoder_of_the_start_show_what_the_run_reads(encoder):
    def vectors(**window):
        completed = SimpleNamespace(window=WindowOptions(**window))
        run = SimpleNamespace(recipe=SimpleNamespace(model=encoder), completed_recipe=completed)
        return start_vectors(run, [{"text": text(0, 40), "label": "pos"}, {"text": text(0, 40) + " terrible"}], 2)

    head, slices = vectors(max_tokens=12), vectors(max_tokens=40, method="slices", slice_tokens=12)
    assert (head[0] == head[1]).all()
    assert not (slices[0] == slices[1]).all()
    longer = vectors(max_tokens=40, method="slices")
    assert abs(longer - slices).max() > 1e-4  # slices of 12 tokens, not of 40
    assert (slices**2).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    "more",
    [{}, {"batching": "by-length", "r_drop": 1.0}, {"dropout_kernel": "fast"}, {"slices_per_text": 1}],
    ids=["plain", "grouped, R-Drop", "fast dropout", "drawn slices"],
)
def test_a_run_on_slices_goes_on_to_the_bit(encoder, file, tmp_path, more):
    def fit(out, **rest):
        window = {"method": "slices", "max_tokens": 12, "overlap": 2, "slice_pooling": "attention"}
        training = {**FAST["training"], **more, "max_steps": 8}
        return warmstart.fit(model=encoder, train=file, out=out, window=window, training=training, **SAVES, **rest)

    undisturbed = fit(tmp_path / "one")
    with pytest.raises(Crash):
        fit(tmp_path / "two", progress=Trouble(5, crash))
    same(fit(tmp_path / "two"), undisturbed)


def test_an_epoch_trains_on_some_slices_of_each_text():
    long = {"input_ids": [[n] for n in range(30)], "token_type_ids": [[0]] * 30, "row": 7, "labels": 1}
    short = {"input_ids": [[1], [2]], "row": 8, "labels": 0}

    def drawn(epoch, seed=0):
        features = draw_slices([{**long, "epoch": epoch}, {**short, "epoch": epoch}], 3, seed)
        return [[ids for (ids,) in feature["input_ids"]] for feature in features]

    assert drawn(0) == drawn(0)
    first, other = drawn(0)
    assert other == [1, 2]
    assert len(first) == 3
    assert first == sorted(first)
    assert drawn(0, seed=1)[0] != first
    assert len({one for epoch in range(100) for one in drawn(epoch)[0]}) == 30
    [feature] = draw_slices([{**long, "epoch": 0}], 1, 0)
    assert [len(feature[name]) for name in ("input_ids", "token_type_ids")] == [1, 1]
    assert feature["labels"] == 1


def test_slices_of_texts_that_have_none_are_refused(encoder, file, tmp_path):
    with pytest.raises(RecipeError, match=r"training.slices_per_text: found 1, but classify with window.method: head"):
        warmstart.fit(model=encoder, train=file, out=tmp_path / "run", training={"slices_per_text": 1})
    assert not (tmp_path / "run").exists()


def test_pairs_are_scored_in_slices_within_a_budget_of_tokens(encoder, tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [f"the film {number},{text(number, 8 + number)},{number % 2}.5\n" for number in range(20)]
    path.write_text("text,other,label\n" + "".join(rows))
    window = {"method": "slices", "max_tokens": 16, "overlap": 3, "max_slices": 2}
    training = {"epochs": 1, "batch_tokens": 200, "batching": "by-length"}
    run = warmstart.fit(
        model=encoder,
        task="score",
        train=str(path),
        pair="other",
        out=tmp_path / "run",
        window=window,
        training=training,
    )
    assert run.training.window.train.rows_cut > 0
    [one] = run.predict([("the film", text(3, 40))])
    assert isinstance(one["score"], float)
    # Two slices of 10 and 7 new tokens: 16 less 4 special ones and the first text.
    assert (run.predictor.cut.tokens, run.predictor.cut.tokens_cut) == (43, 43 - 2 - (11 + 8))


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception:
        raise result.exception
    return result


def test_what_is_cut_is_told_by_every_verb(encoder, file, tmp_path):
    out = tmp_path / "run"
    words = ["--set", "window.method=head+tail", "--max-tokens", "12", "--max-steps", "1", "--batch-size", "8"]
    fitted = call("fit", file, "--model", encoder, "--out", out, *words)
    run = warmstart.Run(out)
    cut = run.training.window.train
    lengths = [8 + number * 5 % 40 + len(str(number)) for number in range(40)]
    assert cut.rows_cut + run.metrics["test"]["rows_cut"] == sum(length > 10 for length in lengths)
    shown = f"head+tail of 12 tokens: {cut.rows_cut} of 36 rows truncated"
    assert shown in fitted.stdout
    assert "rows are longer than the window (head+tail of 12 tokens), this one first" in fitted.stderr
    assert shown in call("show", out).stdout
    assert "share_cut" in call("evaluate", out).stdout
    assert json.loads(call("evaluate", out, "--json").stdout)["metrics"] == run.metrics["test"]
    texts = ["the film", " ".join(["the"] * 15)]
    told = "1 of 2 rows are longer than the window (head+tail of 12 tokens); 29.4% of all tokens are not seen\n"
    assert call("predict", out, *texts).stderr == told
    predicted = call("predict", out, *texts, "--json")
    assert len(predicted.stdout.splitlines()) == 2
    assert json.loads(predicted.stderr) == {"cut": {"rows": 2, "rows_cut": 1, "tokens": 17, "tokens_cut": 5}}
    assert call("predict", out, "the film").stderr == ""


def test_slices_that_stand_still_in_a_saved_model_are_refused(encoder, file, tmp_path):
    window = {"method": "slices", "max_tokens": 12}
    run = warmstart.fit(model=encoder, train=file, out=tmp_path / "run", window=window, training={"max_steps": 1})
    change(run.model, "warmstart.json", lambda about: about["window"].update(overlap=10))
    sign(run.model)
    with pytest.raises(ModelError, match=r"warmstart.json: window\.overlap: found 10"):
        warmstart.load(run.folder)
