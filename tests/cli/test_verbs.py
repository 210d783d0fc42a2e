"""The verbs as a user types them: what they print, what they write, and how they fail."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import warmstart
from warmstart.cli import synonyms
from warmstart.cli.main import VERBS, app, load_verb, main
from warmstart.errors import DataError

QUICK = ["--max-steps", "2", "--batch-size", "8", "--precision", "fp32"]


def call(*words, ok=True):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if ok and result.exception:
        raise result.exception
    return result


def test_fit_ends_with_a_table_and_the_next_command(encoder, files, tmp_path):
    out = call(
        "fit", files["train"], "--model", encoder, "--test", files["test"], "--out", tmp_path / "run", *QUICK
    ).output
    assert "test accuracy" in out
    assert "0 of 64 rows truncated" in out
    assert f"Next: warmstart predict {tmp_path}" in out.replace("\n", "")


def test_fit_from_a_recipe_with_a_field_set(encoder, files, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"model: {encoder}\ndata: {{train: {files['train']}}}\n")
    words = ["--set", "training.learning_rate=1e-3", "--set", "data.split={test: 0.25}", "--json"]
    out = call("fit", recipe, "--out", tmp_path / "run", *QUICK, *words).stdout
    told = json.loads(out.splitlines()[-1])
    assert told["metrics"]["test"]["rows"] == 16
    assert told["training"]["steps"] == 2
    assert "learning_rate: 0.001" in call("show", tmp_path / "run", "--recipe").output


def test_fit_without_a_header(encoder, tmp_path):
    path = tmp_path / "plain.tsv"
    path.write_text("".join(f'{n % 2}\tsome "text {n}\n' for n in range(30)))
    words = ["--no-header", "--text", "2", "--label", "1", "--out", tmp_path / "run", "--json"]
    told = json.loads(call("fit", path, "--model", encoder, *words, *QUICK).stdout.splitlines()[-1])
    assert told["data"]["parts"]["train"]["rows"] == 27


def test_predict_texts_as_a_table_and_as_json(run):
    table = call("predict", run.folder, "a good film", "a [bold] film").output
    assert "a [bold] film" in table
    assert "probability" in table
    answers = [
        json.loads(line) for line in call("predict", run.folder, "a good film", "bad", "--json").stdout.splitlines()
    ]
    assert [answer["label"] for answer in answers] == [given["label"] for given in run.predict(["a good film", "bad"])]


def test_predict_texts_into_a_file(run, tmp_path):
    call("predict", run.folder, "good", "bad", "--out", tmp_path / "answers.csv")
    rows = list(csv.DictReader((tmp_path / "answers.csv").open(encoding="utf-8")))
    assert [row["text"] for row in rows] == ["good", "bad"]


def test_errors_show_paths_as_they_were_typed(encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("text,label\na\n")
    with pytest.raises(DataError, match=r"^bad\.csv:2: "):
        call("fit", "bad.csv", "--model", encoder)


def test_show_an_unfinished_run(run, tmp_path):
    for name in ("recipe.yaml", "data.json", "environment.json"):
        shutil.copy(run.folder / name, tmp_path / name)
    told = json.loads(call("show", tmp_path, "--json").stdout)
    assert told["finished"] is False
    assert told["metrics"] == {}
    assert "false" in call("show", tmp_path).output


def test_predict_lines_of_standard_input(run):
    result = CliRunner().invoke(app, ["predict", str(run.folder), "-", "--json"], input="good\nbad\n")
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_predict_a_file_answers_every_row_in_order(run, files, tmp_path, suffix):
    out = tmp_path / f"answers.{suffix}"
    call("predict", run.folder, "--file", files["test"], "--out", out)
    rows = {
        "csv": lambda: list(csv.DictReader(out.open(encoding="utf-8"))),
        "jsonl": lambda: [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()],
        "parquet": lambda: pq.read_table(out).to_pylist(),
    }[suffix]()
    with Path(files["test"]).open(encoding="utf-8") as file:
        own = list(csv.DictReader(file))
    assert [{name: row[name] for name in own[0]} for row in rows] == own
    answers = run.predict([row["text"] for row in own])
    assert [row["predicted_label"] for row in rows] == [answer["label"] for answer in answers]


def test_predict_keeps_the_columns_that_are_named(run, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 7, "text": "good", "label": "pos"}\n{"text": "bad", "more": [1, 2]}\n')
    first, second = (json.loads(line) for line in call("predict", run.folder, "--file", path).stdout.splitlines())
    assert (first["id"], first["text"], first["more"], first["label"]) == (7, "good", None, "pos")
    assert (second["id"], second["more"], second["label"]) == (None, [1, 2], None)
    assert {"predicted_label", "probabilities"} <= first.keys()
    [only, _] = call("predict", run.folder, "--file", path, "--keep-column", "id").stdout.splitlines()
    assert {"id", "label"} <= json.loads(only).keys()
    assert "text" not in json.loads(only)


def test_predict_leaves_rows_without_text_out_if_asked(run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,text\n1,good\n2,\n3,bad\n")
    refused = CliRunner().invoke(app, ["predict", str(run.folder), "--file", str(path)])
    assert "rows.csv:3: 'text' is empty" in str(refused.exception)
    rows = call("predict", run.folder, "--file", path, "--drop", "empty").stdout.splitlines()
    assert [json.loads(row)["id"] for row in rows] == ["1", "3"]


def test_predict_replaces_no_file_and_writes_formulas_only_as_they_are(run, tmp_path):
    path, out = tmp_path / "rows.csv", tmp_path / "answers.csv"
    path.write_text("text,=2+2\n=1+1,x\ngood,y\n")
    call("predict", run.folder, "--file", path, "--out", out)
    assert out.read_text().splitlines()[1].startswith("=1+1,")
    again = CliRunner().invoke(app, ["predict", str(run.folder), "--file", str(path), "--out", str(out)])
    assert "exists; choose another, or pass --overwrite" in str(again.exception)
    call("predict", run.folder, "--file", path, "--out", out, "--overwrite", "--no-formulas")
    assert [line.split(",")[:2] for line in out.read_text().splitlines()[:2]] == [["text", "'=2+2"], ["'=1+1", "x"]]


def test_evaluate_gives_the_runs_numbers_on_its_own_rows_and_on_the_file(run, files):
    own = json.loads(call("evaluate", run.folder, "--json").stdout)
    file = json.loads(call("evaluate", run.folder, files["test"], "--json").stdout)
    assert own["metrics"] == file["metrics"] == run.metrics["test"]


def test_show_the_schema_of_recipes_with_the_meaning_of_each_field():
    schema = json.loads(call("show", "--schema").stdout)
    meaning = schema["$defs"]["TrainingOptions"]["properties"]["learning_rate"]["description"]
    default = "Default: 5e-5, or another one where there is a rule for the task and the encoder."
    assert meaning == f"The peak learning rate. {default}"
    assert schema["additionalProperties"] is False


def test_show_a_run_and_the_layers_of_its_model(run, encoder):
    assert "test accuracy" in call("show", run.folder).output
    assert json.loads(call("show", run.folder, "--json").stdout)["metrics"] == run.metrics
    assert "BertLayer" in call("show", run.folder, "--layers").output
    layers = json.loads(call("show", encoder, "--json").stdout)
    assert [layer["layer"] for layer in layers] == ["embeddings", "block 0", "block 1", "block 2", "head"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["fit", "nothing.csv", "--model", "m"], 4, "nothing.csv"),
        (["fit", "nothing.yaml"], 3, "nothing.yaml: no such file"),
        (["fit", "TRAIN"], 3, "no model. Expected a pretrained encoder"),
        (["fit", "TRAIN", "--model", "MODEL", "--set", "training.learning_rat=1"], 3, "did you mean 'learning_rate'"),
        (["fit", "TRAIN", "--model", "MODEL", "--text", "body"], 4, "no column 'body'"),
        (
            ["fit", "TRAIN", "--model", "MODEL", "--set", "trainer.bf16=true"],
            3,
            "trainer.bf16 is called training.precision: bf16 here",
        ),
        (["fit", "TRAIN", "--model", "no/model"], 5, "no/model: there is no such folder here"),
        (["predict", "nowhere", "text"], 5, "nowhere: no such folder"),
        (["predict", "nowhere"], 3, "give texts, or --file"),
        (["predict", "RUN", "-"], 3, "standard input is empty"),
        (["predict", "RUN", ""], 4, "text 1 is empty"),
        (["predict", "RUN", "a", "--precision", "fp8"], 3, "known: auto, bf16"),
        (["evaluate", "RUN", "--drop", "leaked"], 3, "only unlabelled and empty rows"),
        (["show", "MODEL", "--recipe"], 6, "is not a run, so it has no recipe"),
        (["show", "no/run"], 5, "there is no such folder here"),
        (["evaluate", "nowhere"], 5, "nowhere: no such folder"),
        (["fit"], 2, "Missing argument"),
    ],
)
def test_a_failure_is_a_sentence_and_an_exit_code_never_a_traceback(
    words, code, said, encoder, files, run, tmp_path, monkeypatch, capsys
):
    stands_for = {"TRAIN": files["train"], "MODEL": encoder, "RUN": str(run.folder)}
    monkeypatch.setattr(sys, "argv", ["warmstart", *(stands_for.get(word, word) for word in words)])
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main()
    told = capsys.readouterr()
    assert left.value.code == code, told.err
    assert said in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_a_fault_of_ours_is_called_one(monkeypatch, capsys):
    def broken():
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("warmstart.cli.main.app", broken)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 70
    assert "This is a bug in warmstart" in capsys.readouterr().err


def test_many_findings_of_one_kind_are_summed_up(encoder, tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}{',extra' if n > 9 else ''}\n" for n in range(40)))
    shown = call("fit", path, "--model", encoder, "--extra-columns", "ignore", "--out", tmp_path / "run", *QUICK).output
    assert shown.count("the extra ones are ignored") == 3
    assert "27 more findings of the kind extra-cells" in " ".join(shown.split())


def test_a_file_beside_a_run_is_read_as_the_runs_own_were(encoder, tmp_path):
    """Such as tabs in files that are named .csv, rows without a header, columns by number."""
    for name, count in (("train.csv", 30), ("test.csv", 8)):
        rows = "".join(f"x\t{n % 2}\ttext {name} {n}\n" for n in range(count))
        (tmp_path / name).write_text(rows)
    words = ["--format", "tsv", "--no-header", "--text", "3", "--label", "2", "--out", tmp_path / "run", "--json"]
    told = call("fit", tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--model", encoder, *words, *QUICK)
    again = call("evaluate", tmp_path / "run", tmp_path / "test.csv", "--json")
    assert json.loads(again.stdout)["metrics"] == json.loads(told.stdout.splitlines()[-1])["metrics"]["test"]
    (tmp_path / "more.jsonl").write_text('{"text": "other", "label": "1"}\n')
    other = ["--header", "--text", "text", "--label", "label", "--json"]
    assert (
        json.loads(call("evaluate", tmp_path / "run", tmp_path / "more.jsonl", *other).stdout)["metrics"]["rows"] == 1
    )


@pytest.mark.parametrize(
    ("words", "here"),
    [
        (["train", "a.csv"], "No such command 'train'; it is called fit here"),
        (["fit", "a.csv", "--num_train_epochs", "3"], "it is called --epochs here"),
        (["fit", "a.csv", "--lr-scheduler-type=cosine"], "it is called --set training.lr_schedule=… here"),
        (["fit", "a.csv", "--fp16"], "it is called --precision fp16 here"),
        (["fit", "a.csv", "--output_dir", "x"], "it is called --out here"),
        (["fit", "a.csv", "--layers.lr_decay", "0.9"], "it is called --set layers.lr_decay=… here"),
        (["predict", "run", "a", "--threshold", "0.5"], "it is called --min-confidence here"),
        (["serve", "run", "--max-batch-size", "8"], "it is called --batch-size here"),
        (["sweep", "a.yaml", "--n-trials", "3"], "it is called --trials here"),
        (["features", "a.csv", "--max-length", "64"], "it is called --max-tokens here"),
        (["fit", "a.csv", "--seedz", "1"], "No such option: --seedz"),
    ],
)
def test_an_option_from_elsewhere_is_answered_with_its_name_here(words, here):
    result = call(*words, ok=False)
    assert result.exit_code == 2
    assert here in " ".join(result.output.replace("│", " ").split())


def test_every_synonym_of_an_option_is_for_an_option_that_a_verb_has():
    ours = {verb: {option for parameter in load_verb(verb).params for option in parameter.opts} for verb in VERBS}
    for option, names in synonyms.OPTIONS.items():
        verbs = [verb for verb, options in ours.items() if option in options]
        assert verbs, option
        # A name that a verb has itself would never be answered.
        taken = {f"--{name.replace('_', '-')}" for name in names.split()}
        assert any(not taken & ours[verb] for verb in verbs), option


def test_verbs_from_elsewhere_are_not_ours():
    assert not set(synonyms.VERBS) & set(VERBS)
    assert set(synonyms.VERBS.values()) <= {*VERBS, "--version", "--help"}


def test_the_version():
    assert call("--version").output == f"warmstart {warmstart.__version__}\n"
