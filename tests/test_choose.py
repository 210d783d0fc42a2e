"""choose: endings compete within their row, however many there are, and a window shows as much of each as it can."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny import ARCHITECTURES, tiny_tokenizer
from warmstart.errors import DataError
from warmstart.tasks.choose import Choose, ChooseOptions, _check_choice
from warmstart.text.windows import Window

TASK = Choose(ChooseOptions(), pair=True)
RAGGED = [[0.5, 2.0, -1.0], [3.0, 1.0], [0.0, 0.0, 0.0, 4.0]]
FLAT = [[score for scores in RAGGED for score in scores]]


def features(counts):
    return [{"input_ids": [[1]] * count} for count in counts]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_ending_is_a_pair_with_the_text_as_the_tokenizer_makes_it(name):
    tokenizer = tiny_tokenizer(name)
    rows = {"text": ["who lives in paris", "the film"], "endings": [["alice", "bob and alice"], ["a", "b", "is not"]]}
    for feature, text, endings in zip(TASK.encode(rows, tokenizer, Window(64)), *rows.values(), strict=True):
        expected = [tokenizer(text, ending) for ending in endings]
        assert feature["input_ids"] == [one["input_ids"] for one in expected]
        if "token_type_ids" in expected[0]:
            assert feature["token_type_ids"] == [one["token_type_ids"] for one in expected]


@settings(deadline=None)
@given(
    text=st.integers(1, 60),
    endings=st.lists(st.integers(1, 60), min_size=2, max_size=5),
    keep=st.sampled_from(["head", "tail", "head+tail"]),
)
def test_no_pair_is_wider_than_the_window_and_what_no_pair_shows_is_counted(text, endings, keep):
    tokenizer = tiny_tokenizer()
    # Each text is told by its word, each place in it by nothing: what is kept is counted alone.
    rows = {"text": ["film " * text], "endings": [["book " * size for size in endings]]}
    [feature] = TASK.encode(rows, tokenizer, Window(32, keep))
    film, book = (tokenizer.convert_tokens_to_ids(word) for word in ("film", "book"))
    assert all(len(ids) <= 32 for ids in feature["input_ids"])
    assert all(ids.count(film) and ids.count(book) for ids in feature["input_ids"])
    assert feature["tokens"] == text + sum(endings)
    seen = sum(ids.count(book) for ids in feature["input_ids"])
    if keep == "head":
        assert feature["cut"] == text - max(ids.count(film) for ids in feature["input_ids"]) + sum(endings) - seen
    assert 0 <= feature["cut"] <= text + sum(endings) - seen


def test_scores_compete_within_a_row_only():
    flat = {"logits": torch.tensor(FLAT)}
    answers = TASK.decode(flat, features(map(len, RAGGED)))
    for answer, scores in zip(answers, RAGGED, strict=True):
        assert answer == pytest.approx(torch.tensor(scores).softmax(-1).tolist(), abs=1e-6)
    row = {"text": "a", "endings": ["x", "y"]}
    merged = TASK.merge(row, features([2]), answers[1:2])
    assert (merged["label"], merged["ending"]) == (0, "x")
    assert merged["probability"] == merged["probabilities"][0]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_mean_of_each_rows_own(smoothing):
    flat = {"logits": torch.tensor(FLAT, requires_grad=True)}
    labels = torch.tensor([[1, 3], [0, 2], [3, 4]])
    expected = torch.stack(
        [
            torch.nn.functional.cross_entropy(torch.tensor(scores), label[0], label_smoothing=smoothing)
            for scores, label in zip(RAGGED, labels, strict=True)
        ]
    ).mean()
    loss = TASK.loss(smoothing)(flat, labels)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    loss.backward()
    assert flat["logits"].grad.isfinite().all()


def test_rows_of_unequal_number_waste_no_ending():
    tokenizer = tiny_tokenizer()
    rows = {"text": ["a", "b"], "endings": [["x", "y"], ["x", "y", "z"]], "label": [1, 2]}
    batch = TASK.collate(TASK.encode(rows, tokenizer, Window(16)), tokenizer)
    assert batch["input_ids"].shape[:2] == (1, 5)
    assert batch["labels"].tolist() == [[1, 2], [2, 3]]
    even = {name: values[:1] * 2 for name, values in rows.items()}
    assert TASK.collate(TASK.encode(even, tokenizer, Window(16)), tokenizer)["input_ids"].shape[:2] == (2, 2)


@pytest.mark.parametrize("given", ["a text", ("a text", "an ending"), ("a", ["x"]), {"text": "a"}, ("a", ["x", " "])])
def test_what_is_no_text_with_endings_is_refused(given):
    with pytest.raises(DataError, match=r"text 2: found .* two or more endings"):
        TASK.parse_input(given, 2)


def test_an_answer_past_the_last_ending_is_refused():
    row = {"text": "a", "endings": ["x", "y"]}
    assert _check_choice(row) is None
    assert _check_choice({**row, "label": 1}) is None
    assert _check_choice({**row, "label": 2})[0] == "choice-past"
    assert _check_choice({**row, "endings": ["x"]})[0] == "choice-few"
