"""The options of a study: which methods are measured beside each other, on which sets, with how many training rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warmstart.errors import RecipeError, nearest
from warmstart.options import Options, Value, Values
from warmstart.recipe.recipe import put
from warmstart.recipe.study_base import FILE, inherited
from warmstart.recipe.study_claims import Names, StudyClaim, StudyCurve, StudyFullSize, StudyPublished
from warmstart.storage.yaml_files import read_yaml

FOLDER = "studies"


class StudySet(Options):
    """A labelled set: one CSV or JSONL file of training rows, one of test rows."""

    about: str = ""
    """What it is, in a few words."""
    train: str
    """The file of all training rows, of which each size and seed draws its own."""
    test: str
    """The file of test rows."""
    sizes: Annotated[Names, Field(min_length=1)]
    """The sizes that are measured on it."""
    task: str = "classify"
    """What is learned: `classify`, `score`, or any other task for methods that have no peers."""
    pairs: bool = False
    """Whether rows are pairs of texts."""
    columns: dict[str, str] = {}
    """The column of the files for each of `text`, `pair` and `label` that is named otherwise there; of CSV files."""
    recipe: Values = {}
    """Recipe fields that all methods have on this set, by dotted key."""
    finding: bool = False
    """Whether rules were found on this set, and not only measured: the page reports both kinds apart."""


class StudySize(Options):
    """How many training rows are drawn; each seed draws its own, and a larger size contains the smaller ones."""

    about: str = ""
    """What it is called on the page, such as `8 a label`."""
    per_label: Annotated[int, Field(ge=1)] | None = None
    """Rows of each label. Default: all."""
    of_label: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Rows of single labels, of which there are more or fewer than `per_label`."""
    rows: Annotated[int, Field(ge=1)] | None = None
    """Rows at most. Default: no limit."""
    every_label: bool = False
    """Whether the first row of each label that `rows` leaves without one is drawn besides: no model could answer it."""
    queries: Annotated[int, Field(ge=1)] | None = None
    """Queries at most, each with all its rows, where rows have them. Default: no limit."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the rows, of each label alike and at least one of each. Default: all."""
    fixed: bool = False
    """Whether every seed has the rows as they are in the file, in that order, instead of a draw of its own."""
    seeds: Annotated[int, Field(ge=1)] = 3
    """How many seeds are measured."""

    @model_validator(mode="after")
    def _one_way_to_draw(self) -> Self:
        if self.fixed and (self.per_label or self.rows or self.queries or self.share):
            raise ValueError("fixed: the file has the rows; leave per_label, rows, queries and share out")
        if self.queries and (self.per_label or self.rows or self.share):
            raise ValueError("queries: all rows of a query are drawn; leave per_label, rows and share out")
        if self.of_label and not self.per_label:
            raise ValueError("of_label: it is beside per_label, which is missing")
        if self.every_label and not self.rows:
            raise ValueError("every_label: it is beside rows, which is missing")
        return self


class StudyMethod(Options):
    """A method of ours: fields of a recipe."""

    recipe: Values = {}
    """Recipe fields by dotted key; none for the defaults. Files of stages are relative to `data`."""
    by_set: dict[str, Values] = {}
    """More of them on single sets, by the name of the set."""
    revision: int = 0
    """To be raised when the code behind the method changes: figures of another revision are measured again."""
    sets: Names | None = None
    """The sets it is measured on. Default: all."""
    sizes: Names | None = None
    """The sizes it is measured at. Default: all."""


class StudyPeer(Options):
    """Something else that a user could use: a script that reads a job and writes its answers."""

    script: str
    """The script, called with the path of a job as its only argument."""
    python: str | None = None
    """The Python to run it with, such as that of a venv of its own; an environment variable as `$NAME`. Default: the
    one of this process."""
    tasks: list[Literal["classify", "score", "rank"]] = ["classify", "score"]
    """The tasks it can do."""
    pairs: bool = True
    """Whether it takes pairs of texts."""
    sets: Names | None = None
    """The sets it is measured on. Default: all that it can do."""
    sizes: Names | None = None
    """The sizes it is measured at. Default: all."""


class Study(Options):
    """Methods measured on the same rows, over sets, sizes and seeds."""

    based_on: str = ""
    """The folder of another study, relative to this file, whose fields this one has as well where it does not set them.
    With `sets` of its own, claims about other sets are left out."""
    title: str
    """The title of the page."""
    about: str = ""
    """What is asked, in a paragraph of the page."""
    source: str = ""
    """The published table or figure that is redone, if one is."""
    unlike: str = ""
    """What is unlike the source, or what else to know about the figures."""
    subject: str
    """The method that all others are compared with."""
    data: str = "."
    """The folder that the files of sets are in, relative to this file."""
    recipe: Values = {}
    """Recipe fields that all methods have, by dotted key."""
    sets: Annotated[dict[str, StudySet], Field(min_length=1)]
    """The sets by name."""
    sizes: Annotated[dict[str, StudySize], Field(min_length=1)]
    """The sizes by name."""
    methods: dict[str, StudyMethod] = {}
    """Methods of ours by name."""
    axes: dict[str, Annotated[list[Value], Field(min_length=1)]] = {}
    """Recipe fields with their values: every combination is a method as well, named by its values."""
    choices: dict[str, Annotated[Names, Field(min_length=2)]] = {}
    """By name, methods of which the one that is best on dev rows is taken, seed by seed. Their recipes need dev rows,
    such as a `data.split.dev`."""
    peers: dict[str, StudyPeer] = {}
    """What they are measured beside."""
    published: list[StudyPublished] = []
    """Published figures, shown beside ours."""
    claims: list[StudyClaim] = []
    """What the figures are to bear out or not."""
    curve: StudyCurve | None = None
    """A chart of the scores along an axis of numbers. Default: a chart of how far methods are behind the best."""
    full_size: StudyFullSize | None = None
    """The size of the published experiment."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        if double := sorted(set(self.all_methods()) & set(self.peers)):
            raise ValueError(f"{double[0]} is a method and a peer; rename one")
        if double := sorted(set(self.choices) & set(self.measured())):
            raise ValueError(f"choices: {double[0]} is a method or a peer; rename one")
        for name, among in self.choices.items():
            _check_names(f"choices.{name}", among, self.all_methods())
        measured = self.measured()
        _check_names("subject", [self.subject], self.compared())
        for name, one in self.sets.items():
            _check_names(f"sets.{name}.sizes", one.sizes, self.sizes)
        for name, method in measured.items():
            _check_names(f"{name}.sets", method.sets or [], self.sets)
            _check_names(f"{name}.sizes", method.sizes or [], self.sizes)
        for name, own in self.methods.items():
            _check_names(f"{name}.by_set", own.by_set, self.sets)
        self._check_what_is_said(self.compared())
        return self

    def _check_what_is_said(self, compared: Collection[str]) -> None:
        """Refuse names in claims, published figures and the curve that the study does not have."""
        for number, claim in enumerate(self.claims, 1):
            _check_names(f"claims.{number}", [claim.ahead, *claim.of], compared)
            _check_names(f"claims.{number}.sets", claim.sets or [], self.sets)
            _check_names(f"claims.{number}.sizes", claim.sizes or [], self.sizes)
        for table in self.published:
            _check_names(f"published, {table.source}", table.figures, compared)
        if self.curve is not None:
            _check_names("curve.points", self.curve.points, {*compared, *self.sizes})
            _check_names("curve.lines", self.curve.lines, compared)

    def all_methods(self) -> dict[str, StudyMethod]:
        """The methods that are named, and every combination of the axes."""
        keys = list(self.axes)
        combinations = itertools.product(*self.axes.values()) if keys else ()
        made = {
            ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in zip(keys, values, strict=True)): dict(
                zip(keys, values, strict=True)
            )
            for values in combinations
        }
        return {**self.methods, **{name: StudyMethod(recipe=fields) for name, fields in made.items()}}

    def measured(self) -> dict[str, StudyMethod | StudyPeer]:
        """All that is measured: methods and peers."""
        return {**self.all_methods(), **self.peers}

    def compared(self) -> list[str]:
        """The names of all that is compared: what is measured, and what is chosen from it."""
        return [*self.measured(), *self.choices]

    def fields(self, set_name: str, method: StudyMethod, model: str) -> Values:
        """The recipe of a method on a set, as nested values, without its data and its seed."""
        values: Values = {"task": self.sets[set_name].task}
        for fields in (self.recipe, self.sets[set_name].recipe, method.recipe, method.by_set.get(set_name, {})):
            for key, value in fields.items():
                put(values, key, value)
        # An encoder from scratch is the method's own: nothing of the study's is in it.
        return {**values, "model": "" if "from_scratch" in values else model}


def _check_names(where: str, names: Iterable[str], known: Collection[str]) -> None:
    for unknown in (name for name in names if name not in known):
        raise ValueError(f"{where}: {unknown} is not known; {nearest(unknown, known)}")


def load_study(name: str | Path, changes: Mapping[str, Value] | None = None) -> tuple[Study, Path]:
    """A study and its folder: one in `studies/`, by name, or any folder that has a `study.yaml`.

    Args:
        changes: Fields that replace the file's.
    """
    places = (Path(name), Path(FOLDER) / name)
    folder = next((place for place in places if (place / FILE).is_file()), None)
    if folder is None:
        known = sorted(path.parent.name for path in Path(FOLDER).glob(f"*/{FILE}"))
        raise RecipeError(f"{name}: there is no {places[1] / FILE}; {nearest(str(name), known) if known else ''}")
    values, lines = read_yaml(folder / FILE)
    return Study.check({**inherited(values, folder), **(changes or {})}, str(folder / FILE), lines), folder
