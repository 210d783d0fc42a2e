"""Prompts: what an encoder was trained with is put before every text, the same way in training and ever after."""

import html
import json
import shutil

import numpy as np
import pytest

import warmstart
from small import FAST, weight_bytes
from test_resume import Crash, Trouble, crash
from warmstart.errors import ModelError, RecipeError
from warmstart.inference.features import Extractor
from warmstart.inference.predictor import Predictor
from warmstart.models.prompts import trained_prompt
from warmstart.plan.decided_trainings import decided_trainings
from warmstart.recipe import make_recipe
from warmstart.report.model_card import make_card
from warmstart.report.page import render
from warmstart.report.run_facts import read_facts
from warmstart.runtime.progress import silent

FILE = "config_sentence_transformers.json"


def named(encoder, folder, name, prompts=None):
    """A copy of an encoder in a folder of that name, with the prompts in its files if they are given."""
    shutil.copytree(encoder, folder / name)
    if prompts is not None:
        (folder / name / FILE).write_text(json.dumps(prompts))
    return str(folder / name)


@pytest.fixture(scope="module")
def e5(encoder, tmp_path_factory):
    return named(encoder, tmp_path_factory.mktemp("family"), "multilingual-e5-small")


@pytest.fixture(scope="module")
def prompted(e5, files, tmp_path_factory):
    """A run with the linear head that sentence-transformers opens, on an encoder of the E5 family."""
    out = tmp_path_factory.mktemp("runs") / "prompted"
    fields = {**FAST, "head": {"type": "linear", "pooling": "mean"}}
    return warmstart.fit(model=e5, train=files["train"], test=files["test"], out=out, **fields)


def ids(predictor, text):
    row = predictor.task.parse_input(text, 1)
    return predictor.encode([row])[0][1][0]["input_ids"]


def tokens(predictor, *texts):
    return predictor.tokenizer(*texts)["input_ids"]


@pytest.mark.parametrize(
    ("name", "use", "prompt"),
    [
        ("e5-base-v2", "classification", "query: "),
        ("e5-large", "document", "passage: "),
        ("multilingual-e5-small", "query", "query: "),
        ("nomic-embed-text-v1.5", "classification", "classification: "),
        ("modernbert-embed-base", "document", "search_document: "),
        ("bge-small-en-v1.5", "classification", ""),
        ("bge-small-en-v1.5", "query", "Represent this sentence for searching relevant passages: "),
        ("multilingual-e5-large-instruct", "classification", ""),
        ("bert-base-uncased", "classification", ""),
        ("my-e5-small", "query", ""),
    ],
)
def test_a_family_is_known_by_its_name(encoder, tmp_path, name, use, prompt):
    assert trained_prompt(named(encoder, tmp_path, name), use) == prompt


def test_an_encoder_is_known_by_what_it_was_made_from_and_in_the_cache_of_the_hub(encoder, tmp_path):
    copy = named(encoder, tmp_path, "mine")
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    (tmp_path / "mine" / "config.json").write_text(json.dumps({**config, "_name_or_path": "intfloat/e5-small"}))
    assert trained_prompt(copy, "document") == "passage: "
    cached = tmp_path / "models--intfloat--e5-small" / "snapshots"
    assert trained_prompt(named(encoder, cached, "0f2a"), "query") == "query: "


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"prompts": {"Classification": "sort: ", "query": "find: "}}, ("sort: ", "find: ", "")),
        ({"prompts": {"a": "A ", "passage": "text: "}, "default_prompt_name": "a"}, ("A ", "A ", "text: ")),
        ({"prompts": {"query": "find: ", "document": ""}}, ("", "find: ", "")),
        ({"prompts": {"query": "", "document": ""}, "default_prompt_name": None}, ("", "", "")),
        ({"prompts": ["query"], "default_prompt_name": 3}, ("", "", "")),
    ],
)
def test_the_files_of_an_encoder_say_its_prompts(encoder, tmp_path, values, expected):
    model = named(encoder, tmp_path, "other", values)
    assert tuple(trained_prompt(model, use) for use in ("classification", "query", "document")) == expected


def test_files_come_before_the_family_and_an_empty_prompt_in_them_says_nothing(encoder, tmp_path):
    said = named(encoder, tmp_path / "a", "e5-small", {"prompts": {"classification": "sort: "}})
    assert trained_prompt(said, "classification") == "sort: "
    unsaid = named(encoder, tmp_path / "b", "e5-small", {"prompts": {"query": "", "document": ""}})
    assert trained_prompt(unsaid, "query") == "query: "


def test_a_model_that_is_not_there_is_refused_as_ever(files, tmp_path):
    assert trained_prompt("/no/such/folder", "query") == ""
    with pytest.raises(ModelError, match="/no/such/folder: cannot be loaded as a model"):
        warmstart.fit(model="/no/such/folder", train=files["train"], out=tmp_path / "run")


def test_the_prompt_is_saved_and_put_before_every_text(prompted):
    predictor = Predictor.load(prompted.folder)
    assert predictor.window.prompt == "query: "
    assert ids(predictor, "a good film") == tokens(predictor, "query: a good film")
    assert json.loads((prompted.model / "warmstart.json").read_text())["window"]["prompt"] == "query: "
    plain = predictor.predict(["a good film"])
    assert plain != predictor.predict(["query: a good film"])


def test_a_run_says_which_prompt_it_used(prompted):
    (rule,) = [rule for rule in prompted.training.rules if rule.field == "data.prompt"]
    assert rule.sentence == 'data.prompt: "query: "'
    assert rule.reason == "the encoder was trained with it"
    assert prompted.recipe.data.prompt == "auto"
    assert prompted.completed_recipe.data.prompt == "query: "
    assert prompted.training.window.summary().endswith('prompt "query: "')
    facts = read_facts(prompted.folder)
    assert "`query:` is put before every text" in make_card(facts)
    assert 'By rule: data.prompt: "query: " since the encoder was trained with it.' in html.unescape(render(facts))


def test_sentence_transformers_puts_it_there_as_well(prompted):
    library = pytest.importorskip("sentence_transformers")
    texts = ["a good film", "bad", "it was a long story with many words " * 40]
    other = library.SentenceTransformer(str(prompted.model))
    predictor = Predictor.load(prompted.folder)
    features = [predictor.encode([{"text": text}])[0][1][0] for text in texts]
    ours = predictor.compute(features, "logits")
    assert np.abs(other.encode(texts) - ours).max() < 1e-5
    assert np.abs(other.encode(texts, prompt="") - ours).max() > 1e-5


def test_features_of_a_run_have_the_prompt_with_any_window(prompted):
    text = ["a good film"]
    own = Extractor.load(prompted.folder).vectors(text)
    assert np.array_equal(own, Extractor.load(prompted.folder, window="tail").vectors(text))
    bare = Extractor.load(prompted.folder)
    bare.window = type(bare.window)(bare.window.max_tokens)
    assert not np.allclose(own, bare.vectors(text))
    assert np.array_equal(own, bare.vectors(["query: a good film"]))


def test_a_model_with_a_prompt_goes_on_with_it_and_one_without_goes_on_without(prompted, e5, files, tmp_path):
    again = warmstart.fit(model=str(prompted.model), train=files["train"], out=tmp_path / "again", **FAST)
    assert again.training.window.prompt == "query: "
    bare = warmstart.fit(model=e5, train=files["train"], out=tmp_path / "bare", data={"prompt": ""}, **FAST)
    assert (bare.training.window.prompt, bare.training.rules) == ("", [])
    assert "prompt" not in json.loads((bare.model / "warmstart.json").read_text())["window"]
    after = warmstart.fit(model=str(bare.model), train=files["train"], out=tmp_path / "after", **FAST)
    assert after.training.window.prompt == ""


def test_an_encoder_without_prompts_is_trained_as_ever(encoder, run, files, tmp_path):
    off = warmstart.fit(
        model=encoder, train=files["train"], test=files["test"], out=tmp_path / "off", data={"prompt": ""}, **FAST
    )
    assert weight_bytes(off.model) == weight_bytes(run.model) != {}
    assert run.training.window.prompt == ""


def test_a_set_prompt_is_used_and_resumes_bit_equal(encoder, files, tmp_path):
    settings = {
        "model": encoder,
        "train": files["train"],
        "data": {"prompt": "film: "},
        "checkpoints": {"every_steps": 2},
        "training": {"max_steps": 6},
    }
    whole = warmstart.fit(**settings, out=tmp_path / "whole")
    assert whole.training.rules == []
    assert whole.training.window.prompt == "film: "
    with pytest.raises(Crash):
        warmstart.fit(**settings, out=tmp_path / "run", progress=Trouble(step=5, what=crash))
    again = warmstart.fit(**settings, out=tmp_path / "run")
    assert weight_bytes(again.model) == weight_bytes(whole.model) != {}


def test_in_a_pair_it_is_before_the_first_text_or_before_each_if_they_are_read_separately(e5, files, tmp_path):
    fields = {"model": e5, "train": files["pairs"], "pair": "other", **FAST}
    pair = ("a good film", "it was bad")
    together = Predictor.load(warmstart.fit(**fields, out=tmp_path / "cross").folder)
    assert ids(together, pair) == tokens(together, "query: a good film", "it was bad")
    task = {"name": "classify", "encoder": "bi"}
    separate = Predictor.load(warmstart.fit(**fields, task=task, out=tmp_path / "bi").folder)
    assert ids(separate, pair) == [tokens(separate, f"query: {text}") for text in pair]


def test_a_score_has_the_prompt_too(e5, files, tmp_path):
    run = warmstart.fit(model=e5, train=files["scores"], task="score", out=tmp_path / "run", **FAST)
    assert run.training.window.prompt == "query: "


def rank(model, out, **options):
    rows = [{"query": f"who {n // 2}", "document": f"it was {n}", "label": n % 2} for n in range(48)]
    file = out.with_suffix(".jsonl")
    file.write_text("\n".join(map(json.dumps, rows)))
    return warmstart.fit(model=model, train=str(file), task={"name": "rank", **options}, out=out, **FAST)


def test_rank_takes_a_prompt_for_queries_and_one_for_documents(e5, encoder, tmp_path):
    run = rank(e5, tmp_path / "run")
    predictor = Predictor.load(run.folder)
    assert ids(predictor, ("who", "it was")) == [tokens(predictor, "query: who"), tokens(predictor, "passage: it was")]
    assert [rule.field for rule in run.training.rules] == ["task.query_prompt", "task.document_prompt"]
    saved = json.loads((run.model / FILE).read_text())["prompts"]
    assert saved == {"query": "query: ", "document": "passage: "}
    plain = rank(encoder, tmp_path / "plain")
    predictor = Predictor.load(plain.folder)
    assert ids(predictor, ("who", "it was")) == [tokens(predictor, "who"), tokens(predictor, "it was")]
    assert json.loads((plain.model / FILE).read_text())["prompts"] == {"query": "", "document": ""}
    own = Predictor.load(rank(e5, tmp_path / "own", query_prompt="ask: ", document_prompt="").folder)
    assert ids(own, ("who", "it was")) == [tokens(own, "ask: who"), tokens(own, "it was")]


def test_a_cross_encoder_has_none(e5, tmp_path):
    run = rank(e5, tmp_path / "run", encoder="cross")
    assert run.training.rules == []
    predictor = Predictor.load(run.folder)
    assert ids(predictor, ("who", "it was")) == [tokens(predictor, "who", "it was")]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("tag", "tag takes no prompt; leave it out"),
        ("span", "span takes no prompt; leave it out"),
        ("choose", "choose takes no prompt; leave it out"),
        ("rank", "rank has task.query_prompt and task.document_prompt; set those"),
    ],
)
def test_a_task_that_takes_none_refuses_one(encoder, tmp_path, task, message):
    from warmstart.pipeline.prompts import with_prompts
    from warmstart.recipe import make_recipe

    recipe = make_recipe({"model": encoder, "task": task, "data.train": "x.jsonl", "data.prompt": "query: "})
    with pytest.raises(RecipeError, match=f"data.prompt: found 'query: ', but {message}"):
        with_prompts(recipe)


def test_a_prompt_that_leaves_no_room_for_text_is_refused(encoder, files, tmp_path):
    fields = {"data": {"prompt": "a very long prompt of many words "}, "window": {"max_tokens": 8}}
    with pytest.raises(RecipeError, match=r"data\.prompt: found 'a very .* leaves none for the text"):
        warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "run", **fields)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("prompt", [3, "long " * 1000])
def test_a_damaged_prompt_is_refused(prompted, tmp_path, prompt):
    folder = shutil.copytree(prompted.model, tmp_path / "model")
    (folder / "manifest.json").unlink()
    values = json.loads((folder / "warmstart.json").read_text())
    values["window"]["prompt"] = prompt
    (folder / "warmstart.json").write_text(json.dumps(values))
    from warmstart.tasks.shared.saved_task import SavedTask

    with pytest.raises(ModelError, match=r"warmstart\.json: window\.prompt: found"):
        SavedTask.read(folder)


def test_a_plan_knows_the_prompts_and_the_rules_that_follow_from_them(e5, tmp_path):
    lines = [f"query {number},document {number},1\nquery {number},another {number},0\n" for number in range(20)]
    (tmp_path / "rows.csv").write_text("query,document,label\n" + "".join(lines))
    recipe = make_recipe({"model": e5, "task": "rank", "data.train": str(tmp_path / "rows.csv")})
    ((_, planned),) = decided_trainings("fine-tuning", recipe, silent)
    assert planned.training.min_steps == 100
    assert planned.task.options["document_prompt"] == "passage: "
