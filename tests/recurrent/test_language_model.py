"""A language model over streams: it learns, resumes to the bit with its carried state, and is measured by document."""

import math

import pytest
import torch
import transformers

import warmstart
from small import weight_bytes
from test_resume import Crash, Trouble, crash
from warmstart.errors import RecipeError
from warmstart.models.from_scratch import EncoderShape, make_encoder
from warmstart.training.callbacks import NonMonotonicAveraging
from warmstart.training.carried_state import CarriedState

STREAM = {"name": "masked", "objective": "clm", "bptt": 8}
QUICK = {"training": {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2}, "data.split.test": 0.2}
SAVES = {"checkpoints": {"every_steps": 3, "when_finished": "keep"}, "reuse_stages": False}


def fit(corpus, out, scratch, **more):
    return warmstart.fit(train=corpus, task=STREAM, from_scratch=scratch, out=out, **{**QUICK, **more})


@pytest.fixture(scope="module")
def run(corpus, scratch, tmp_path_factory):
    return fit(corpus, tmp_path_factory.mktemp("lm") / "run", scratch)


def test_it_learns_and_is_measured_by_token_and_by_word(run):
    test = run.metrics["test"]
    assert 1 < test["perplexity"] < 40  # a guess among all words would have 40
    assert test["word_perplexity"] > test["perplexity"]  # a full stop is a token, and no word
    assert test["perplexity"] == pytest.approx(math.exp(test["loss"]))
    assert {"loss_clm", "loss_regularization"} <= set(run.training.history[0])


def test_it_opens_in_transformers_and_scores_a_text_as_its_logits_do(run):
    text = "a wonderful film."
    answer = run.predict([text])[0]
    model = transformers.AutoModelForCausalLM.from_pretrained(run.model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    assert ids[0, 0] == tokenizer.bos_token_id
    with torch.no_grad():
        loss = model(ids, labels=ids).loss.item()
    assert answer["log_probability"] == pytest.approx(-loss, abs=1e-5)
    assert answer["tokens"] == ids.shape[1] - 1


def test_a_long_document_is_read_whole_with_its_state(run):
    text = "a wonderful film and a great story. " * 100
    answer = run.predict([text])[0]
    assert answer["tokens"] == 800
    first = run.predict(["a wonderful film and a great story."])[0]
    assert answer["log_probability"] != pytest.approx(first["log_probability"], abs=1e-4)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_crash_at_any_step_changes_nothing(corpus, scratch, tmp_path, direction):
    assert_bit_equal(corpus, {**scratch, "direction": direction}, tmp_path, step=20)


def test_a_crash_while_weights_are_averaged_changes_nothing(corpus, scratch, tmp_path, monkeypatch):
    made = []

    def eager(evaluate):
        """Begins to average after the first epoch."""
        made.append(NonMonotonicAveraging(evaluate, interval=1))
        made[-1].scores = [math.inf, math.inf]
        return made[-1]

    monkeypatch.setattr("warmstart.training.job.NonMonotonicAveraging", eager)
    given = {"training.optimizer": "nt-asgd", "training.learning_rate": 1.0, "data.split.dev": 0.2}
    assert_bit_equal(corpus, scratch, tmp_path, step=40, **given)
    assert made[-1].count > 20


def assert_bit_equal(corpus, scratch, folder, step, **given):
    """A run that crashes at a step ends as one that does not."""
    given |= {"training.epochs": 3, **SAVES}
    whole = fit(corpus, folder / "whole", scratch, **given)
    with pytest.raises(Crash):
        fit(corpus, folder / "killed", scratch, progress=Trouble(step, crash), **given)
    resumed = fit(corpus, folder / "killed", scratch, progress=(progress := Trouble()), **given)
    assert any("resuming from step" in line for line in progress.said)
    assert weight_bytes(resumed.model) == weight_bytes(whole.model)
    assert resumed.metrics == whole.metrics


def test_the_state_is_carried_within_an_epoch_and_kept_in_checkpoints(corpus, scratch, tmp_path, monkeypatch):
    events = []
    keep, reset = CarriedState.keep, CarriedState.reset
    monkeypatch.setattr(CarriedState, "keep", lambda self, layers: (events.append("keep"), keep(self, layers))[1])
    monkeypatch.setattr(CarriedState, "reset", lambda self: (events.append("reset"), reset(self))[1])
    run = fit(corpus, tmp_path / "run", scratch, **SAVES)
    steps = run.training.steps // 2
    assert events == ["reset", *["keep"] * steps] * 2
    assert list((tmp_path / "run" / "checkpoints").glob("step-*/tensors.safetensors"))


def test_averaging_starts_where_the_score_stops_improving():
    weights = torch.nn.Linear(1, 1)
    scores = iter([1.0, 2.0, 3.0, 2.5, 1.5, 1.4, 1.4])
    callback = NonMonotonicAveraging(lambda: next(scores), interval=2)
    state = transformers.TrainerState(max_steps=100)
    values = []
    for step in range(1, 7):
        state.global_step, state.epoch = step, float(step)
        with torch.no_grad():
            weights.weight.fill_(step)
        callback.on_step_end(None, state, None, model=weights)
        if callback.count:
            values.append(float(callback.means["weight"]))
        assert weights.weight.item() == step
    # After five epochs the score is below the third from the end for the first time: the mean is of those after.
    assert (callback.count, values) == (1, [6.0])
    callback.on_train_end(None, state, None, model=weights)
    assert weights.weight.item() == 6.0


def test_what_does_not_go_together_is_refused(corpus, encoder, scratch, tmp_path):
    given = {"train": corpus, "out": tmp_path / "run"}
    with pytest.raises(RecipeError, match="attends to the tokens that it is to predict"):
        warmstart.fit(model=encoder, task=STREAM, **given)
    with pytest.raises(RecipeError, match="bptt: found 8, but objective is mlm; set objective: clm"):
        warmstart.fit(model=encoder, task={"name": "masked", "bptt": 8}, **given)
    with pytest.raises(RecipeError, match="nt-asgd watches the score on dev rows, and there are none"):
        fit(corpus, tmp_path / "run", scratch, **{"training.optimizer": "nt-asgd"})
    with pytest.raises(RecipeError, match="direction: found backward, but architecture is bert"):
        fit(corpus, tmp_path / "run", {"direction": "backward"})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["words", "unigram"])
def test_the_same_texts_give_the_same_tokenizer_and_weights(kind, tmp_path):
    texts = [f"Alice met BOB in Paris, the {word} city." for word in ("old", "new", "big", "cold")] * 6
    shape = EncoderShape("awd-lstm", 2, 16, vocab_size=300, tokenizer=kind, case_marks=kind == "words")
    first, second = (make_encoder(texts, tmp_path / name, shape) for name in "ab")
    for file in ("tokenizer.json", "model.safetensors", "config.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes()
    tokenizer = transformers.AutoTokenizer.from_pretrained(first)
    tokens = tokenizer.tokenize("Alice met BOB")
    assert tokens == ["xxmaj", "alice", "met", "xxup", "bob"] if kind == "words" else tokens[0].startswith("▁")
    pair = tokenizer("Alice", "Paris")["input_ids"]
    assert [token for token in tokenizer.convert_ids_to_tokens(pair) if token.startswith("<")] == ["<bos>", "<sep>"]


def test_the_cost_of_a_stream_is_planned(corpus, scratch, tmp_path):
    from warmstart.plan.plan import plan
    from warmstart.recipe import make_recipe

    given = {"data.train": corpus, "task": STREAM, "from_scratch": scratch, **QUICK}
    estimate = plan(make_recipe(given))[-1]
    measured = plan(make_recipe(given), measure=True)[-1]
    run = fit(corpus, tmp_path / "run", scratch)
    assert estimate.steps == measured.steps == run.training.steps
    # Each token passes two matrices a layer and the decoder, three times in training.
    weights = 4 * (8 * 16 + 16 * 16 + 16 * 8 + 8 * 8) + 8 * run_vocabulary(run)
    assert estimate.flops == pytest.approx(6 * weights * estimate.tokens, rel=0.5)


def run_vocabulary(run):
    return len(transformers.AutoTokenizer.from_pretrained(run.model))
