"""Choosing the final model, and how it is trained, by rows held out of the training rows.

Each way is trained on the other rows, in a folder of its own in the run, and resumes there; then the run is trained on
all rows in the way that answered the held-out ones best. What was chosen is published before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.data import split
from warmstart.data.findings import Findings
from warmstart.evaluation.records import final_model as record_file
from warmstart.evaluation.records import training as training_record
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.records.final_model import CandidateRecord, FinalModelRecord
from warmstart.evaluation.records.training import RuleRecord, RuleValue, TrainingRecord
from warmstart.pipeline.final_model import FINE_TUNED, LINEAR_PROBE
from warmstart.pipeline.finetune import finetune, prepare_training, saving_of
from warmstart.pipeline.prepare import Parts, grouping_columns
from warmstart.recipe import Recipe
from warmstart.recipe.recipe import LINEAR_PROBE as FROZEN
from warmstart.recipe.sweep_files import settings_in
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import publish, verify
from warmstart.storage.folders import discard, make_folder
from warmstart.tasks import schema_of

FOLDER, TRIALS = "final-model", ".held-out"
SHARE, MOST = 0.2, 2_000
"""The share of the training rows that is held out, and the most rows."""

Candidates = Mapping[str, Mapping[str, RuleValue]]
"""Ways to train: by name, the settings by which a recipe follows it."""


@dataclass(frozen=True)
class HeldOutChoice:
    """Trains candidates without the held-out rows and compares them.

    Args:
        recipe: The recipe that the candidates complete.
        folder: The folder of the run.
        work: A folder for files that are not needed afterwards.
        resume_anyway: As in `run_recipe`.
    """

    recipe: Recipe
    candidates: Candidates
    parts: Parts
    folder: Path
    work: Path
    resume_anyway: Iterable[str] = ()

    def made(self, progress: Progress) -> tuple[FinalModelRecord, dict[str, RuleValue]]:
        """The choice, which is made once, and the settings by which the recipe follows it."""
        target = self.folder / FOLDER
        if not target.exists():
            record = self._compare(progress)
            with publish(target) as staging:
                write_record(record, staging / record_file.FILE)
        discard(self.folder / TRIALS)
        verify(target)
        record = read_record(FinalModelRecord, target / record_file.FILE)
        way, _, final = record.chosen.rpartition(", ")
        settings = dict(self.candidates[way] if way else next(iter(self.candidates.values())))
        return record, {**settings, **(FROZEN if final == LINEAR_PROBE else {"training.final_model": final})}

    def _compare(self, progress: Progress) -> FinalModelRecord:
        parts = self._parts()
        results: list[CandidateRecord] = []
        best: tuple[float, str] = (float("-inf"), FINE_TUNED)
        metric = ""
        for way, settings in self.candidates.items():
            progress.log(f"training {way or 'without them'} to compare on {len(parts.tables['dev']):,} held-out rows")
            final = self._train(way, settings, parts, progress)
            metric = final.metric
            name = f"{way}, " if len(self.candidates) > 1 else ""
            results += [CandidateRecord(f"{name}{one.name}", one.value) for one in final.candidates]
            value = next(one.value for one in final.candidates if one.name == final.chosen)
            best = max(best, (value, f"{name}{final.chosen}"), key=lambda one: one[0])
        record = FinalModelRecord(best[1], metric, "held-out", len(parts.tables["dev"]), results)
        progress.log(record.sentence)
        return record

    def _parts(self) -> Parts:
        """The training rows in two: those to train on, and as dev those to compare on."""
        train, task = self.parts.tables["train"], self.recipe.task
        schema = schema_of(task.name, task.options)
        share = min(SHARE, MOST / len(train))
        answer = schema.answer.name if schema.answer else None
        chosen = split.split_table(train, grouping_columns(train, schema), answer, {"dev": share}, self.recipe.seed)
        return Parts({part: train.select(indices) for part, indices in chosen.items()}, Findings())

    def _train(self, way: str, settings: Mapping[str, RuleValue], parts: Parts, progress: Progress) -> FinalModelRecord:
        recipe = settings_in(self.recipe, {**settings, "training.final_model": "dev"}, "held out")
        folder, work = self.folder / TRIALS / (way or "one"), self.work / "held-out"
        make_folder(folder)
        work.mkdir(parents=True, exist_ok=True)
        ready = prepare_training(recipe, parts, work, progress)
        finetune(ready, saving_of(recipe, ready, folder, self.resume_anyway), folder, progress)
        record = read_record(TrainingRecord, folder / ready.stage / training_record.FILE)
        assert record.final_model is not None
        return record.final_model


def follow_choice(
    choice: HeldOutChoice, rules: Sequence[RuleRecord], progress: Progress
) -> tuple[Recipe, list[RuleRecord], FinalModelRecord]:
    """The recipe of the candidate that is best on held-out rows, what rules decided of it, and the choice."""
    record, settings = choice.made(progress)
    reason = f"{record.chosen} is best on {record.rows:,} held-out rows"
    own = [rule for rule in rules if rule.field not in settings]
    made = [*own, *(RuleRecord(key, value, reason) for key, value in settings.items())]
    return settings_in(choice.recipe, settings, "by rule"), made, record
