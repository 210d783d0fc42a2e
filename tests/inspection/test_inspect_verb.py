"""`warmstart inspect` and `predict --explain`: tables, JSON and pages, and what they refuse."""

import json

import pytest
from typer.testing import CliRunner

import warmstart
from warmstart.cli.main import app

TEXT = "the film 7 was good and very great"


@pytest.fixture(scope="module")
def call(run):
    def invoke(*words):
        return CliRunner().invoke(app, ["inspect", str(run.folder), *map(str, words)])

    return invoke


def result(call, subject, *words):
    answer = call(subject, *words, "--json")
    assert answer.exit_code == 0, answer.exception
    return json.loads(answer.stdout)[subject]


def test_heads(call, run, tmp_path):
    heads = result(call, "heads", "--limit", 12, "--remove", 2, "--out", tmp_path / "heads.html")
    assert heads["rows"] == {"part": "test", "used": 12, "available": 24}
    assert [effect["without"] for effect in heads["effects"]] == [f"{b}.{h}" for b in range(3) for h in range(4)]
    assert [step["heads"] for step in heads["removal"]] == [0, 1, 2]
    assert heads["headline"] == heads["removal"][0]["headline"]
    page = (tmp_path / "heads.html").read_text("utf-8")
    assert all(heading in page for heading in ("Without each head", "Gradient importance", "One after the other"))
    table = call("heads", "--limit", 12).output
    assert "12 of 24 test rows: accuracy" in table


def test_layers(call, files):
    layers = result(call, "layers", "--file", files["test"])
    assert layers["rows"] == {"part": "given", "used": 24, "available": 24}
    assert [effect["kind"] for effect in layers["effects"]] == ["attention"] * 3 + ["block"] * 3
    assert "0.* (attention)" in call("layers", "--file", files["test"]).output


def test_the_precision_is_that_of_the_answers_and_is_said(call, files):
    words = ("layers", "--file", files["test"], "--limit", 23)
    plain, half = result(call, *words), result(call, *words, "--precision", "bf16")
    assert (plain["precision"], half["precision"]) == ("fp32", "bf16")
    assert [effect["difference"] for effect in half["effects"]] == pytest.approx(
        [effect["difference"] for effect in plain["effects"]], abs=3 / 23
    )
    assert "23 of 24 given rows, in bf16: accuracy" in call(*words, "--precision", "bf16").output


def test_attention(call, tmp_path):
    page = tmp_path / "attention.html"
    attention = result(call, "attention", TEXT, "--words", "good,great", "--head", "1.2", "--out", page)
    statistics = attention["statistics"]
    assert (statistics["texts"], len(statistics["heads"])) == (1, 12)
    assert statistics["heads"][0]["kinds"]["words"] > 0
    assert page.read_text("utf-8").count("<img ") == 12
    assert "Head 1.2" in page.read_text("utf-8")
    assert "4 of 24 test rows, read with eager attention" in call("attention", "--limit", 4).output


def test_probe(call, tmp_path):
    probe = result(call, "probe", "--limit", 40, "--out", tmp_path / "probe.html")
    assert len(probe["start"]["layers"]) == len(probe["finetuned"]["layers"]) == len(probe["cka"]) == 4
    assert probe["finetuned"]["layers"][-1]["accuracy"] >= probe["start"]["majority"]
    assert "Encoder before training" in (tmp_path / "probe.html").read_text("utf-8")
    assert "embeddings" in call("probe", "--limit", 40).output


def test_explain(call, run, tmp_path):
    [explanation] = result(call, "explain", TEXT, "--method", "occlusion", "--out", tmp_path / "explain.html")
    assert " ".join(word["text"] for word in explanation["words"]) == TEXT
    [expected] = warmstart.inspect(run.folder).explain([TEXT], "occlusion")
    assert explanation["words"][4]["weight"] == pytest.approx(expected.words[4].weight, abs=1e-5)
    assert 'class="words"' in (tmp_path / "explain.html").read_text("utf-8")
    assert "comprehensiveness" in call("explain", "--limit", 2).output
    answer = CliRunner().invoke(app, ["predict", str(run.folder), TEXT, "--explain", "--method", "occlusion", "--json"])
    plain = json.loads(answer.stdout)
    assert plain.pop("explanation") == {key: value for key, value in explanation.items() if key != "answer"}
    assert plain == explanation["answer"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["head"], "inspect head: did you mean 'heads'"),
        (["heads", TEXT], "takes no texts"),
        (["layers", "--remove", "2"], "--remove: works only with heads"),
        (["probe", "--precision", "bf16"], "--precision: works only with heads and layers"),
        (["heads", "--precision", "int8"], "--precision: found 'int8'"),
        (["attention", "--head", "1.2"], "--head: is drawn on a page"),
        (["attention", TEXT, "--head", "9.1", "--out", "a.html"], "--head 9.1: expected one of 3 x 4 heads"),
        (["heads", "--out", "a.png"], "expected .html"),
        (["heads", "--out", "no/such/a.html"], "there is no folder"),
        (["probe", "--file", "a.csv"], "a probe is fitted to the run's own training rows"),
        (["explain", TEXT, "--method", "shap"], "method: found 'shap'"),
    ],
)
def test_what_cannot_be_done_is_said(call, words, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert message in str(call(*words).exception)
