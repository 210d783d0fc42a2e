"""The task `span`: windows over a context, answers read from scores, and what happens where there is none."""

import itertools
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import warmstart
from tiny import (
    ARCHITECTURES,
    NoStockHead,
    save_tiny,
    tiny_byte_tokenizer,
    tiny_japanese,
    tiny_model,
    tiny_tokenizer,
    tiny_unigram_tokenizer,
)
from warmstart.errors import DataError, ModelError
from warmstart.evaluation.run_result import read_result
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.models.loading import load_model, load_tokenizer
from warmstart.tasks.shared import spans
from warmstart.tasks.span import Span, SpanOptions
from warmstart.text.windows import Window

TOKENIZERS = {name: tiny_tokenizer(name) for name in ("bert", "roberta", "xlnet")}
OTHERS = {"bytes": tiny_byte_tokenizer(), "unigram": tiny_unigram_tokenizer()}
WINDOW = Window(24, "slices", overlap=6)
TEXT = st.text(st.sampled_from("ab é ﬁ①\n漢字。'\u0301\u200b😀\x07 "), min_size=1, max_size=200).filter(str.strip)


def task(**options):
    return Span(SpanOptions(**{"no_answer": "allowed", **options}))


def ask(span, tokenizer, question, context, window=WINDOW):
    return span.encode({"question": [question], "context": [context]}, tokenizer, window)


def outputs(span, features, tokenizer, seed=0, hot=()):
    """Scores as a model gives them for a batch: random ones, or high at the places said for each feature."""
    shape = span.collate(features, tokenizer)["input_ids"].shape
    found = torch.rand((2, *shape), generator=torch.Generator().manual_seed(seed))
    for row, feature in enumerate(hot):
        shift = shape[1] - len(feature["input_ids"]) if tokenizer.padding_side == "left" else 0
        for side, name in enumerate(("start_positions", "end_positions")):
            found[side, row, feature[name] + shift] += 10
    return {"start_logits": found[0], "end_logits": found[1]}


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, st.sampled_from([*TOKENIZERS, *OTHERS]), st.integers(0, 99), st.sampled_from(["word", "character"]))
def test_the_answer_is_always_the_characters_it_says(question, context, name, seed, units):
    span, tokenizer = task(n_best=20, tokenize_by=units), {**TOKENIZERS, **OTHERS}[name]
    features = ask(span, tokenizer, question, context)
    found = span.merge({"context": context}, features, span.decode(outputs(span, features, tokenizer, seed), features))
    for one in (found, *found["best"]):
        if one["answer"]:
            assert context[one["start"] : one["end"]] == one["answer"]
        else:
            assert one["start"] is None
            assert one["end"] is None
    scores = [one["score"] for one in found["best"]]
    assert scores == sorted(scores, reverse=True)
    assert len({(one["start"], one["end"]) for one in found["best"]}) == len(scores)


WORDS = st.lists(
    st.sampled_from(["the", "film", "was", "good", "alice", "lives", "in", "paris", "x7"]), min_size=1, max_size=60
)


@settings(max_examples=60, deadline=None)
@given(WORDS, st.data(), st.sampled_from(sorted(TOKENIZERS)))
def test_what_is_learned_is_what_is_read(words, data, name):
    """Scores that are high exactly where training aims give the answer back, wherever it lies in a long context."""
    span, tokenizer = task(), TOKENIZERS[name]
    context = " ".join(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(first + 2, len(words) - 1)))
    start = len(" ".join(words[:first])) + (first > 0)
    text = " ".join(words[first : last + 1])
    row = {"question": ["who was it"], "context": [context], "answers": [[{"text": text, "start": start}]]}
    aimed = span.encode(row, tokenizer, WINDOW)
    features = ask(span, tokenizer, "who was it", context)
    assert [one["input_ids"] for one in aimed] == [one["input_ids"] for one in features]
    assert {one["sample"] for one in aimed} == {0}
    scores = outputs(span, features, tokenizer, hot=aimed)
    found = span.merge({"context": context}, features, span.decode(scores, features))
    assert (found["answer"], found["start"]) == (text, start)
    row["answers"] = [[]]
    scores = outputs(span, features, tokenizer, hot=span.encode(row, tokenizer, WINDOW))
    found = span.merge({"context": context}, features, span.decode(scores, features))
    assert (found["answer"], found["start"], found["end"]) == ("", None, None)
    assert found["no_answer_score"] > 5


@pytest.mark.parametrize("words", ["mecab", "sudachi"])
@pytest.mark.parametrize(("units", "found"), [("word", "大学"), ("character", "学")])
def test_an_answer_inside_a_japanese_word(words, units, found, tmp_path):
    """By words the answer is the whole word it lies in; by characters it is itself."""
    pytest.importorskip("fugashi")
    pytest.importorskip("sudachipy")
    span, tokenizer = task(tokenize_by=units), tiny_japanese(tmp_path, words)
    context = "アリスは東京の大学へ行く"
    row = {"question": ["日本の人"], "context": [context], "answers": [[{"text": "学", "start": 8}]]}
    features = ask(span, tokenizer, row["question"][0], context)
    scores = outputs(span, features, tokenizer, hot=span.encode(row, tokenizer, WINDOW))
    answer = span.merge({"context": context}, features, span.decode(scores, features))
    assert answer["answer"] == found
    assert context[answer["start"] : answer["end"]] == found


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
def test_the_best_candidates_are_those_of_all_pairs(count, longest, seed):
    scores = torch.rand((2, count), generator=torch.Generator().manual_seed(seed))
    places = [(3 * n, 3 * n + 2) if n % 4 != 3 else (3 * n, 3 * n) for n in range(count)]
    wanted = sorted(
        (
            (float(scores[0, a] + scores[1, b]), (places[a][0], places[b][1]))
            for a in range(count)
            for b in range(a, min(a + longest, count))
            if a % 4 != 3 and b % 4 != 3
        ),
        reverse=True,
    )
    assert list(spans.best_spans(scores[0], scores[1], places, longest)) == wanted[: spans.MAX_CANDIDATES]


@pytest.mark.parametrize("size", [1, 5, 20, 100])
def test_windows_show_all_of_the_context_and_the_question_in_each(size):
    span, tokenizer = task(), TOKENIZERS["bert"]
    features = ask(span, tokenizer, "who was it", "film " * size)
    asked = tokenizer("who was it", add_special_tokens=False)["input_ids"]
    shown = [feature["context_range"] for feature in features]
    assert shown[0][0] == 0
    assert shown[-1][1] == size
    assert all(before[1] - after[0] == WINDOW.overlap for before, after in itertools.pairwise(shown))
    for feature in features:
        assert feature["input_ids"][1 : 1 + len(asked)] == asked
        assert len(feature["input_ids"]) <= WINDOW.max_tokens
    assert features[0]["tokens"] == size + 3
    assert sum(feature["cut"] for feature in features) == 0


def test_all_windows_of_a_context_are_batched_as_long_as_its_longest():
    rows = {
        "question": ["who", "who"],
        "context": ["a good film " * 11, "bob"],
        "answers": [[], [{"text": "bob", "start": 0}]],
    }
    features = task().encode(rows, TOKENIZERS["bert"], WINDOW)
    sizes = [[len(one["input_ids"]) for one in features if one["sample"] == number] for number in (0, 1)]
    assert min(sizes[0]) < max(sizes[0]) == 24 > sizes[1][0]
    assert [one["length"] for one in features] == [24] * len(sizes[0]) + sizes[1]


def test_a_question_longer_than_half_of_the_room_is_cut_and_counted():
    features = ask(task(), TOKENIZERS["bert"], "who " * 50, "film " * 50)
    assert features[0]["cut"] == 50 - (24 - 3) // 2
    assert features[0]["tokens"] == 100


def test_a_context_without_a_token_has_no_answer():
    span, tokenizer = task(no_answer="never"), TOKENIZERS["bert"]
    features = ask(span, tokenizer, "who", "\x07")
    found = span.merge({"context": "\x07"}, features, span.decode(outputs(span, features, tokenizer), features))
    expected = {"answer": "", "start": None, "end": None, "score": 0.0, "no_answer_score": None, "best": []}
    assert found == expected


def test_an_answer_that_is_not_where_it_says_is_refused_or_moved():
    row = {"question": "who", "context": "bob and bob and alice", "answers": [{"text": "bob", "start": 7}], "id": "q1"}
    kind, message = Span.schema(SpanOptions()).check(row)
    assert kind == "answer-place"
    assert message.startswith(
        "question 'q1': the answer 'bob' is not at 7, where ' bo' stands; it is found nearest at 8"
    )
    nearest = Span.schema(SpanOptions(misplaced_answers="nearest"))
    assert nearest.check(row) is None
    span = task(misplaced_answers="nearest")
    [feature] = span.encode({name: [value] for name, value in row.items()}, TOKENIZERS["bert"], WINDOW)
    assert feature["start_positions"] == feature["end_positions"] == 3 + 2  # [CLS] who [SEP] bob and bob
    row["answers"] = [{"text": "carol", "start": 0}]
    assert "nowhere in the context" in nearest.check(row)[1]
    row["answers"] = [{"text": " ", "start": 3}]
    assert nearest.check(row)[0] == "answer-blank"
    row["answers"] = [{"text": "alice", "start": -5}]
    assert Span.schema(SpanOptions()).check(row)[0] == "answer-place"


def test_whether_none_may_be_the_answer_is_learned_from_the_rows():
    some = [{"text": "a", "start": 0}]
    assert Span.from_answers(SpanOptions(), [some, []], False).options.no_answer == "allowed"
    assert Span.from_answers(SpanOptions(), [some], False).options.no_answer == "never"
    assert Span.from_answers(SpanOptions(no_answer="never"), [some, []], False).options.no_answer == "never"


def test_the_threshold_is_the_best_on_dev_rows():
    gold = [[{"text": "bob", "start": 0}], [{"text": "alice", "start": 0}], []]
    given = [
        {"answer": "", "no_answer_score": doubt, "best": [{"answer": text}]}
        for text, doubt in (("bob", 1.0), ("Alice", 2.5), ("paris", 3.0))
    ]
    assert task().tune({"answers": gold}, given).options.no_answer_threshold == 2.5
    assert task(no_answer_threshold=0.5).tune({"answers": gold}, given).options.no_answer_threshold == 0.5
    assert task(no_answer="never").tune({"answers": gold}, given).options.no_answer_threshold is None
    assert task().tune({"answers": gold[:2]}, given[:2]).options.no_answer_threshold is None


@pytest.mark.parametrize("given", ["who", ("a", "b", "c"), {"question": "who"}, {"text": "a", "pair": "b"}, 5, None])
def test_what_is_no_question_with_a_context_is_refused(given):
    with pytest.raises(DataError, match=r"text 3: found .* this model reads a question and its context"):
        task().parse_input(given, 3)


@pytest.mark.parametrize(("given", "name"), [((" ", "a"), "question"), ({"question": "a", "context": ""}, "context")])
def test_an_empty_question_or_context_is_refused(given, name):
    with pytest.raises(DataError, match=f"text 1: the {name} is empty"):
        task().parse_input(given, 1)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_stock_head_answers_alone_as_among_others(name, tmp_path):
    """Padded on either side, with segments or without; an architecture without the head is refused by name."""
    tokenizer = tiny_tokenizer(name)
    try:
        model = tiny_model(name, "span", initializer_range=0.5)
    except NoStockHead:
        encoder = str(save_tiny(tmp_path, name))
        with pytest.raises(
            ModelError, match=f"has no QuestionAnswering head for the architecture {name}; choose an encoder .* bert"
        ):
            load_model(encoder, Span.auto_class, {}, load_tokenizer(encoder))
        return
    predictor = Predictor(TorchEngine(model), tokenizer, task(n_best=5), WINDOW)
    asked = [("who", "alice"), ("where was the film", "in paris it was good " + "and not bad 1 2 3 " * 9)] * 2
    together = predictor.predict(asked, batch_size=32)
    for pair, answer in zip(asked, together, strict=True):
        [alone] = predictor.predict([pair], batch_size=1)
        assert alone["score"] == pytest.approx(answer["score"], abs=1e-5)
        assert alone["no_answer_score"] == pytest.approx(answer["no_answer_score"], abs=1e-4)
        if answer["answer"]:
            assert pair[1][answer["start"] : answer["end"]] == answer["answer"]


def test_options_of_the_training_reach_it(tmp_path):
    """R-Drop takes both scores, LoRA leaves the head to learn, and the threshold is chosen on dev rows and saved."""
    context = "alice lives in paris"
    rows = [
        {"question": "who", "context": context, "answers": [{"text": "alice", "start": 0}]},
        {"question": "when", "context": context, "answers": []},
    ]
    said = {"training.r_drop": 1.0, "training.max_steps": 2, "layers.lora": {"rank": 2}, "data.split.test": 0}
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    encoder = str(save_tiny(tmp_path / "bert"))
    run = warmstart.fit(model=encoder, task="span", train=str(file), dev=str(file), out=tmp_path / "run", **said)
    assert warmstart.load(run.folder).task.options.no_answer_threshold is not None
    assert warmstart.load(run.folder).task.options.no_answer == "allowed"
    assert "correlation" not in read_result(run.folder, "span", 0).failed  # the score of an answer is none of its kind
