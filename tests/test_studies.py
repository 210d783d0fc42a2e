"""Studies: methods on the same rows, figures that are kept, and a page that says how far each is behind."""

import csv
import dataclasses
import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warmstart.cli.main import app
from warmstart.errors import RecipeError, RunError
from warmstart.recipe.study import StudySize, load_study
from warmstart.studies.cells import Cell, StudyPart, cells, measurements
from warmstart.studies.draws import draw
from warmstart.studies.figures import FigureFile, KeptResult
from warmstart.studies.measure import StudyRunner
from warmstart.studies.page import summary, write_study_page
from warmstart.studies.regret import ahead_of, behind, cell_means, mean_regret, worst_cell

RANKED = """
title: Ranked
subject: defaults
data: data
recipe: {task: rank, window.max_tokens: 16}
sets: {letters: {train: train.csv, test: test.csv, task: rank, sizes: [few]}}
sizes: {few: {queries: 3, seeds: 1}}
methods: {defaults: {}}
peers: {given: {script: given.py, tasks: [rank]}}
"""
GIVEN = """
import csv, json, sys
job = json.load(open(sys.argv[1]))
train, test = (list(csv.DictReader(open(job[part]))) for part in ("train", "test"))
assert job["task"] == "rank" and len(train) == 9
answers = [float(row["label"]) for row in test]
json.dump({"answers": answers, "seconds": 0.5, "cpu_seconds": 0.5}, open(job["out"], "w"))
"""
PEER = """
import csv, json, sys
job = json.load(open(sys.argv[1]))
train = list(csv.DictReader(open(job["train"])))
test = list(csv.DictReader(open(job["test"])))
assert job["task"] == "classify" and job["max_tokens"] == 16
words = {word: row["label"] for row in train for word in row["text"].split()}
answers = [next((words[word] for word in row["text"].split() if word in words), "good") for row in test]
json.dump({"answers": answers, "seconds": 0.5, "cpu_seconds": 0.25}, open(job["out"], "w"))
"""
STUDY = """
title: Ours and a peer
subject: quick
data: data
recipe: {window.max_tokens: 16}
sets:
  films: {train: train.csv, test: test.csv, sizes: [few, all], finding: true}
  more: {train: train.csv, test: test.csv, sizes: [few]}
sizes:
  few: {per_label: 2, seeds: 2}
  all: {seeds: 1}
methods:
  quick: {recipe: {layers.freeze: encoder, head.init: linear-probe}}
peers:
  words: {script: words.py, sizes: [few]}
"""


def rows(count):
    words = {"good": ("fine", "lovely", "warm"), "bad": ("dull", "flat", "cold")}
    return [
        {"text": f"a {words[label][number % 3]} film number {number}", "label": label}
        for number in range(count)
        for label in words
    ]


@pytest.fixture
def study(tmp_path):
    folder = tmp_path / "studies" / "own"
    (folder / "data").mkdir(parents=True)
    (folder / "study.yaml").write_text(STUDY)
    (folder / "words.py").write_text(PEER)
    for name, count in (("train", 6), ("test", 4)):
        with (folder / "data" / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            writer.writerows(rows(count))
    return folder


def runner(folder, encoder):
    return StudyRunner(load_study(folder)[0], folder, str(encoder), folder / "work")


def test_a_draw_has_so_many_rows_of_each_label_and_a_larger_one_contains_it():
    every = rows(20)
    few, more = (draw(every, StudySize(per_label=count), 3) for count in (2, 5))
    assert sorted(row["label"] for row in few) == ["bad", "bad", "good", "good"]
    assert [row for row in more if row in few] == few
    assert few != draw(every, StudySize(per_label=2), 4)
    uneven = draw(every, StudySize(per_label=2, of_label={"bad": 5}), 3)
    assert Counter(row["label"] for row in uneven) == {"good": 2, "bad": 5}
    assert [row for row in uneven if row in few] == few
    with pytest.raises(ValueError, match="of_label: it is beside per_label"):
        StudySize(of_label={"bad": 5})
    assert len(draw(every, StudySize(per_label=8, rows=10), 0)) == 10
    assert sorted(row["text"] for row in draw(every, StudySize(), 0)) == sorted(row["text"] for row in every)


def test_a_label_that_a_draw_would_leave_out_has_a_row_where_that_is_asked_for():
    rows = [{"text": str(number), "label": "rare" if number == 7 else "often"} for number in range(40)]
    seed = next(seed for seed in range(9) if rows[7] not in draw(rows, StudySize(rows=5), seed))
    plain, whole = (draw(rows, StudySize(rows=5, every_label=every), seed) for every in (False, True))
    assert whole == [*plain, rows[7]]
    with pytest.raises(ValueError, match="every_label: it is beside rows"):
        StudySize(every_label=True)


def test_measurements_are_all_methods_of_a_seed_before_the_next_seed(study):
    found = measurements(load_study(study)[0], StudyPart())
    assert [(one.cell.name, one.method, one.seed) for one in found] == [
        ("films-few", "quick", 0),
        ("films-few", "words", 0),
        ("films-all", "quick", 0),
        ("more-few", "quick", 0),
        ("more-few", "words", 0),
        ("films-few", "quick", 1),
        ("films-few", "words", 1),
        ("more-few", "quick", 1),
        ("more-few", "words", 1),
    ]
    assert cells(load_study(study)[0], StudyPart(sets=("more",))) == [Cell("more", "few")]
    with pytest.raises(RecipeError, match=r"--methods word: the study has no such; did you mean 'words'\?"):
        measurements(load_study(study)[0], StudyPart(methods=("word",)))


def test_both_texts_of_pairs_are_read(study, encoder):
    path = study / "study.yaml"
    path.write_text(path.read_text().replace("sizes: [few, all], finding: true", "sizes: [few, all], pairs: true"))
    made = runner(study, encoder)
    recipes = {one.cell.set: made.recipe(one) for one in measurements(made.study, StudyPart())}
    assert recipes["films"].data.columns == {"pair": "pair"}
    assert recipes["more"].data.columns == {}


def test_a_method_from_scratch_has_an_encoder_of_its_own(study, encoder):
    path = study / "study.yaml"
    small = "{num_layers: 1, hidden_size: 16, num_heads: 2, vocab_size: 300, max_tokens: 32}"
    stage = "{pretrain: {corpus: within-task, max_tokens: 16, steps: 1, hold_out: 0}}"
    method = f"  scratch: {{recipe: {{from_scratch: {small}, stages: [{stage}], training.max_steps: 2}}}}\n"
    path.write_text(path.read_text().replace("peers:\n", f"{method}peers:\n"))
    made = runner(study, encoder)
    part = StudyPart(sets=("films",), sizes=("all",))
    models = {one.method: made.recipe(one).model for one in measurements(made.study, part)}
    assert models == {"quick": str(encoder), "scratch": ""}
    made.run(part)
    assert not made.errors
    assert {one.variant for one in made.results(part)[Cell("films", "all")]} == {"quick", "scratch"}
    config = shutil.copytree(encoder, study / "other") / "config.json"
    config.write_text(f"{config.read_text()}\n")
    other = runner(study, study / "other")
    kept = {one.method: other._key(one) == made._key(one) for one in measurements(made.study, part)}
    assert kept == {"quick": False, "scratch": True}


def test_every_combination_of_the_axes_is_a_method(study):
    text = (study / "study.yaml").read_text()
    (study / "study.yaml").write_text(f"{text}\naxes: {{training.epochs: [1, 2], head.type: [linear]}}\n")
    methods = load_study(study)[0].all_methods()
    assert list(methods) == ["quick", "epochs 1, type linear", "epochs 2, type linear"]
    assert methods["epochs 2, type linear"].recipe == {"training.epochs": 2, "head.type": "linear"}


def test_methods_with_commas_in_their_names_can_be_chosen(study):
    text = (study / "study.yaml").read_text()
    (study / "study.yaml").write_text(f"{text}\naxes: {{training.epochs: [1, 2], head.type: [linear]}}\n")
    asked = ["study", str(study), "--model", "none", "--no-train", "--methods"]
    known = CliRunner().invoke(app, [*asked, "words, epochs 2, type linear,quick"])
    assert known.exit_code == 0, known.output
    unknown = CliRunner().invoke(app, [*asked, "words,epochs 3, type linear"])
    assert str(unknown.exception).startswith("--methods epochs 3: the study has no such")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("subject: quick", "subject: quik", "subject: quik is not known; did you mean 'quick'"),
        ("sizes: [few]}\nsizes", "sizes: [fewer]}\nsizes", "sets.more.sizes: fewer is not known"),
        ("  words: {", "  quick: {", "quick is a method and a peer"),
    ],
)
def test_names_that_the_study_does_not_have_are_refused(study, old, new, message):
    path = study / "study.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(RecipeError, match=message):
        load_study(study)


def test_a_study_is_measured_once_kept_and_written_into_a_page(study, encoder, monkeypatch):
    one = runner(study, encoder)
    one.run(StudyPart())
    assert not one.errors
    found = one.results(StudyPart())
    assert {cell.name: len(rows) for cell, rows in found.items()} == {"films-few": 4, "films-all": 1, "more-few": 4}
    words = [row for row in found[Cell("films", "few")] if row.variant == "words"]
    assert (words[0].seconds, words[0].cpu_seconds, words[0].headline) == (0.5, 0.2, "accuracy")
    assert words[0].value == sum(words[0].scores) / 8

    monkeypatch.setattr(StudyRunner, "_measure", lambda self, one: pytest.fail(f"{one.name} is measured again"))
    again = runner(study, encoder)
    again.run(StudyPart())
    assert again.results(StudyPart()).keys() == found.keys()

    page = study / "page.md"
    write_study_page(again.study, study, again.results(StudyPart()), page, "warmstart study own")
    text = page.read_text()
    assert "# Ours and a peer" in text
    assert "## films, few" in text
    assert "regret, sets that rules were found on | regret, sets that were only measured" in text
    assert page.with_suffix(".svg").read_text().count("<svg") == 1
    figures = summary(again.study, again.results(StudyPart()))
    assert figures["cells"] == 2  # one method alone, as of films-all, is behind nothing
    assert figures["regrets"]["quick"] == figures["mean_regret"]


def test_figures_of_other_rows_or_of_another_revision_are_measured_again(study, encoder):
    one = runner(study, encoder)
    part = StudyPart(sets=("more",), methods=("quick",), seeds=1)
    one.run(part)
    (measurement,) = measurements(one.study, part)
    assert one.kept(measurement) is not None
    path = study / "study.yaml"
    path.write_text(path.read_text().replace("quick: {recipe", "quick: {revision: 1, recipe"))
    assert runner(study, encoder).kept(measurement) is None
    path.write_text(path.read_text().replace("revision: 1, ", ""))
    assert runner(study, encoder).kept(measurement) is not None
    path.write_text(path.read_text().replace("max_tokens: 16", "max_tokens: 12"))
    assert runner(study, encoder).kept(measurement) is None


def test_a_peer_that_fails_is_named_and_the_others_are_measured(study, encoder):
    (study / "words.py").write_text("raise SystemExit('no such library')")
    one = runner(study, encoder)
    one.run(StudyPart(sets=("more",), seeds=1))
    assert len(one.errors) == 1
    assert "more-few words seed 0" in one.errors[0]
    assert "no such library" in one.errors[0]
    assert [row.variant for row in one.results(StudyPart())[Cell("more", "few")]] == ["quick"]


def test_runners_at_the_same_time_measure_everything_once(study, encoder):
    log = study / "log.txt"
    slow = f"import time; open({str(log)!r}, 'a').write(sys.argv[1] + chr(10)); time.sleep(0.5)\njson.dump("
    (study / "words.py").write_text(PEER.replace("json.dump(", slow))
    part = StudyPart(methods=("words",))
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(runner(study, encoder).run, part) for _ in range(3)]:
            done.result(timeout=120)
    assert len(log.read_text().splitlines()) == len(set(log.read_text().splitlines())) == 4
    assert sum(map(len, runner(study, encoder).results(part).values())) == 4


def result(method, seed, value):
    return KeptResult(method, seed, None, "test", {}, "accuracy", value, 0, 0.0, "", of=("0",), quality=(value,))


def test_regret_is_what_a_method_is_behind_the_best_of_a_cell():
    first, second = Cell("a", "few"), Cell("b", "few")
    found = {
        first: [result("ours", 0, 0.8), result("ours", 1, 0.6), result("theirs", 0, 0.9), result("theirs", 1, 0.8)],
        # Seed 1 was measured with one method only, so it does not count.
        second: [result("ours", 0, 0.5), result("ours", 1, 0.0), result("theirs", 0, 0.3)],
    }
    means = cell_means(found)
    assert mean_regret(means, "ours") == pytest.approx((0.15 + 0.0) / 2)
    assert mean_regret(means, "theirs") == pytest.approx((0.0 + 0.2) / 2)
    assert worst_cell(means, "ours") == (first, pytest.approx(0.15))
    assert ahead_of(means, "ours", "theirs").mean == pytest.approx((-0.15 + 0.2) / 2)


def test_a_page_of_one_method_says_that_there_is_nothing_to_compare(study):
    page = study / "page.md"
    one = {Cell("films", "few"): [result("quick", 0, 0.8)]}
    write_study_page(load_study(study)[0], study, one, page, "warmstart study own")
    assert "nothing to compare yet" in page.read_text()
    assert not page.with_suffix(".svg").exists()
    assert "svg" not in page.read_text()


def test_a_page_says_what_failed_means_where_a_run_has_failed(study):
    settings, folder = load_study(study)
    page, cell = study / "page.md", Cell("films", "few")
    both = [result("quick", 0, 0.8), result("tfidf", 0, 0.5)]
    write_study_page(settings, folder, {cell: both}, page, "one command")
    assert "failed" not in page.read_text()
    both[1] = dataclasses.replace(both[1], failed="always the same answer")
    write_study_page(settings, folder, {cell: both}, page, "one command")
    assert "50.0 (1, 1 failed)" in page.read_text()
    assert "no better than the same answer for every row" in page.read_text()


def test_a_page_has_the_figures_of_other_encoders_with_the_regret_of_each_method(study):
    settings, folder = load_study(study)
    page, cell, other = study / "page.md", Cell("films", "few"), Cell("films", "all")
    ours = {cell: [result("quick", 0, 0.8), result("words", 0, 0.5)]}
    theirs = {cell: [result("quick", 0, 0.6), result("words", 0, 0.7)], other: [result("quick", 0, 0.9)]}
    write_study_page(settings, folder, ours, page, "one command", {"deep": theirs, "unmeasured": {}})
    table = page.read_text().partition("## With other encoders")[2].splitlines()
    assert table[5:10] == [
        "| encoder | cell | quick | words |",
        "| --- | --- | ---: | ---: |",
        "| deep | films, few | 60.0 (1) | 70.0 (1) |",
        "| deep | films, all | 90.0 (1) | – |",
        "| deep | *mean regret* | 10.0 | 0.0 |",
    ]
    assert "unmeasured" not in page.read_text()
    write_study_page(settings, folder, ours, page, "one command")
    assert "other encoders" not in page.read_text()


def test_a_page_whose_figures_are_the_same_keeps_its_date(study):
    page, (settings, folder) = study / "page.md", load_study(study)
    write_study_page(settings, folder, {}, page, "one command")
    page.write_text(re.sub(r"written on [\d-]+", "written on 2020-01-01", page.read_text()))
    write_study_page(settings, folder, {}, page, "one command")
    assert "written on 2020-01-01" in page.read_text()
    write_study_page(settings.model_copy(update={"about": "Something else."}), folder, {}, page, "one command")
    assert "2020-01-01" not in page.read_text()


def test_a_method_is_behind_where_the_interval_over_seeds_is_below_zero():
    cell = Cell("a", "few")
    ours = [result("ours", seed, value) for seed, value in enumerate((0.70, 0.71, 0.69))]
    theirs = [result("theirs", seed, value) for seed, value in enumerate((0.80, 0.82, 0.78))]
    noisy = [result("noisy", seed, value) for seed, value in enumerate((0.60, 0.95, 0.70))]
    assert behind({cell: [*ours, *theirs, *noisy]}, "ours") == [(cell, "theirs", pytest.approx(0.10))]


def test_kept_figures_are_replaced_by_newer_ones_of_the_same_method_and_seed(tmp_path):
    file = FigureFile(tmp_path / "cell.jsonl")
    file.keep(result("ours", 0, 1.0), "old", 1.0)
    file.keep(result("ours", 0, 0.0), "new", 2.0)
    file.keep(result("ours", 1, 0.25), "other", 3.0)
    assert {key: row.value for key, row in file.read().items()} == {("ours", "new"): 0.0, ("ours", "other"): 0.25}
    (tmp_path / "cell.jsonl").write_text("{")
    with pytest.raises(RunError, match=r"cell\.jsonl:1"):
        file.read()


def kept_lines(folder):
    """Cell and line of every figure."""
    files = sorted((folder / "figures").rglob("*.jsonl"))
    return [(path.stem, line) for path in files for line in path.read_text().splitlines()]


def test_a_study_killed_five_times_loses_and_repeats_nothing(study, encoder):
    log = study / "log.txt"
    slow = f"import time; open({str(log)!r}, 'a').write(sys.argv[1] + chr(10)); time.sleep(0.2)\njson.dump("
    (study / "words.py").write_text(PEER.replace("json.dump(", slow))
    path = study / "study.yaml"
    path.write_text(path.read_text().replace("few: {per_label: 2, seeds: 2}", "few: {per_label: 2, seeds: 5}"))
    part, made = StudyPart(methods=("words",)), runner(study, encoder)
    kept: list[tuple[str, str]] = []
    for kill in range(5):
        child = os.fork()
        if not child:
            os.setsid()
            made.run(part)
            os._exit(0)
        while len(log.read_text().splitlines() if log.exists() else ()) < 2 * kill + 2:
            time.sleep(0.01)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert set(kept) <= set(kept_lines(study)), "a kill lost figures"
        kept = kept_lines(study)
    assert 0 < len(kept) < 10
    begun = log.read_text().splitlines()
    made.run(part)
    done = {(cell, json.loads(line)["key"]) for cell, line in kept}
    assert set(kept) <= set(kept_lines(study))
    assert len(kept_lines(study)) == 10
    jobs = [Path(line).parent for line in log.read_text().splitlines()[len(begun) :]]
    assert [job for job in jobs if (job.parent.name, job.name) in done] == [], "what was kept is measured again"
    assert len(begun) + 10 - len(kept) == len(log.read_text().splitlines())


def test_the_learning_curve_on_ones_own_file_takes_a_few_lines(tmp_path, encoder):
    root = Path(__file__).resolve().parents[1]
    shutil.copytree(root / "studies" / "learning-curves", tmp_path / "studies" / "learning-curves")
    shutil.copytree(root / "studies" / "peers", tmp_path / "studies" / "peers")
    folder = tmp_path / "studies" / "messages"
    folder.mkdir()
    for name in ("messages.csv", "messages_test.csv"):
        shutil.copy(root / "examples" / name, folder / name)
    (folder / "study.yaml").write_text(
        "based_on: ../learning-curves\n"
        "sets: {messages: {train: messages.csv, test: messages_test.csv, sizes: [4%, 10%], "
        "columns: {text: message, label: topic}}}\n"
        "recipe: {window.max_tokens: 16, training.max_steps: 2}\n"
        "full_size: null\n"
    )
    made = runner(folder, encoder)
    part = StudyPart(methods=("plain", "defaults", "tfidf"), seeds=1)
    made.run(part)
    assert not made.errors
    results = made.results(part)
    assert {cell.name: sorted(row.variant for row in rows) for cell, rows in results.items()} == {
        "messages-4%": ["defaults", "plain", "tfidf"],
        "messages-10%": ["defaults", "plain", "tfidf"],
    }
    write_study_page(made.study, folder, results, tmp_path / "page.md", "warmstart study messages")
    text = (tmp_path / "page.md").read_text()
    assert "![Scores over share of the training rows, %](page.svg)" in text
    assert "| plain | 17.26 |" in text


def test_a_study_that_is_based_on_another_has_its_fields_but_for_other_sets(study):
    text = (study / "study.yaml").read_text()
    claims = "claims: [{says: a, ahead: quick, of: [words], sets: [more]}, {says: b, ahead: quick, of: [words]}]"
    (study / "study.yaml").write_text(f"{text}\n{claims}\n")
    own = study.parent / "mine"
    own.mkdir()
    (own / "study.yaml").write_text("based_on: ../own\ntitle: Mine\n")
    made, _ = load_study(own)
    assert (made.title, made.data, made.peers["words"].script) == ("Mine", "../own/data", "../own/words.py")
    assert len(made.claims) == 2
    (own / "study.yaml").write_text("based_on: ../own\nsets: {mine: {train: a.csv, test: b.csv, sizes: [few]}}\n")
    made, _ = load_study(own)
    assert (list(made.sets), made.data, [claim.says for claim in made.claims]) == (["mine"], ".", ["b"])
    (own / "study.yaml").write_text("based_on: ../other\n")
    with pytest.raises(RecipeError, match=r"based_on: there is no .*other/study.yaml"):
        load_study(own)


def test_machines_of_another_precision_keep_figures_of_their_own(tmp_path):
    file = FigureFile(tmp_path / "cell.jsonl")
    file.keep(result("ours", 0, 0.5), "unknown", 1.0)
    file.keep(result("ours", 0, 0.6), "half", 1.0, "bf16")
    file.keep(result("ours", 0, 0.7), "full", 1.0, "fp32")
    file.keep(result("ours", 0, 0.8), "again", 1.0, "fp32")
    assert {key: row.precision for (_, key), row in file.read().items()} == {"half": "bf16", "again": "fp32"}


def test_a_share_has_rows_of_every_label_and_fixed_rows_stay_as_they_are():
    every = [*rows(50), {"text": "rare", "label": "rare"}]
    few = draw(every, StudySize(share=0.1), 0)
    assert sorted(row["label"] for row in few) == ["bad"] * 5 + ["good"] * 5 + ["rare"]
    assert draw(every, StudySize(fixed=True), 7) == every
    assert len(draw(every, StudySize(share=1.0), 0)) == len(every)


def test_a_query_is_drawn_with_all_its_documents():
    every = [{"query": f"q{query}", "document": f"d{place}", "label": "1"} for query in range(9) for place in range(4)]
    few, more = (draw(every, StudySize(queries=count), 0) for count in (2, 5))
    assert set(Counter(row["query"] for row in few).values()) == {4}
    assert len({row["query"] for row in few}) == 2
    assert [row for row in more if row in few] == few
    assert few != draw(every, StudySize(queries=2), 1)
    with pytest.raises(ValueError, match="leave per_label, rows and share out"):
        StudySize(queries=2, rows=3)


def test_a_peer_ranks_documents(study, encoder):
    (study / "study.yaml").write_text(RANKED)
    (study / "given.py").write_text(GIVEN)
    for name in ("train", "test"):
        lines = [f"q{query},d{place},{int(place == query % 3)}\n" for query in range(6) for place in range(3)]
        (study / "data" / f"{name}.csv").write_text("query,document,label\n" + "".join(lines))
    made = runner(study, encoder)
    made.run(StudyPart(methods=("given",)))
    (results,) = made.results(StudyPart(methods=("given",))).values()
    assert [row.value for row in results] == [1.0]
    assert list(results[0].scores) == [1.0] * 6  # a query each, not a document
