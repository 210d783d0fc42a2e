"""A small sample of each benchmark runs, and ends with its line of JSON."""

import argparse
import dataclasses
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from small import FAST

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


def test_overhead_ends_with_its_ratio(sample):
    figures = sample("overhead", 1, WARMSTART_BENCH_ROUNDS="1")
    assert figures["steps"] == 1
    assert figures["ratio"] > 0


@pytest.mark.slow
def test_flushes_are_counted_on_disk_and_in_memory(sample):
    figures = sample("flushes", 2, WARMSTART_BENCH_TINY="1", WARMSTART_BENCH_ROUNDS="1")
    jobs = [figures[place][job] for place in ("disk", "memory") for job in ("fit", "labelling")]
    assert all(one["flushes"] > 0 and one["ratio"] >= 1 for one in jobs)


def test_training_speed_ends_with_its_ratios(sample):
    figures = sample("train", 40, WARMSTART_BENCH_TINY="1")
    assert figures["imdb"]["rows"] == 32
    assert all(figures[name] > 0 for name in ("ratio_plain", "ratio_bare", "ratio_default"))
    assert figures["frozen_half"].keys() == {"computed", "cached"}
    assert len(figures["imdb"]["pieces"]) == 3


@pytest.mark.slow
def test_where_a_step_goes_adds_up(sample):
    steps = sample("step", 1, WARMSTART_BENCH_TINY="1")["steps"]
    assert {one["threads"] for one in steps} == {1, 2}
    assert all(abs(sum(one[name].values()) - 1) < 0.01 for one in steps for name in ("shares", "shares_ours"))


@pytest.mark.slow
def test_what_else_was_tried_for_a_step_ends_with_ratios(sample):
    figures = sample("step_pieces", 1, WARMSTART_BENCH_TINY="1")["32"]
    assert len(figures) == 8
    assert all(one > 0 for one in figures.values())


def test_spans_go_to_pieces_and_back(sample):
    figures = sample("round_trips", 2, WARMSTART_BENCH_TINY="1")
    assert len(figures) == 6
    assert all(one["exact"] == one["spans"] == 5 for name, one in figures.items() if "character" in name)


@pytest.mark.slow
def test_features_end_with_memory_and_ratio(sample):
    figures = sample("features", 40, WARMSTART_BENCH_TINY="1")
    assert figures["ratio_bare"] > 0
    assert figures["mb_40"] >= figures["mb_4"] > 0


@pytest.mark.slow
def test_answers_are_measured_beside_the_engine(sample):
    figures = sample("predict", 80, WARMSTART_BENCH_TINY="1")
    assert figures["bf16_of_bare"] > 0
    assert figures["fp32_of_pipeline"] > 0
    assert 0 < figures["auto_share"] <= 1
    assert figures["mb_1600"] > 0


def test_thresholds_of_each_label_are_measured(sample):
    ways = sample("thresholds", 60, WARMSTART_BENCH_TINY="1")["ways"]
    dev = {way: figures["dev"] for way, figures in ways.items()}  # by which thresholds are chosen
    assert dev["chosen for F1"]["macro_f1"] > dev["0.5 for every label"]["macro_f1"]
    assert all(dev["chosen for F1"]["macro_f1"] >= way["macro_f1"] for way in dev.values())
    assert dev["chosen for precision 0.9"]["precision"] >= 0.9
    assert dev["chosen for recall 0.9"]["recall"] >= 0.9


@pytest.fixture
def craft(monkeypatch, tmp_path, encoder, files):
    """`craft.py` with the tiny encoder and data, and two variants of which the recipe refuses one."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import craft

    training = {**FAST["training"], "epochs": 1}
    recipe = {"model": encoder, "data.train": files["train"], "data.test": files["test"], "training": training}
    monkeypatch.setattr(craft, "recipe_of", lambda *_: recipe)
    monkeypatch.setattr(craft, "CACHE", tmp_path)
    variants = {"plain": craft.Variant(), "longer": craft.Variant({"training.epochs": 2})}
    monkeypatch.setattr(craft, "VARIANTS", {"rt": {**variants, "cosine": craft.Variant({"no.such": 1})}})
    monkeypatch.setattr(craft, "SETS", {"rt": craft.SETS["rt"]})
    return craft


@pytest.mark.slow
def test_the_craft_is_measured_by_pieces_and_told_on_one_page(craft, capsys):
    asked = argparse.Namespace(sets="rt", variants="plain,longer,cosine", model="minilm", n=2)
    craft.train(asked)
    assert "skipped: variant cosine: no is not an option" in capsys.readouterr().out
    found = craft.tables()
    assert [(row.variant, row.seed) for row in found["rt-minilm"]] == [
        ("plain", 0), ("plain", 1), ("longer", 0), ("longer", 1)
    ]  # fmt: skip
    page = craft.page(found)
    assert "Runs: 4." in page
    assert "| longer | " in page
    assert "| plain | " in page


def test_every_variant_of_the_craft_has_its_reference(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import craft

    for variants in craft.VARIANTS.values():
        first = next(iter(variants))
        for name, variant in variants.items():
            assert name == first or variant.reference in variants


@pytest.mark.slow
def test_memory_of_long_texts_ends_with_its_ratio(sample):
    figures = sample("long", 4, WARMSTART_BENCH_TINY="1")
    assert figures["windows_long"] > 10 * figures["windows_short"]
    assert figures["right_short"] == figures["right_long"] == 4
    assert 0 < figures["ratio"] < 1.5


def test_forgetting_is_measured_by_rate_and_told_on_one_page(monkeypatch, tmp_path, encoder, files):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import forgetting
    from warmstart.experiments.repeat import repeat

    recipe = {"model": encoder, "data.train": files["train"], "data.dev": files["test"], "data.split.test": 0}
    recipe |= {"training.max_steps": 12, "forgetting.text": files["train"], "forgetting.rows": 8}
    recipe |= {"forgetting.every_steps": 6}
    monkeypatch.setattr(forgetting, "RATES", (1e-4, 1e-3))
    repeat(recipe, {f"{rate:g}": {"training.learning_rate": rate} for rate in forgetting.RATES}, [0], tmp_path / "runs")
    found = forgetting.curves(tmp_path / "runs")
    steps, errors = forgetting.series(found[1e-4], "test error, %")
    assert steps == [0, 6, 12]
    assert all(0 <= one <= 100 for one in errors)
    forgetting.picture(found, tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text("utf-8")
    page = forgetting.page(found)
    assert "| before | " in page
    assert "| 0.001 | " in page


@pytest.mark.slow
def test_plans_end_with_their_worst_error(sample):
    figures = sample("plan", 4, WARMSTART_BENCH_TINY="1")
    assert figures["rt"]["steps"] == 4
    assert figures["worst_error"] >= abs(figures["rt"]["error"]["gb"])


@pytest.mark.slow
def test_a_corpus_ten_times_as_large_takes_no_more_memory(sample):
    figures = sample("corpus", 300)
    assert figures["mb_corpus"][1] > 8 * figures["mb_corpus"][0]
    assert figures["ratio_own"] < 1.3


def test_an_encoder_from_scratch_ends_with_its_loss_and_entropy(sample):
    figures = sample("scratch", 4, WARMSTART_BENCH_TINY="1")
    assert figures["steps"] == 4
    assert figures["entropy"] > 0
    assert 0 <= figures["nsp_accuracy"] <= 1


def test_a_diagnosis_ends_with_how_right_it_is(sample):
    figures = sample("diagnosis", 100, WARMSTART_BENCH_TINY="1")
    assert figures["label_errors"]["flipped"] == 5
    assert 0 <= figures["label_errors"]["precision_at_flipped"] <= 1
    assert figures["calibration"]["accuracy_before"] == figures["calibration"]["accuracy_after"]
    assert figures["calibration"]["ece_after"] <= 1


def test_a_task_is_measured_beside_its_peer_and_told_on_one_page(monkeypatch, tmp_path, encoder):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import kept
    import tasks

    sentences = ["bob B-PER\nis O\nin O\nparis B-LOC\n", "paris B-LOC\nis O\ngood O\n", "bob B-PER\nis O\nboring O\n"]
    file = tmp_path / "some.conll"
    file.write_text("\n".join(sentences * 4))
    data = {"data.train": str(file), "data.test": str(file), "data.format": "conll"}
    one = dataclasses.replace(tasks.SETS["wnut17"], files=lambda size: data, recipe={"training.epochs": 1})
    monkeypatch.setattr(tasks, "SETS", {"some": one})
    monkeypatch.setattr(tasks, "folder_of", lambda model: str(encoder))
    monkeypatch.setattr(tasks, "CACHE", tmp_path)
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    here = SimpleNamespace(run=lambda command, check: tasks.peer(command[-1]))
    monkeypatch.setattr(tasks, "subprocess", here)
    tasks.train("some", "part", 2)
    found = tasks.found("some", "part")
    assert [seed for seed, *_ in found] == [0, 1]
    assert all(0 <= side["f1"] <= 1 for _, *sides in found for side in sides)
    assert "| WNUT-17 | tag | e5-small | f1 | " in tasks.page({("some", "part"): found})


def test_kept_figures_are_those_of_the_runs_and_of_the_settings_asked_for(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import kept

    monkeypatch.setattr(kept, "FOLDER", tmp_path / "figures")
    run = {"part": "test", "metrics": {"test": {"f1": 0.5}}, "headline": "f1", "steps": 3, "seconds": 1.5, "failed": ""}
    rows = [
        kept.KeptResult("plain", seed, Path("a"), **run, value=0.5, of=("a.csv:2", "a.csv:3"), quality=(1, 0.25))
        for seed in (1, 0)
    ]
    asked = {"plain": kept.settings({"model": "/one/place/minilm", "rate": 1e-4})}
    for row in rows:
        kept.keep_rows("some", [row], asked)

    # Another checkout has the same settings; another rate has not.
    found = kept.read_rows("some", {"plain": kept.settings({"model": "/other/minilm", "rate": 1e-4})})
    assert [(row.seed, row.value, row.row_names) for row in found] == [
        (seed, 0.5, ["a.csv:2", "a.csv:3"]) for seed in (0, 1)
    ]
    assert [row.scores.tolist() for row in found] == [[1, 0.25]] * 2
    assert not kept.read_rows("some", {"plain": kept.settings({"model": "/other/minilm", "rate": 2e-4})})

    other = kept.KeptResult("plain", 2, Path("a"), **run, value=0.5, of=("b.csv:2",), quality=(1,))
    with pytest.raises(SystemExit, match="other test rows"):
        kept.keep_rows("some", [other], asked)


@pytest.mark.slow
@pytest.mark.real
def test_heads_attention_and_probes_are_measured(sample, monkeypatch):
    monkeypatch.setenv("WARMSTART_BENCH_TINY", "1")
    assert sample("heads", 1, "--sets", "trec", "--rows", "10", "--remove", "1")["trec"]["heads"] == 12
    assert len(sample("attention", 2)["rt-polarity"]["after"]) == 3
    assert len(sample("probes", 60)["TREC question type"]) == 4


@pytest.mark.slow
@pytest.mark.real
def test_ways_of_asking_and_smaller_models_are_measured(sample, monkeypatch):
    monkeypatch.setenv("WARMSTART_BENCH_TINY", "1")
    subprocess.run([sys.executable, ROOT / "studies" / "prepare.py", "trec"], check=True)
    assert sample("ask", 2, "--sets", "trec")["margin"]["ratio"] > 0
    points = sample("shrink", 1, "--sets", "trec")["trec"]
    assert [point["blocks"] for point in points] == [3, 2, 1]


@pytest.mark.slow
def test_long_documents_take_no_more_memory_in_a_recurrent_model(sample):
    figures = sample("long_recurrent", 3000, WARMSTART_BENCH_TINY="1")
    assert figures["ratio"] < figures["mark"]


@pytest.mark.real
def test_a_recurrent_language_model_ends_with_its_perplexity(sample):
    figures = sample("ulmfit_lm", 1, WARMSTART_BENCH_TINY="1")
    assert 1 < figures["warmstart"]["valid"] < 2000


@pytest.mark.slow
@pytest.mark.real
def test_the_stages_of_ulmfit_end_with_their_scores(sample):
    asked = ("--sets", "trec-100", "--variants", "from nothing,ULMFiT")
    figures = sample("ulmfit", 1, *asked, WARMSTART_BENCH_TINY="1")
    assert all(0 < figures["trec-100"][name] < 1 for name in ("from nothing", "ULMFiT"))


@pytest.mark.real
def test_students_end_with_their_scores(sample):
    figures = sample("distil", 1, "--sets", "banking77", "--teachers", "e5-small", WARMSTART_BENCH_TINY="1")
    assert len(figures) == 3
    for one in figures.values():
        assert set(one) == {"teacher", "without", "with", "over without", "over teacher"}
        assert all(one[who]["rows_per_second"] > 0 for who in ("teacher", "without", "with"))


@pytest.mark.slow
@pytest.mark.real
def test_students_of_a_ranking_bi_encoder_end_with_their_scores(sample):
    asked = ("--sets", "wikiqa", "--teachers", "e5-small", "--students", "minilm,own-3")
    figures = sample("distil", 1, *asked, WARMSTART_BENCH_TINY="1")
    assert len(figures) == 2
    for one in figures.values():
        assert all(0 < one[who]["score"] <= 1 for who in ("teacher", "without", "with"))


def test_soft_and_hard_labels_are_compared_with_the_truth(sample):
    figures = sample("soft", 1, "--sets", "sst5", "--votes", "3", WARMSTART_BENCH_TINY="1")
    (one,) = figures.values()
    assert 0 < one["split"] < 1
    for way in ("soft", "hard"):
        assert set(one[way]) == {"accuracy", "ece", "brier", "kl"}
