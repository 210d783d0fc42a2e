"""The report: one page that holds what the run's folder tells, and nothing that a stranger's text could do."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

import warmstart
from report_samples import diagnosis, evidence
from warmstart.cli.main import app
from warmstart.report.blocks import clean, thinned, without_folders
from warmstart.report.page import render
from warmstart.report.run_facts import read_facts
from warmstart.report.verdict import verdict, warnings

MOST = 3_000_000
VOID = {"meta", "link", "br", "hr", "img"}


class Reader(HTMLParser):
    """Every tag closed in order; ids, links, headings and what the page would fetch."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.headings, self.tags = [], [], [], [], []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text += " " if tag in {"td", "th"} else ""

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def copy(run, tmp_path):
    """The finished run in a folder of its own."""
    return warmstart.Run(shutil.copytree(run.folder, tmp_path / "reviews"))


@pytest.fixture
def full(copy):
    """A run with evidence and a diagnosis beside it."""
    (copy.folder / "evidence.json").write_text(json.dumps(evidence()), encoding="utf-8")
    (copy.folder / "diagnosis.json").write_text(json.dumps(diagnosis()), encoding="utf-8")
    return copy


def read(path):
    text = path.read_text(encoding="utf-8")
    return text, Reader(text)


def test_a_run_alone_has_its_sections_and_no_others(copy):
    text, page = read(copy.report())
    assert "on 24 test rows (95% interval" in page.text
    assert "one seed, so another training may differ" in page.text
    assert {"scores", "curves", "learning-rates", "data", "recipe", "reproduce", "card"} <= set(page.ids)
    assert not {"evidence", "confusion", "calibration", "slices", "mistakes", "forgetting", "truncation"} & set(
        page.ids
    )
    assert len(text) < MOST


def test_the_page_is_well_formed_and_needs_nothing_from_outside(full):
    _, page = read(full.report())
    assert len(page.ids) == len(set(page.ids))
    assert page.headings[0] == 1
    assert set(page.headings[1:]) == {2}
    fetching = [
        (tag, name, value)
        for tag, attributes in page.tags
        for name, value in attributes.items()
        if name in {"src", "href", "action", "data", "srcset", "poster"}
        and not (value or "").startswith(("#", "data:"))
    ]
    assert fetching == []
    anchors = {
        value[1:]
        for tag, attributes in page.tags
        for name, value in attributes.items()
        if name == "href" and value[0] == "#"
    }
    assert anchors <= set(page.ids)
    used = {
        name
        for _, attributes in page.tags
        for value in attributes.values()
        for name in re.findall(r"url\(#([^)]+)\)", value or "")
    }
    assert used <= set(page.ids)
    assert not any(tag in {"script", "iframe", "object", "form"} for tag, _ in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_charts_are_described_and_tables_are_labelled(full):
    text, page = read(full.report())
    charts = [attributes for tag, attributes in page.tags if tag == "svg"]
    # Variants, baselines, loss, learning rates, reliability, slices, class balance, lengths and map, for a screen
    # and for a phone each.
    assert len(charts) == 2 * 9
    for chart in charts:
        assert chart["role"] == "img"
        assert {chart["aria-labelledby"], chart["aria-describedby"]} <= set(page.ids)
    assert text.count("<table") == text.count("<caption>")
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in page.tags if tag == "th")
    assert not re.search(r'style="[^"]*#[0-9a-f]{6}', text), "every colour is the theme's"


def test_evidence_and_diagnosis_are_shown(full):
    text, page = read(full.report())
    assert page.text.index("Better than plain") < page.text.index("On 24 test rows")
    for section in ("baselines", "evidence", "confusion", "calibration", "slices", "mistakes", "explanations", "task"):
        assert section in page.ids
    assert "plain, seed 2, failed: every answer is 'pos'" in page.text
    assert "80 more rows are not shown" in page.text
    assert len(text) < MOST


def test_pictures_of_the_rows_are_shown_with_their_numbers(full):
    text, page = read(full.report())
    assert "neg 32 50.0% 12 50.0%" in page.text
    assert "the longest has 61, and the model sees 16" in page.text
    assert "15 or more 5 2" in page.text
    assert "120 of 900 test rows" in page.text
    assert "neg 60 4 6.7%" in page.text
    assert re.search(r"majority label \(neg\) accuracy 0\.500 0\.\d+ to 0\.\d+ 24 test rows", page.text)
    assert text.count(">5</text>") >= 1, "the rows of a bin stand on the reliability diagram"


def test_an_explanation_is_shaded_and_says_whether_it_holds(full):
    text, page = read(full.report())
    assert "neg instead of pos, confidence 0.998 (test.csv:12)" in page.text
    assert "Passed the test." in page.text
    assert '<span class="s10">&lt;b&gt;great&lt;/b&gt;</span> <span class="o4">film</span>' in text


def test_a_line_number_is_not_broken(full):
    text, _ = read(full.report())
    assert '<td dir="auto" class="w">train.csv:3</td>' in text


def test_a_strangers_text_stays_text(full):
    text, page = read(full.report())
    assert "<script>alert" not in text
    assert "<script>alert('x')</script>" in page.text
    assert "\x1b" not in text
    assert "مرحبا" in page.text
    assert "more characters)" in page.text


def test_many_labels_are_a_map_and_the_worst_pairs(copy):
    labels = [f"label <{number}> $x$ 東京" for number in range(150)]
    (copy.folder / "diagnosis.json").write_text(json.dumps(diagnosis(labels)), encoding="utf-8")
    text, page = read(copy.report())
    assert "60 labels of 150" in page.text
    assert "Most frequent confusions" in page.text
    assert len(text) < MOST


def test_leaks_and_failures_come_first(copy):
    leak = {"kind": "shared", "severity": "warning", "message": "m", "file": "", "line": 0, "count": 7, "unit": ""}
    about = json.loads((copy.folder / "data.json").read_text())
    (copy.folder / "data.json").write_text(json.dumps({**about, "findings": [leak]}))
    facts = read_facts(copy.folder)
    assert "7 findings of the kind shared, so the score may be too good" in next(warnings(facts))
    page = render(facts)
    assert page.index("may be too good") < page.index(verdict(facts).split(";")[0][:12])


def test_layers_are_trained_from_the_step_of_their_unfreezing(encoder, files, tmp_path):
    training = {"learning_rate": 1e-3, "max_steps": 12, "batch_size": 8, "precision": "fp32"}
    layers = {"unfreeze": "gradual", "unfreeze_every": 3, "lr_decay": 0.5, "freeze": 1}
    run = warmstart.fit(
        model=encoder, train=files["train"], test=files["test"], training=training, layers=layers, out=tmp_path / "run"
    )
    _, page = read(run.report())
    words = page.text.partition("trained from step")[2].split()
    expected = "head 0.001 0 block 2 5.0e-04 3 block 1 2.5e-04 6 block 0 1.3e-04 9 embeddings – never"
    assert words[:18] == expected.split()


def test_the_same_run_gives_the_same_page(full):
    assert render(read_facts(full.folder)) == render(read_facts(full.folder))


def test_no_folder_of_this_machine_is_shown(full, tmp_path):
    text, _ = read(full.report())
    assert str(tmp_path.parent) not in text
    assert full.recipe.model not in text
    assert "/home/someone" not in text
    assert without_folders("see /a/b c.csv and '/x/y.csv:3', or and/or") == "see b c.csv and 'y.csv:3', or and/or"


def test_a_wrong_file_is_named_with_its_key(copy, tmp_path):
    about = diagnosis()
    for key, value in {"rows": "many", "confusion": {"labels": ["a"], "counts": [[1, 2]]}}.items():
        (copy.folder / "diagnosis.json").write_text(json.dumps({**about, key: value}))
        with pytest.raises(warmstart.errors.RunError, match=rf"diagnosis\.json: {key}"):
            copy.report()
    (copy.folder / "diagnosis.json").write_text("nonsense")
    with pytest.raises(warmstart.errors.RunError, match=r"diagnosis\.json: not valid JSON"):
        copy.report()
    (copy.folder / "diagnosis.json").unlink()
    with pytest.raises(warmstart.errors.RunError, match="there is no folder"):
        copy.report(tmp_path / "nowhere" / "page.html")


def test_the_verb(copy, tmp_path):
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(copy.folder), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["bytes"] == out.stat().st_size
    assert not (copy.folder / "report.html").exists()


def test_a_pdf_without_a_browser_says_what_to_install(copy, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(warmstart.errors.MissingExtraError, match="install chromium"):
        CliRunner().invoke(app, ["report", str(copy.folder), "--pdf"], catch_exceptions=False)


def test_cleaning_and_thinning():
    assert clean("a\x00b\nc\ud800") == "a\N{REPLACEMENT CHARACTER}b\nc\N{REPLACEMENT CHARACTER}"
    assert clean("ab\N{ZERO WIDTH JOINER}c", 2) == "ab… (2 more characters)"
    assert thinned(range(1000), 5) == [0, 250, 500, 749, 999]
    assert thinned([1, 2], 5) == [1, 2]
