"""choose and relate on the architectures that the suite of all tasks leaves out, and what the two refuse."""

import json

import pytest

import warmstart
from contracts.test_every_task import ARCHITECTURES as ELSEWHERE
from small import relations, riddles
from tiny import ARCHITECTURES, save_tiny
from warmstart.errors import ModelError, RecipeError

NO_CHOICE = {"deberta", "eurobert", "nomic_bert", "gpt2", "t5", "mt5", "gte", "opt", "llama", "awd-lstm"}
NO_CHOICE |= {"mamba", "mamba2", "rwkv", "recurrent_gemma", "xlstm"}
"""transformers has no head to choose for these."""
OTHERS = set(ARCHITECTURES) - set(ELSEWHERE)
QUICK = {"training": {"max_steps": 2, "batch_size": 8, "precision": "fp32"}, "window.max_tokens": 48}
ROWS = {"choose": riddles(64), "relate": relations(66)}
TEXTS = {
    "choose": [
        ("the film", ["good", "it was bad"]),
        ("the film was long " * 60, ["a great book " * 50, "bad", "d"]),
        *((f"film {number}", ["a", "good", "b", "not", "c"][: 2 + number % 4]) for number in range(6)),
    ],
    "relate": [
        "<e1>alice</e1> loved <e2>bob</e2>",
        f"{'very ' * 200}<e2>bob</e2>{' good' * 300} <e1>alice</e1>",
        *(f"film {'long ' * number}<e1>a</e1> and <e2>b</e2>" for number in range(6)),
    ],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, rows in ROWS.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {name: str(folder / f"{name}.jsonl") for name in ROWS}


def check(run, task):
    """One at a time or all together, by this process's model or the saved one: the answers are the same."""
    texts = TEXTS[task]
    together = warmstart.load(run.folder).predict(texts, batch_size=32)
    alone = [run.predict([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=2e-6)


@pytest.mark.parametrize("name", sorted(OTHERS - NO_CHOICE))
def test_choose(name, files, tmp_path):
    encoder = str(save_tiny(tmp_path / "encoder", name))
    check(warmstart.fit(model=encoder, task="choose", train=files["choose"], out=tmp_path / "run", **QUICK), "choose")


@pytest.mark.parametrize("name", sorted(NO_CHOICE))
def test_an_encoder_without_a_head_to_choose_is_refused(name, files, tmp_path):
    encoder = str(save_tiny(tmp_path / "encoder", name))
    with pytest.raises(ModelError, match=f"has no MultipleChoice head for the architecture {name}; .*bert"):
        warmstart.fit(model=encoder, task="choose", train=files["choose"], out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_relate(name, files, tmp_path):
    encoder = str(save_tiny(tmp_path / "encoder", name))
    # Every way of showing and reading, each on some architectures.
    turn = sorted(OTHERS).index(name)
    options = {
        "entity_marking": ("markers", "punctuation", "mask")[turn % 3],
        "entity_pooling": ("start", "mean", "cls", "bilstm")[turn // 3 % 4],
        "append_entities": turn % 2 == 1,
    }
    task = {"name": "relate", **options}
    check(warmstart.fit(model=encoder, task=task, train=files["relate"], out=tmp_path / "run", **QUICK), "relate")


def test_a_run_on_top_of_a_run_keeps_its_tokens_and_its_head(encoder, files, tmp_path):
    first = warmstart.fit(model=encoder, task="relate", train=files["relate"], out=tmp_path / "first", **QUICK)
    again = warmstart.fit(model=str(first.model), task="relate", train=files["relate"], out=tmp_path / "again", **QUICK)
    assert again.training.new_parameters == []
    assert len(again.predictor.tokenizer) == len(first.predictor.tokenizer)
    other = {"model": str(first.model), "train": files["relate"], "out": tmp_path / "other", **QUICK}
    with pytest.raises(RecipeError, match=r"reads marked entities.*head\.reuse: false"):
        warmstart.fit(**other)
    assert warmstart.fit(**other, head={"reuse": False}).finished


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "choose", "window.method": "slices"}, r"window\.method: found slices, but choose takes head, tail"),
        ({"task": "relate", "window.method": "tail"}, r"window\.method: found tail, but relate takes head"),
        ({"task": "relate", "head": {"pooling": "mean"}}, r"head\.pooling: found mean, but relate sets the pooling"),
        (
            {"task": {"name": "relate", "no_relation_label": "Othr"}},
            r"task\.no_relation_label: 'Othr' is not a label.*'Other'",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said, encoder, files, tmp_path):
    name = settings["task"] if isinstance(settings["task"], str) else settings["task"]["name"]
    with pytest.raises(RecipeError, match=said):
        warmstart.fit(model=encoder, train=files[name], out=tmp_path / "run", **settings, **QUICK)
    assert not (tmp_path / "run").exists()
