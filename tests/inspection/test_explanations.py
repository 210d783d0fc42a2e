"""Explanations by word: right where the cause is known, and marked where they are no better than chance."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import warmstart
from small import FAST
from tiny import ARCHITECTURES, NoStockHead, tiny_japanese, tiny_model, tiny_tokenizer
from warmstart.errors import DataError, ModelError, RecipeError
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.inspection.attributions import METHODS, attribute
from warmstart.inspection.explained_text import ExplainedText
from warmstart.inspection.explanations import RANDOM, explain
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.tasks.score import Score, ScoreOptions
from warmstart.tasks.shared.labels import LabelMap
from warmstart.tasks.span import Span, SpanOptions
from warmstart.tasks.tag import Tag, TagOptions
from warmstart.text.windows import Window

TAGS = ("O", "B-city", "I-city", "B-person", "I-person")
TEXT = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
OTHER_ORDER = {"xlnet": "it puts the tokens before the rows"}
LONG = "the film was good and the story was very bad " * 4
TASKS = {
    "classify": (Classify(ClassifyOptions(), False, LabelMap(("a", "b", "c")), None), "sequence", "alice loved it"),
    "pair": (Classify(ClassifyOptions(), True, LabelMap(("a", "b", "c")), None), "sequence", ("who is it", "alice!")),
    "many": (Classify(ClassifyOptions(multi_label=True), False, LabelMap(("a", "b", "c")), None), "sequence", LONG),
    "score": (Score(ScoreOptions(), False), "score", "alice loved it"),
    "tag": (Tag(TagOptions(), False, LabelMap(TAGS)), "token", "Alice lives in Paris. " + LONG),
    "span": (Span(SpanOptions(no_answer="never")), "span", ("who is it", "Alice lives in Paris. " + LONG)),
}


def predictor(name, architecture="bert", tokens=40, tokenizer=None, **changes):
    task, head, text = TASKS[name]
    labels = {"sequence": 3, "score": 1, "token": len(TAGS), "span": 2}[head]
    model = tiny_model(architecture, "sequence" if head == "score" else head, num_labels=labels, **changes)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    window = Window(tokens, "slices" if name in ("tag", "span") else "head", overlap=8 if name == "tag" else 0)
    opened = Predictor(TorchEngine(model.eval()), tokenizer or tiny_tokenizer(architecture), task, window)
    return opened, task.parse_input(text, 1)


@pytest.mark.parametrize("name", TASKS)
def test_words_are_those_of_the_text_and_methods_agree_with_their_definitions(name):
    opened, row = predictor(name)
    text = ExplainedText(opened, row)
    for word in text.words:
        assert row[word.column][word.start : word.end] == word.text
        assert word.text.strip() == word.text
    count = len(text.words)
    everything, nothing = text.scores([np.ones(count, bool), np.zeros(count, bool)])
    integrated = attribute(text, "integrated-gradients")
    assert integrated.sum() == pytest.approx(everything - nothing, abs=0.02 * max(1, abs(everything - nothing)))
    occlusion = attribute(text, "occlusion")
    alone = np.ones(count, bool)
    alone[1] = False
    assert occlusion[1] == pytest.approx(everything - text.scores([alone])[0], abs=1e-4)
    for method in METHODS:
        explanation = explain(opened, row, method)
        assert len(explanation.words) == count
        assert all(np.isfinite(word.weight) for word in explanation.words)
        assert 1 / (RANDOM + 1) <= explanation.faithfulness.p <= 1


def test_taking_no_word_out_is_the_models_own_answer():
    opened, row = predictor("classify")
    text = ExplainedText(opened, row)
    logits = opened.engine.model(**tiny_tokenizer()(row["text"], return_tensors="pt")).logits[0].double().detach()
    own = int(logits.argmax())
    others = torch.cat([logits[:own], logits[own + 1 :]]).logsumexp(0)
    assert text.scores([np.ones(3, bool)])[0] == pytest.approx(float(logits[own] - others), abs=1e-5)


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name not in OTHER_ORDER])
def test_every_architecture_is_explained(architecture):
    try:
        opened, row = predictor("classify", architecture)
    except NoStockHead as reason:
        pytest.skip(str(reason))
    text = ExplainedText(opened, row)
    assert [word.text for word in text.words] == ["alice", "loved", "it"]
    assert len(set(attribute(text, "integrated-gradients"))) == 3
    hooks = sum(len(module._forward_hooks) for module in opened.engine.model.modules())
    attribute(text, "gradient-input")
    assert sum(len(module._forward_hooks) for module in opened.engine.model.modules()) == hooks


@settings(max_examples=12)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=80), st.integers(6, 40)
)
def test_any_text_is_explained_by_its_own_characters(text, tokens):
    opened, _ = predictor("classify", tokens=tokens)
    row = {"text": text}
    try:
        explained = ExplainedText(opened, row)
    except DataError:  # nothing but white space and what the tokenizer drops
        return
    spans = [(word.start, word.end) for word in explained.words]
    assert spans == sorted(spans)
    places = [place for word in explained.words for place in word.places]
    ids = explained.features[0]["input_ids"]
    assert len(places) == len(set(places)) <= len(ids) - 2
    assert all(0 < position < len(ids) - 1 for _, _, position in places)
    explained.scores([np.zeros(len(spans), bool)])


def test_japanese_is_explained_by_its_own_characters(tmp_path):
    tokenizer = tiny_japanese(tmp_path)
    opened, _ = predictor("classify", tokenizer=tokenizer, vocab_size=len(tokenizer))
    words = [word.text for word in explain(opened, {"text": "東京大学へ行く"}, "occlusion").words]
    assert "".join(words) == "東京大学へ行く"


@pytest.fixture(scope="module")
def learned(run):
    return warmstart.load(run.folder)


def test_random_rankings_are_seldom_called_faithful(learned):
    claims = [
        explain(
            learned,
            {"text": f"the film {number} was good and the story was very bad"},
            lambda text, number=number: np.random.default_rng(number).normal(size=len(text.words)),
            seed=1000 + number,
        ).faithfulness.faithful
        for number in range(60)
    ]
    assert np.mean(claims) <= 0.12  # 5% is the rate; of 60, more than 7 would be a chance of 1 in 100


def test_what_cannot_be_explained_is_refused(learned, run):
    with pytest.raises(RecipeError, match="method: found 'gradient'; did you mean"):
        explain(learned, {"text": "the film"}, "gradient")
    opened, row = predictor("tag")
    with pytest.raises(DataError, match="no entity was predicted"):
        explain(opened, row, answer={"entities": []})
    other = SimpleNamespace(task=SimpleNamespace(name="masked"))
    with pytest.raises(ModelError, match="masked: its answers are not explained"):
        ExplainedText(other, {"text": "the film"})
    opened, row = predictor("classify", "xlnet")
    with pytest.raises(ModelError, match="xlnet: reads its embeddings in an order of its own"):
        explain(opened, row)


def test_a_text_in_slices_is_explained_whole(encoder, files, tmp_path):
    window = {"method": "slices", "max_tokens": 8}
    training = {"training": {**FAST["training"], "max_steps": 2}}
    run = warmstart.fit(
        model=encoder, train=files["train"], test=files["test"], out=tmp_path / "run", window=window, **training
    )
    text = ExplainedText(run.predictor, {"text": "the film 7 was good and very great"})
    assert [word.text for word in text.words] == ["the", "film", "7", "was", "good", "and", "very", "great"]
    assert {sequence for word in text.words for _, sequence, _ in word.places} == {0, 1}
    everything, nothing = text.scores([np.ones(8, bool), np.zeros(8, bool)])
    assert attribute(text, "integrated-gradients").sum() == pytest.approx(everything - nothing, abs=0.02)
