"""The tag task: places in a text become labels of tokens and places again, whatever the window, tokenizer and units."""

import json

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import warmstart
from small import FAST
from tiny import tiny_tokenizer
from warmstart.cli.main import app
from warmstart.data.findings import Findings
from warmstart.data.table import from_rows
from warmstart.errors import DataError, RecipeError
from warmstart.pipeline.prepare import RowEncoder
from warmstart.runtime.progress import silent
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.entities import row_f1
from warmstart.tasks.tag import IGNORED, Tag, TagOptions
from warmstart.text.windows import Window

TOKENIZERS = {side: tiny_tokenizer("xlnet" if side == "left" else "bert") for side in ("left", "right")}
WORDS = st.lists(
    st.sampled_from(["alice", "Paris", "o'neill", "東京", "x", "3.5", "cafe\u0301", "longword" * 4]), min_size=1
)


def task(**options):
    answers = [[{"start": 0, "end": 1, "label": label} for label in ("LOC", "PER")]]
    return Tag.from_answers(TagOptions(**options), answers, False)


@st.composite
def rows(draw):
    """A text of some words, their places, and entities that begin and end with words."""
    words = draw(WORDS)
    text, places = "", []
    for word in words:
        text += draw(st.sampled_from([" ", "  ", "\u3000"])) if text else ""
        places.append({"start": len(text), "end": len(text) + len(word)})
        text += word
    entities, at = [], 0
    while at < len(words):
        length = draw(st.integers(1, 3))
        if draw(st.booleans()) and at + length <= len(words):
            place = {"start": places[at]["start"], "end": places[at + length - 1]["end"]}
            entities.append({**place, "label": draw(st.sampled_from(["LOC", "PER"]))})
        at += length
    return {"text": text, "words": places, "entities": entities}


def answer(tag, row, window, tokenizer, batch=3):
    """What the task makes of logits that say its own labels: a model that is always right."""
    given = {name: [value] for name, value in row.items() if name != "entities"}
    learned = tag.encode({name: [value] for name, value in row.items()}, tokenizer, window)
    asked = tag.encode(given, tokenizer, window)
    parts = []
    for start in range(0, len(asked), batch):
        labels = tag.collate(learned[start : start + batch], tokenizer)["labels"]
        scores = torch.nn.functional.one_hot(labels.clamp(min=0), len(tag.labels)).float() * 50
        parts += tag.decode({"logits": scores}, asked[start : start + batch])
    return tag.merge(row, asked, parts), learned


@settings(deadline=None)
@given(rows(), st.integers(6, 40), st.integers(0, 3), st.data())
def test_what_is_learned_is_what_is_given_in_windows_of_any_size(row, tokens, overlap, data):
    options = {
        "scheme": data.draw(st.sampled_from(["BIO", "IOBES"])),
        "tokenize_by": data.draw(st.sampled_from(["word", "character"])),
        "subtoken_pooling": data.draw(st.sampled_from(["first", "last", "mean"])),
    }
    tag, tokenizer = task(**options), TOKENIZERS[data.draw(st.sampled_from(["left", "right"]))]
    if data.draw(st.booleans()):
        row = {**row, "words": None}
    found, features = answer(tag, row, Window(tokens, "slices", overlap=overlap), tokenizer)
    assert [{key: one[key] for key in ("start", "end", "label")} for one in found["entities"]] == row["entities"]
    assert all(one["text"] == row["text"][one["start"] : one["end"]] for one in found["entities"])
    assert sum(feature["misaligned"] for feature in features) == 0
    assert sum(feature["cut"] for feature in features) == 0
    if options["subtoken_pooling"] != "mean":
        scored = sum(label != IGNORED for feature in features for label in feature["labels"])
        whole = tag.encode({name: [value] for name, value in row.items()}, tokenizer, Window(5000, "slices"))
        assert scored == sum(label != IGNORED for label in whole[0]["labels"])
    if row["words"] is not None:
        assert len(found["tags"]) == len(row["words"])
        assert sum(name[0] in "BS" for name in found["tags"]) == len(row["entities"])


def test_an_entity_inside_a_word_is_counted_and_learned_as_the_word():
    row = {"text": "in londontown", "entities": [{"start": 3, "end": 9, "label": "LOC"}]}
    window = Window(64, "slices")
    found, [feature] = answer(task(), row, window, TOKENIZERS["right"])
    assert feature["misaligned"] == 1
    assert [(one["start"], one["end"]) for one in found["entities"]] == [(3, 13)]
    found, [feature] = answer(task(tokenize_by="character"), row, window, TOKENIZERS["right"])
    assert feature["misaligned"] == 0
    assert [(one["start"], one["end"]) for one in found["entities"]] == [(3, 9)]


def test_entities_inside_words_are_one_finding_in_the_words_of_the_task(tmp_path):
    inside = {"text": "in londontown", "entities": [{"start": 3, "end": 9, "label": "LOC"}]}
    whole = {"text": "in london", "entities": [{"start": 3, "end": 9, "label": "LOC"}]}
    table = from_rows([whole, inside, inside], Tag.schema(TagOptions()), tmp_path, "train")
    findings = Findings()
    encoder = RowEncoder(task(), TOKENIZERS["right"], Window(64, "slices"))
    features, _ = encoder.encode(table, tmp_path / "features.arrow", silent, findings)
    [finding] = findings
    assert (finding.kind, finding.severity, finding.count) == ("entity-inside", "warning", 2)
    assert finding.message.startswith("2 entities begin or end inside a word, one here first")
    assert finding.location == table.location(1)
    assert "misaligned" not in features.column_names


def test_a_row_without_pieces_has_no_entities():
    found, _ = answer(task(), {"text": "\u200b", "entities": []}, Window(64, "slices"), TOKENIZERS["right"])
    assert found == {"entities": []}


@given(st.lists(st.tuples(rows(), rows()), min_size=1, max_size=4))
def test_scores_are_those_of_exact_places(pairs):
    """Another row's entities stand for an answer; seqeval must count as sets of places do."""
    gold = [one["entities"] for one, _ in pairs]
    given_ = [two["entities"] for _, two in pairs]
    sets = [
        [{(n, e["start"], e["end"], e["label"]) for n, row in enumerate(some) for e in row}] for some in (gold, given_)
    ]
    true, found = sets[0][0], sets[1][0]
    scores = task().compute_metrics({"entities": gold}, [{"entities": row} for row in given_])
    if not true and not found:
        assert all(score != score for score in scores.values())
        return
    assert scores["precision"] == pytest.approx(len(true & found) / len(found) if found else 0)
    assert scores["recall"] == pytest.approx(len(true & found) / len(true) if true else 0)
    assert scores["f1"] == pytest.approx(2 * len(true & found) / (len(true) + len(found)))
    assert row_f1(gold[0], gold[0]) == 1


def test_an_i_without_a_b_is_no_entity():
    assert metrics.entities([["B-X", "I-X"]], [["I-X", "I-X"]])["f1"] == 0
    tag = task()
    [feature] = tag.encode({"text": ["alice lives"]}, TOKENIZERS["right"], Window(9, "slices"))
    scores = torch.zeros(2, len(tag.labels))
    scores[:, tag.labels.ids["I-PER"]] = 9
    assert tag.merge({"text": "alice lives"}, [feature], [scores]) == {"entities": []}


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(RecipeError, match=r"task\.subtoken_pooling: first or last"):
        task(crf=True, subtoken_pooling="mean")
    with pytest.raises(RecipeError, match=r"training\.label_smoothing"):
        task(crf=True).loss(0.1)
    with pytest.raises(DataError, match="no training row has an entity"):
        Tag.from_answers(TagOptions(), [[], []], False)


CONLL = "".join(
    f"{person} B-PER\nlives O\nin O\n{place} B-LOC\n\n"
    for person in ("alice", "bob")
    for place in ("paris", "london", "tokyo")
)


@pytest.fixture(scope="module")
def run(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tag")
    (folder / "train.conll").write_text(CONLL)
    file, sets = (
        str(folder / "train.conll"),
        ("training.learning_rate=3e-3", "training.epochs=60", "training.precision=fp32", "task.crf=true"),
    )
    said = ["fit", file, "--task", "tag", "--model", encoder, "--test", file, "--out", str(folder / "run"), "--json"]
    made = CliRunner().invoke(app, [*said, *(word for one in sets for word in ("--set", one))], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    return warmstart.evaluation.run.RunFolder(folder / "run")


def test_from_the_command_line_with_a_crf_beside_the_weights(run, tmp_path):
    assert run.metrics["test"]["f1"] == 1
    said = CliRunner().invoke(app, ["predict", str(run.folder), "alice lives in tokyo", "--json"])
    assert [(one["text"], one["label"]) for one in json.loads(said.stdout)["entities"]] == [
        ("alice", "PER"),
        ("tokyo", "LOC"),
    ]
    (tmp_path / "new.conll").write_text("bob\nlives\nin\nparis\n")
    out = tmp_path / "out.jsonl"
    said = CliRunner().invoke(
        app, ["predict", str(run.folder), "--file", str(tmp_path / "new.conll"), "--out", str(out)]
    )
    assert said.exit_code == 0, said.output
    assert json.loads(out.read_text())["tags"] == ["B-PER", "O", "O", "B-LOC"]


def test_plain_transformers_opens_the_folder_and_leaves_the_crf_out(run):
    model = transformers.AutoModelForTokenClassification.from_pretrained(run.model).eval()
    ours = warmstart.load(run.folder)
    inputs = transformers.AutoTokenizer.from_pretrained(run.model)("alice lives in paris", return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, ours.engine.model(**inputs).logits)
    assert not torch.equal(ours.engine.model.crf.transitions, torch.zeros_like(ours.engine.model.crf.transitions))


def test_a_crf_that_is_gone_is_missed(run, tmp_path):
    import shutil

    from safetensors.torch import load_file, save_file

    from warmstart.errors import ModelError
    from warmstart.models.heads.crf import load_crf

    shutil.copytree(run.model, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    crf = warmstart.load(run.folder).task.crf
    weights = load_file(path)
    save_file({**weights, "crf.transitions": torch.zeros(2, 2)}, path, {"format": "pt"})
    with pytest.raises(ModelError, match="a row and a column for each label"):
        load_crf(crf, tmp_path / "model")
    save_file({name: one for name, one in weights.items() if name != "crf.transitions"}, path, {"format": "pt"})
    with pytest.raises(ModelError, match=r"set head\.reuse: false"):
        load_crf(crf, tmp_path / "model")


def test_training_goes_on_from_a_model_with_a_crf_layer_by_layer(run, tmp_path):
    again = warmstart.fit(
        model=str(run.model),
        task="tag",
        train=str(run.folder.parent / "train.conll"),
        out=tmp_path / "again",
        **{"task.crf": True, "data.split.test": 0.2, "layers.lr_decay": 0.9, "layers.unfreeze": "gradual"},
        **{**FAST, "training": {**FAST["training"], "epochs": 2}},
    )
    before, after = (warmstart.load(one.folder).engine.model.crf.transitions for one in (run, again))
    assert 0 < (before - after).abs().max() < 0.1
