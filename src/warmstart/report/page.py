"""The report: a run's folder as one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import MissingExtraError, RunError
from warmstart.report import (
    baseline_sections,
    data_sections,
    error_sections,
    origin_sections,
    score_sections,
    training_sections,
)
from warmstart.report.blocks import Section, clean, number
from warmstart.report.model_card import has_model, make_card, write_card
from warmstart.report.run_facts import RunFacts, read_facts
from warmstart.report.svg import style
from warmstart.report.verdict import verdict, warnings
from warmstart.storage.artifacts import disk_errors
from warmstart.storage.files import write_text

if TYPE_CHECKING:
    from jinja2 import Template

FILE = "report.html"
WORDY = 30
"""Characters above which a cell needs a minimum width."""
_WHOLE = re.compile(r"\S{1,40}|\S.{0,99}:(row )?\d+")
"""A cell that is not broken: a word, or a file and line, of which half a number would be another line."""
LONGEST_CODE = 40_000
"""The most characters of a recipe or a card that are shown."""


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a finished run, and its model card, and return the path of the report.

    Args:
        out: Where to write it; `report.html` in the run's folder by default.
    """
    facts = read_facts(folder)
    path = Path(out) if out is not None else facts.run.folder / FILE
    if not path.parent.is_dir():
        raise RunError(f"{path}: there is no folder {path.parent}; make it, or choose another with --out")
    text = render(facts)
    with disk_errors(path.parent):
        write_text(path, text)
        write_card(facts)
    return path


def render(facts: RunFacts) -> str:
    """The page of a run."""
    style()
    template = _template()
    return str(
        template.render(
            facts=facts,
            version=facts.run.versions.get("warmstart", ""),
            verdict=verdict(facts),
            warnings=list(warnings(facts)),
            sections=[section for section in _sections(facts) if section is not None],
            style=(Path(__file__).parent / "page.css").read_text(encoding="utf-8"),
        )
    )


def _sections(facts: RunFacts) -> Iterator[Section | None]:
    """In the order of a reader's questions: how good is it, is that certain, where does it err, how was it made."""
    yield score_sections.scores(facts)
    yield baseline_sections.baselines(facts)
    yield score_sections.evidence(facts)
    yield training_sections.curves(facts)
    yield training_sections.learning_rates(facts)
    yield error_sections.confusion(facts)
    yield error_sections.calibration(facts)
    yield error_sections.slices(facts)
    yield error_sections.mistakes(facts)
    yield error_sections.explanations(facts)
    yield data_sections.embeddings(facts)
    yield error_sections.tables(facts)
    yield origin_sections.data(facts)
    yield origin_sections.truncation(facts)
    yield training_sections.forgetting(facts)
    yield origin_sections.recipe(facts)
    yield origin_sections.reproduce(facts)
    yield origin_sections.card(make_card(facts)) if has_model(facts) else None


def _template() -> Template:
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("a report needs jinja2: pip install 'warmstart[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters["safe_svg"] = Markup
    environment.filters["short"] = clean
    environment.filters["long"] = lambda text: clean(text, LONGEST_CODE)
    environment.tests["amount"] = _is_amount
    environment.tests["whole"] = lambda value: isinstance(value, str) and bool(_WHOLE.fullmatch(value))
    environment.tests["wordy"] = lambda value: isinstance(value, str) and len(value) > WORDY and " " in value
    return environment.get_template("page.html.jinja")


def _shown(value: object) -> object:
    """What goes into the page: numbers formatted for people, texts without harmful characters."""
    if hasattr(value, "__html__"):
        return value
    return clean(value, LONGEST_CODE) if isinstance(value, str) else number(value)


def _is_amount(value: object) -> bool:
    """Whether a cell is right-aligned."""
    return (
        value is None
        or isinstance(value, int | float)
        or (isinstance(value, str) and value[:-1].replace(".", "").isdigit() and value.endswith("%"))
    )
