"""Objects in a notebook: they show their figures, nothing of a stranger's text is markup, and bars are drawn."""

import shutil
import sys
import types
from html.parser import HTMLParser

import pytest

import warmstart
from tiny import tiny_model
from warmstart.evaluation.comparison import Comparison, VariantSummary
from warmstart.evaluation.statistics import MeanEstimate
from warmstart.experiments.compare_runs import RunComparison
from warmstart.inspection.explanations import Explanation, Explanations, Faithfulness, WordWeight
from warmstart.runtime import notebook_bars, notebook_html

EVIL = "<script>alert('x')</script>"


class Page(HTMLParser):
    """The tags and the text of a piece of HTML, every tag closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(item):
    page = Page(item._repr_html_())
    assert not {"script", "iframe", "img", "link"} & set(page.tags)
    return page.text


def explanation(word="great"):
    words = [WordWeight("text", 0, 1, "a", 0.1), WordWeight("text", 2, 7, word, 0.8)]
    return Explanation("occlusion", {"label": EVIL}, words, Faithfulness(0.5, 0.1, 0.2, 0.3, 0.05, True))


def test_a_run_shows_its_metrics(run):
    value = run.metrics["test"]["accuracy"]
    assert f"{value:.4f}" in shown(run)
    assert "classify with" in shown(run)
    assert f"accuracy {value:.4f} on test" in repr(run)


def test_a_run_that_is_unfinished_or_damaged_is_shown_too(run, tmp_path):
    folder = shutil.copytree(run.folder, tmp_path / EVIL.replace("/", "-"))
    (folder / "metrics.json").write_text("nonsense")
    assert "damaged" in shown(warmstart.Run(folder))
    (folder / "metrics.json").unlink()
    assert "unfinished" in shown(warmstart.Run(folder))
    assert "unfinished" in repr(warmstart.Run(folder))
    (folder / "recipe.yaml").write_text("task: {name: [")
    assert "unfinished" in shown(warmstart.Run(folder))


def test_a_predictor_shows_what_it_answers(run):
    predictor = warmstart.load(run.folder)
    for text in (shown(predictor), repr(predictor)):
        assert "classify" in text
        assert "neg, pos" in text
        assert "torch, fp32" in text


def test_a_comparison_shows_means_and_differences():
    means = [MeanEstimate(0.81, 0.79, 0.83, 3), MeanEstimate(0.84, 0.82, 0.86, 3)]
    summaries = [
        VariantSummary(name, "accuracy", mean, mean, (0, 1, 2), {}, 9.0)
        for name, mean in zip(("plain", EVIL), means, strict=True)
    ]
    estimate = MeanEstimate(0.03, 0.01, 0.05, 3)
    difference = Comparison(EVIL, "plain", estimate, estimate, None, {}, p_corrected=0.02)
    comparison = RunComparison("accuracy", "test", summaries, [difference])
    text = shown(comparison)
    for figure in ("0.8100", "0.8400", "+0.0300", "+0.0100 to +0.0500", "0.0200", EVIL):
        assert figure in text
    assert "is better than plain by 3.0 points" in repr(comparison)


def test_a_layer_map_shows_its_layers():
    layers = warmstart.LayerMap.of(tiny_model("bert"))
    layers.freeze()
    text = shown(layers)
    assert "embeddings" in text
    assert f"{sum(row['parameters'] for row in layers.as_rows()):,} parameters, " in text
    assert repr(layers) == str(layers)


def test_explanations_show_their_words():
    both = Explanations([explanation(), explanation(EVIL)])
    text = shown(both)
    assert "great" in text
    assert text.count(EVIL) == 3
    assert "faithful (p = 0.05)" in text
    assert "great +0.80" in repr(both)
    assert both == [explanation(), explanation(EVIL)], "still a list"


def test_a_table_is_bounded():
    html = notebook_html.table("t", ["n", "text"], [[n, "x" * 10_000] for n in range(1000)])
    assert "960 more rows" in html
    assert len(html) < 20_000


@pytest.fixture
def kernel(monkeypatch):
    """A process that looks like the kernel of a notebook; what it displays is collected."""
    displayed = []
    handle = types.SimpleNamespace(update=displayed.append)
    display = types.ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda html, display_id: displayed.append(html) or handle
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(notebook_bars, "SHORTEST", 0)
    monkeypatch.setattr(notebook_bars, "PAUSE", 0)
    return displayed


def test_bars_are_drawn_in_a_notebook(kernel, capsys):
    progress = notebook_bars.default_progress()
    with progress.bar(EVIL, 4) as bar:
        bar.advance(3, note="loss 0.5")
        bar.advance()
    progress.log("a line")
    assert [html.count('value="3"') for html in kernel] == [1, 0, 0]
    assert "4 / 4" in kernel[-1]
    assert "loss 0.5" in kernel[-1]
    assert all("script" not in Page(html).tags for html in kernel)
    assert capsys.readouterr().out == "a line\n"


def test_elsewhere_nothing_is_shown():
    assert not notebook_bars.in_notebook()
    assert notebook_bars.default_progress() is notebook_bars.silent
