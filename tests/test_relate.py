"""relate: marks are read or refused, entities are shown as told, and neither of them is ever cut away."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import warmstart
from small import relations
from tiny import ARCHITECTURES, tiny_byte_tokenizer, tiny_japanese, tiny_tokenizer, tiny_unigram_tokenizer
from warmstart.data.fault_kinds import FAULT_KINDS
from warmstart.errors import DataError, RecipeError
from warmstart.models.added_tokens import add_tokens
from warmstart.models.pooling import MAX_DISTANCE, EntityPositions, entity_distances
from warmstart.tasks.relate import Relate, RelateOptions, _check_relation
from warmstart.tasks.shared.entity_markers import marked
from warmstart.tasks.shared.labels import LabelMap
from warmstart.text.windows import Window

LEARN = {"training": {"max_steps": 80, "batch_size": 8, "learning_rate": 5e-3, "lr_schedule": "constant"}}
MARKED = "The <e1>film</e1> was in <e2>very old paris</e2>."
PLAIN = {
    "markers": "The [E1] film [/E1] was in [E2] very old paris [/E2].",
    "punctuation": "The $ film $ was in # very old paris # .",
    "mask": "The [E1] was in [E2].",
}


def task_of(**options):
    return Relate(RelateOptions(**options), LabelMap(("a", "b")))


def tokenizer_of(task, name="bert"):
    tokenizer = tiny_tokenizer(name)
    add_tokens(tokenizer, task.new_tokens)
    return tokenizer


words = st.text(alphabet="ab .$[]<e1/>漢字é", max_size=30).filter(lambda text: "<e1" not in text and "<e2" not in text)
names = st.text(alphabet="ab漢é", min_size=1, max_size=9)


@given(parts=st.tuples(words, names, words, names, words), swapped=st.booleans())
def test_marks_are_taken_out_and_the_entities_are_where_they_were(parts, swapped):
    before, first, between, second, after = parts
    if any("</e" in part for part in parts):
        return
    numbers = (2, 1) if swapped else (1, 2)
    marks = [f"<e{number}>{name}</e{number}>" for number, name in zip(numbers, (first, second), strict=True)]
    found = marked({"text": before + marks[0] + between + marks[1] + after})
    assert found.text == "".join(parts)
    names = [found.text[start:end] for start, end in found.entities]
    assert names == ([second, first] if swapped else [first, second])
    places = {"first": [*found.entities[0]], "second": [*found.entities[1]]}
    assert marked({"text": found.text, **places}) == found


@pytest.mark.parametrize(
    ("row", "kind", "said"),
    [
        ({"text": "no marks"}, "mark-missing", "has no <e1>, </e1>, <e2>, </e2>"),
        ({"text": "<e1>a</e1> b"}, "mark-missing", "has no <e2>, </e2>"),
        ({"text": "<e1>a <e2>b</e2>"}, "mark-missing", "has no </e1>"),
        ({"text": "<e1>a</e1> <e1>b</e1> <e2>c</e2>"}, "mark-repeated", "has <e1> twice"),
        ({"text": "</e1>a<e1> <e2>b</e2>"}, "mark-order", "closes <e1> before"),
        ({"text": "<e1> </e1> <e2>b</e2>"}, "mark-empty", "<e1> marks ' '"),
        ({"text": "<e1>a <e2>b</e2></e1>"}, "mark-overlap", "overlap"),
        ({"text": "a b", "first": [0, 1]}, "mark-missing", "'first' alone"),
        ({"text": "a b", "first": [0, 1], "second": [2, 4]}, "mark-outside", "has 3 characters"),
        ({"text": "a b", "first": [0, 1], "second": [1, 2]}, "mark-empty", "'second' marks ' '"),
        ({"text": "a b", "first": [], "second": [1, 2]}, "mark-missing", r"is \[\]. Expected one span"),
        ({"text": "<e1>a</e1> b", "first": [0, 1], "second": [2, 3]}, "mark-repeated", "holds marks"),
        ({"text": "the [/E1] <e1>a</e1> <e2>b</e2>"}, "mark-reserved", r"holds \[/E1\]"),
    ],
)
def test_wrong_marks_are_refused(row, kind, said):
    found = _check_relation(row)
    assert found[0] == kind
    assert kind in FAULT_KINDS
    with pytest.raises(DataError, match=f"text 3: .*{said}"):
        task_of().parse_input(row, 3)


@pytest.mark.parametrize("show", PLAIN)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_is_shown_can_be_written_for_the_tokenizer_alone(name, show):
    task = task_of(entity_marking=show)
    tokenizer = tokenizer_of(task, name)
    [feature] = task.encode({"text": [MARKED]}, tokenizer, Window(64))
    assert feature["input_ids"] == tokenizer(PLAIN[show])["input_ids"]
    plain = {"text": ["The film was in very old paris."], "first": [[{"start": 4, "end": 8}]]}
    places = {**plain, "second": [[{"start": 16, "end": 30}]]}
    assert task.encode(places, tokenizer, Window(64)) == [feature]


@pytest.mark.parametrize("show", PLAIN)
@pytest.mark.parametrize(
    "make",
    [tiny_byte_tokenizer, lambda _: tiny_byte_tokenizer(True), tiny_unigram_tokenizer, tiny_japanese],
    ids=["bytes", "bytes after a space", "unigrams", "japanese"],
)
def test_so_it_is_with_pieces_of_other_kinds_and_without_spaces(make, show, tmp_path):
    task = task_of(entity_marking=show)
    tokenizer = make(tmp_path) if make not in {tiny_byte_tokenizer, tiny_unigram_tokenizer} else make()
    add_tokens(tokenizer, task.new_tokens)
    japanese = {
        "markers": "[E1]東京[/E1]で[E2]映画[/E2]を見た",
        "punctuation": "$ 東京 $ で # 映画 # を見た",
        "mask": "[E1]で[E2]を見た",
    }
    texts = [MARKED, "<e1>東京</e1>で<e2>映画</e2>を見た"]
    features = task.encode({"text": texts}, tokenizer, Window(128))
    for feature, plain in zip(features, (PLAIN[show], japanese[show]), strict=True):
        assert feature["input_ids"] == tokenizer(plain)["input_ids"]


@pytest.mark.parametrize("show", PLAIN)
@pytest.mark.parametrize("read", ["start", "mean", "cls"])
def test_the_head_reads_what_is_said(show, read):
    task = task_of(entity_marking=show, entity_pooling=read)
    tokenizer = tokenizer_of(task)
    # The second entity comes first in the text.
    [feature] = task.encode({"text": ["<e2>paris</e2> or <e1>the film</e1>"]}, tokenizer, Window(64))
    if read == "cls":
        assert "marks" not in feature
        return
    tokens = tokenizer.convert_ids_to_tokens(feature["input_ids"])
    read_ones = [
        [token for token, mark in zip(tokens, feature["marks"], strict=True) if mark == number] for number in (1, 2)
    ]
    if read == "mean" and show != "mask":
        assert read_ones == [["the", "film"], ["paris"]]
    else:
        assert read_ones == ([["$"], ["#"]] if show == "punctuation" else [["[E1]"], ["[E2]"]])


@settings(deadline=None)
@given(sizes=st.tuples(*[st.integers(0, 40)] * 3, *[st.integers(1, 30)] * 2), show=st.sampled_from(list(PLAIN)))
def test_no_entity_is_cut_away_and_what_is_cut_is_counted(sizes, show):
    before, between, after, first, second = sizes
    text = (
        f"{'good ' * before}<e1>{'film ' * first}</e1> {'bad ' * between}<e2>{'book ' * second}</e2>{' very' * after}"
    )
    task = task_of(entity_marking=show, entity_pooling="mean")
    tokenizer = tokenizer_of(task)
    [feature] = task.encode({"text": [text]}, tokenizer, Window(24))
    tokens = tokenizer.convert_ids_to_tokens(feature["input_ids"])
    own = [token for token in tokens if token in {"good", "film", "bad", "book", "very"}]
    assert len(tokens) <= 24
    assert feature["tokens"] == sum(sizes) - (first + second if show == "mask" else 0)
    assert feature["cut"] == feature["tokens"] - len(own)
    assert {1, 2} <= set(feature["marks"])
    for sign in task.new_tokens:
        assert tokens.count(sign) == 1
    if show != "mask":
        assert {"film", "book"} <= set(tokens)


def test_a_window_too_narrow_for_two_entities_is_refused():
    task = task_of()
    with pytest.raises(RecipeError, match=r"window\.max_tokens: found 9"):
        task.encode({"text": [MARKED]}, tokenizer_of(task), Window(9))


@pytest.mark.parametrize("name", ["bert", "xlnet"])
def test_marks_are_padded_on_the_tokenizers_side(name):
    task = task_of()
    tokenizer = tokenizer_of(task, name)
    features = task.encode({"text": [MARKED, "<e1>a</e1> <e2>b</e2>"]}, tokenizer, Window(64))
    batch = task.collate(features, tokenizer)
    for number, token in ((1, "[E1]"), (2, "[E2]")):
        found = batch["input_ids"][batch["marks"] == number]
        assert tokenizer.convert_ids_to_tokens(found) == [token] * 2


def plain_shi_lin(head, states, first, second):
    """Shi & Lin 2019, section 2.1, of one text: entities from their first token to their last one."""
    rows = []
    for i, state in enumerate(states):
        distances = [i - start if i < start else i - end if i > end else 0 for start, end in (first, second)]
        rows.append(torch.cat([state, *(head.embeddings.weight[MAX_DISTANCE + distance] for distance in distances)]))
    _, (final, _) = head.bilstm.lstm(torch.stack(rows)[None])
    forward, backward = final[:, 0]
    return torch.nn.functional.gelu(head.hidden(torch.cat([forward, backward])))


def test_positions_and_final_states_are_those_of_shi_and_lin():
    """Of texts of several lengths, padded on either side; what is appended is not read."""
    torch.manual_seed(0)
    head = EntityPositions(6)
    states = torch.randn(2, 9, 6)
    marks = torch.tensor([[0, 1, 1, 0, 0, 2, 0, -1, -1], [0, 0, 0, 2, 0, 0, 1, 0, 0]])
    mask = torch.tensor([[1] * 9, [0, 0, *[1] * 7]]).bool()
    found = head(states, mask, marks)
    torch.testing.assert_close(found[0], plain_shi_lin(head, states[0, :7], (1, 2), (5, 5)))
    torch.testing.assert_close(found[1], plain_shi_lin(head, states[1, 2:], (4, 4), (1, 1)))
    assert found.shape == (2, 300)
    assert entity_distances(marks[:1] == 1).tolist() == [[-1, 0, 0, 1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize("show", PLAIN)
@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_the_entities_are_appended_if_asked_for(name, show):
    task = task_of(entity_marking=show, append_entities=True, entity_pooling="bilstm")
    tokenizer = tokenizer_of(task, name)
    [feature] = task.encode({"text": [MARKED]}, tokenizer, Window(64))
    framed = tokenizer("a", "a")["input_ids"]
    between = framed[2:-2]
    first, second = (tokenizer(words, add_special_tokens=False)["input_ids"] for words in ("film", "very old paris"))
    text = tokenizer(PLAIN[show])["input_ids"][:-1]
    assert feature["input_ids"] == [*text, *between, *first, *between, *second, framed[-1]]
    if name == "bert":
        plain = tokenizer(PLAIN[show], "film [SEP] very old paris")
        assert feature["input_ids"] == plain["input_ids"]
        assert feature["token_type_ids"] == plain["token_type_ids"]
    read = len(text) + len(between)
    assert feature["marks"][read:] == [-1] * (len(feature["input_ids"]) - read)
    assert {1, 2} <= set(feature["marks"][:read]) <= {0, 1, 2}
    long = f"<e1>{'film ' * 40}</e1> was in <e2>{'book ' * 40}</e2>"
    [feature] = task.encode({"text": [long]}, tokenizer, Window(40))
    assert len(feature["input_ids"]) <= 40
    assert {1, 2} <= set(feature["marks"])


def test_relations_as_shi_and_lin_are_learned_and_open_again(encoder, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in relations(24)))
    task = {"name": "relate", "entity_marking": "mask", "append_entities": True, "entity_pooling": "bilstm"}
    run = warmstart.fit(model=encoder, task=task, train=str(path), test=str(path), out=tmp_path / "run", **LEARN)
    assert run.metrics["test"]["accuracy"] > 0.9
    texts = [row["text"] for row in relations(6)]
    together = warmstart.load(run.folder).predict(texts)
    for answer, text in zip(together, texts, strict=True):
        [alone] = run.predict([text])
        assert answer["probabilities"] == pytest.approx(alone["probabilities"], abs=2e-6)
    new = run.training.new_parameters
    assert "pooling.positions.embeddings.weight" in new


TYPED = {
    "markers": "The [E1] * art work * film [/E1] was in [E2] ^ city ^ very old paris [/E2].",
    "punctuation": "The $ * art work * film $ was in # ^ city ^ very old paris # .",
    "mask": "The [E1] * art work * was in [E2] ^ city ^.",
}


@pytest.mark.parametrize("show", TYPED)
@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_what_an_entity_is_stands_before_it_if_asked_for(name, show):
    task = task_of(entity_marking=show, typed_markers=True)
    tokenizer = tokenizer_of(task, name)
    rows = {"text": [MARKED], "first_type": ["ART_WORK"], "second_type": ["city"]}
    [feature] = task.encode(rows, tokenizer, Window(64))
    assert feature["input_ids"] == tokenizer(TYPED[show])["input_ids"]
    opening = [token for token, mark in zip(feature["input_ids"], feature["marks"], strict=True) if mark]
    signs = ["$", "#"] if show == "punctuation" else ["[E1]", "[E2]"]
    assert tokenizer.convert_ids_to_tokens(opening) == signs


def test_types_are_wanted_of_every_row_or_of_none(encoder, tmp_path):
    rows = [{**row, "first_type": "person", "second_type": "PERSON"} for row in relations(9)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = {"name": "relate", "typed_markers": True}
    chosen = {"model": encoder, "task": task, "training.max_steps": 2, "window.max_tokens": 48, "data.split.test": 0}
    run = warmstart.fit(train=str(path), out=tmp_path / "run", **chosen)
    asked = {"text": MARKED, "first_type": "person", "second_type": "city"}
    one, other = warmstart.load(run.folder).predict([asked, {**asked, "first_type": "film"}])
    assert one["probabilities"] != other["probabilities"]
    for wrong in (MARKED, {"text": MARKED, "first_type": "person"}, {**asked, "second_type": " "}):
        with pytest.raises(DataError, match=r"text 1: .*'first_type' and 'second_type'"):
            run.predict([wrong])
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, {**rows[0], "first_type": ""}]))
    with pytest.raises(DataError, match=r"rows\.jsonl:10: 'first_type' is empty"):
        warmstart.fit(train=str(path), out=tmp_path / "other", **chosen)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in relations(9)))
    with pytest.raises(DataError, match="first_type"):
        warmstart.fit(train=str(path), out=tmp_path / "other", **chosen)
