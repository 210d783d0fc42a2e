"""The report: a run's folder as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warmstart.errors import MissingExtra, RunError
from warmstart.report import (
    error_sections as errors_shown,
)
from warmstart.report import (
    origin_sections as origin,
)
from warmstart.report import (
    score_sections as scores,
)
from warmstart.report import (
    training_sections as learning,
)
from warmstart.report.blocks import Section, clean, number
from warmstart.report.model_card import has_model, make_card, write_card
from warmstart.report.run_facts import Facts, read_facts
from warmstart.report.svg import style
from warmstart.report.verdict import verdict, warnings
from warmstart.storage.artifacts import disk_errors, write_text

FILE = "report.html"
WORDY = 30
"""Characters from which a cell wants room to be read."""
LONGEST_CODE = 40_000
"""Characters of a recipe or a card that are shown."""


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a finished run, and its model card beside the model; gives the report's path.

    Args:
        out: Where to write it; `report.html` in the run's folder by default.
    """
    facts = _told(folder, read_facts)
    path = Path(out) if out is not None else facts.run.folder / FILE
    if not path.parent.is_dir():
        raise RunError(f"{path}: there is no folder {path.parent}; make it, or choose another with --out")
    text = _told(folder, lambda _: render(facts))
    with disk_errors(path.parent):
        write_text(path, text)
        write_card(facts)
    return path


def render(facts: Facts) -> str:
    """The page of a run."""
    style()
    template = _template()
    sections = [one for one in _sections(facts) if one is not None]
    return str(
        template.render(
            facts=facts,
            verdict=verdict(facts),
            warnings=list(warnings(facts)),
            sections=sections,
            style=(Path(__file__).parent / "page.css").read_text(encoding="utf-8"),
        )
    )


def _sections(facts: Facts) -> Iterator[Section | None]:
    """In the order of the questions a reader has: how good, why to believe it, where it errs, where it comes from."""
    yield scores.scores(facts)
    yield scores.evidence(facts)
    yield learning.curves(facts)
    yield learning.rates(facts)
    for make in ("confusion", "calibration", "slices", "mistakes", "tables"):
        yield getattr(errors_shown, make)(facts)
    yield origin.data(facts)
    yield origin.window(facts)
    yield learning.forgetting(facts)
    yield origin.recipe(facts)
    yield origin.again(facts)
    yield origin.card(make_card(facts)) if has_model(facts) else None


def _template() -> Any:
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise MissingExtra("a report needs jinja2: pip install 'warmstart[report]'") from None
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
    environment.tests["wordy"] = lambda value: isinstance(value, str) and len(value) > WORDY and " " in value
    return environment.get_template("page.html.jinja")


def _shown(value: Any) -> Any:
    """What comes into the page: numbers as a person reads them, texts without what a page must not hold."""
    if hasattr(value, "__html__"):
        return value
    return clean(value, LONGEST_CODE) if isinstance(value, str) else number(value)


def _is_amount(value: Any) -> bool:
    """Whether a cell is set to the right."""
    return (
        value is None
        or isinstance(value, int | float)
        or (isinstance(value, str) and value[:-1].replace(".", "").isdigit() and value.endswith("%"))
    )


def _told(folder: str | Path, make: Any) -> Any:
    """What `make` gives; files that hold something else than ours do are told as such."""
    try:
        return make(folder)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise RunError(
            f"{folder}: a file of the run holds something else than warmstart writes "
            f"({type(error).__name__}: {error}); look at metrics.json, data.json, evidence.json and diagnosis.json"
        ) from error
