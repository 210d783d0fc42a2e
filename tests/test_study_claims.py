"""Claims of a study: what becomes of each, from figures paired by seed and by test row."""

import pytest

from warmstart.errors import RecipeError
from warmstart.recipe.study import Study
from warmstart.studies.cells import Cell
from warmstart.studies.chart import curves, plot_curves
from warmstart.studies.claims import judge
from warmstart.studies.figures import KeptResult
from warmstart.studies.page import write_study_page

WHOLE = {
    "title": "Ends and beginnings",
    "subject": "head",
    "source": "Somebody 2019, table 2",
    "sets": {"films": {"train": "a.csv", "test": "b.csv", "sizes": ["few", "many"]}},
    "sizes": {"few": {"rows": 10}, "many": {"rows": 100}},
    "methods": {"head": {}, "tail": {}, "noise": {}},
}
FEW, MANY = Cell("films", "few"), Cell("films", "many")


def study(**more):
    return Study.check({**WHOLE, **more}, "study.yaml")


def result(method, seed, right, failed=""):
    """A run that has so many of 200 test rows right, other ones with each seed."""
    quality = tuple(float((7 * row + seed) % 200 < right) for row in range(200))
    names = tuple(map(str, range(200)))
    return KeptResult(
        method, seed, None, "test", {}, "accuracy", right / 200, 9, 1.0, failed, of=names, quality=quality
    )


RESULTS = {
    FEW: [
        *(result("head", seed, right) for seed, right in enumerate((100, 104, 102, 103))),
        *(result("tail", seed, right) for seed, right in enumerate((140, 146, 144, 143))),
        *(result("noise", seed, right, "one label") for seed, right in enumerate((90, 118, 104, 98))),
    ],
    MANY: [
        *(result("head", seed, right) for seed, right in enumerate((120, 124, 122))),
        *(result("tail", seed, right) for seed, right in enumerate((150, 156, 155))),
    ],
}


def words(*claims):
    return [one.word for one in judge(study(claims=[{"says": "so it is", **claim} for claim in claims]), RESULTS)]


def test_a_claim_holds_is_contradicted_does_not_show_or_is_not_measured():
    assert words(
        {"ahead": "tail", "of": ["head"]},
        {"ahead": "head", "of": ["tail"]},
        {"ahead": "noise", "of": ["head"]},
        {"ahead": "noise", "of": ["head"], "sizes": ["many"]},
    ) == ["holds", "contradicted", "does not show", "not measured"]


def test_a_claim_about_several_methods_needs_all_of_them():
    assert words({"ahead": "tail", "of": ["head", "noise"], "sizes": ["few"]}) == ["holds"]
    assert words({"ahead": "head", "of": ["noise", "tail"], "sizes": ["few"]}) == ["contradicted"]
    assert words({"ahead": "tail", "of": ["head", "noise"], "sizes": ["many"]}) == ["not measured"]


def test_methods_are_level_where_both_intervals_lie_within_the_points():
    assert words({"ahead": "tail", "of": ["head"], "within": 30.0}) == ["holds"]
    assert words({"ahead": "tail", "of": ["head"], "within": 5.0}) == ["contradicted"]
    assert words({"ahead": "noise", "of": ["head"], "within": 2.0}) == ["does not show"]


def test_runs_that_failed_are_compared_by_their_share():
    assert words({"ahead": "head", "of": ["noise"], "measure": "failed", "sizes": ["few"]}) == ["holds"]
    assert words({"ahead": "head", "of": ["tail"], "measure": "failed"}) == ["does not show"]


def test_chance_is_not_taken_for_a_finding_where_there_are_many_claims():
    one = {"ahead": "tail", "of": ["head"], "sizes": ["many"]}
    (alone,) = judge(study(claims=[{"says": "s", **one}]), RESULTS)
    among = judge(
        study(claims=[{"says": "s", **one}, *({"says": "s", "ahead": "noise", "of": ["head"]},) * 9]), RESULTS
    )
    p_alone, p_among = (float(text.details.rpartition("p ")[2].rstrip(")")) for text in (alone, among[0]))
    assert p_among >= 5 * p_alone


def test_the_page_has_claims_published_figures_and_what_the_original_would_cost(tmp_path):
    made = study(
        claims=[{"says": "The end is better", "ahead": "tail", "of": ["head"]}],
        published=[{"source": "Somebody 2019, table 2", "of": "error, %", "figures": {"head": 5.63, "tail": 5.44}}],
        unlike="A smaller encoder.",
        full_size={"trainings": 2, "steps": 100, "batch_size": 8, "max_tokens": 64, "shape": {"num_layers": 2}},
        curve={"label": "training rows", "points": {"few": 10, "many": 100}},
    )
    write_study_page(made, tmp_path, RESULTS, tmp_path / "page.md", "warmstart study films")
    text = (tmp_path / "page.md").read_text()
    assert "| The end is better | **holds** | tail is 18.2 points ahead of head (" in text
    assert "| tail | 5.44 | 71.6 ± 2.0 (4) | 76.8" in text
    assert "**Unlike the source:** A smaller encoder." in text
    assert "--max-steps 100 --batch-size 8 --max-tokens 64 --shape vocab_size=1000,num_layers=2" in text
    assert "![Scores over training rows](page.svg)" in text
    assert (tmp_path / "page.svg").read_text().count("<svg") == 1


def test_a_page_can_be_written_before_anything_is_measured(tmp_path):
    made = study(claims=[{"says": "The end is better", "ahead": "tail", "of": ["head"]}])
    write_study_page(made, tmp_path, {}, tmp_path / "page.md", "warmstart study films")
    text = (tmp_path / "page.md").read_text()
    assert "**not measured**" in text
    assert "Nothing is measured yet." in text
    assert not (tmp_path / "page.svg").exists()


def test_a_curve_has_a_line_for_each_method_or_for_each_name_of_its_own(tmp_path):
    by_size = study(curve={"label": "rows", "points": {"few": 10, "many": 100}})
    lines = curves(by_size, by_size.curve, RESULTS)
    assert {name: sorted(points) for name, points in lines.items()} == {
        "head": [10, 100],
        "tail": [10, 100],
        "noise": [10],
    }
    points = {"head": 0, "tail": 1, "noise": 2}
    by_method = study(curve={"label": "steps", "points": points, "lines": {"noise": "noisy"}})
    lines = curves(by_method, by_method.curve, {FEW: RESULTS[FEW]})
    assert {name: sorted(points) for name, points in lines.items()} == {"films": [0, 1], "noisy": [2]}
    plot_curves(lines, by_method.curve, tmp_path / "curve.svg")
    assert "noisy" in (tmp_path / "curve.svg").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"claims": [{"says": "s", "ahead": "tial", "of": ["head"]}]},
            "claims.1: tial is not known; did you mean 'tail'",
        ),
        ({"published": [{"source": "X", "of": "y", "figures": {"heads": 1}}]}, "published, X: heads is not known"),
        ({"curve": {"label": "rows", "points": {"fewer": 3}}}, "curve.points: fewer is not known"),
        ({"sizes": {"few": {"rows": 10, "fixed": True}, "many": {}}}, "fixed: the file has the rows"),
    ],
)
def test_names_that_a_study_does_not_have_are_refused(more, message):
    with pytest.raises(RecipeError, match=message):
        study(**more)
