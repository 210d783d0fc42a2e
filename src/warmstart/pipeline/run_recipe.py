"""Running a recipe: its stages in order, into a run folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from warmstart.errors import RecipeError
from warmstart.evaluation.evaluate import evaluate
from warmstart.evaluation.predictions import PREDICTION_FILES
from warmstart.evaluation.records import data as data_record
from warmstart.evaluation.records import forgetting as forgetting_record
from warmstart.evaluation.records.files import write_record
from warmstart.evaluation.records.metrics import Metrics, finish_run
from warmstart.evaluation.records.rules import list_rules
from warmstart.evaluation.records.training import RuleRecord
from warmstart.evaluation.run import ENVIRONMENT, RunFolder, begin_run
from warmstart.inference.predictor import Predictor
from warmstart.models.from_scratch import EncoderShape, make_encoder
from warmstart.models.language_model import pair_head_note
from warmstart.models.loading import load_config
from warmstart.pipeline.claim import claimed
from warmstart.pipeline.distil import answer_texts, with_teacher_rows
from warmstart.pipeline.earlier_stages import EarlierStage, last_model, stages_before, with_reference
from warmstart.pipeline.finetune import PreparedTraining, check_before_stages, finetune, prepare_training, saving_of
from warmstart.pipeline.held_out import HeldOutChoice, follow_choice
from warmstart.pipeline.multitask import train_multitask
from warmstart.pipeline.multitask_recipes import MultitaskStage
from warmstart.pipeline.prepare import Parts, Rows, read_rows
from warmstart.pipeline.prompts import with_prompts
from warmstart.pipeline.reuse import find_finetuning, register_finetuning, reuse_finetuning
from warmstart.pipeline.rules import Decision, with_rules
from warmstart.pipeline.search_baseline import HeldOutQueries, choose_fusion, hold_out_queries, measure_before
from warmstart.pipeline.stage_store import discard_answers_left_over, locked_stage
from warmstart.recipe import Recipe
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import disk_errors, publish, remove_stale_staging
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import link_or_copy, write_json
from warmstart.storage.folders import discard, make_folder
from warmstart.tasks.shared.protocols import CountsFindings
from warmstart.training.callbacks.early_stopping import OnEvaluate
from warmstart.training.settings import check_trainer_options


def run_recipe(
    recipe: Recipe,
    folder: str | Path,
    progress: Progress = silent,
    rows: Rows | None = None,
    resume_anyway: Iterable[str] = (),
    measured: OnEvaluate | None = None,
) -> RunFolder:
    """Run a recipe into a folder, or resume a run that was stopped there.

    Where recipe, data or model is invalid, no folder is left. Of several processes only the main one reads the files,
    writes the folder and measures; the others train with it.

    Args:
        rows: Rows passed in Python, which replace the recipe's files.
        resume_anyway: What may differ from when the run was stopped, though the model may then differ too.
        measured: Called with the headline on the dev rows after every epoch of the fine-tuning but the last; what it
            raises ends the run, which stays unfinished.
    """
    folder = Path(folder)
    _check_single(recipe)
    main = processes.is_main_process()
    progress = progress if main else silent
    with disk_errors(folder), claimed(folder), _work_folder(folder) as work:
        cache = cache_folder() if rows is None else work / f"rows-{processes.rank()}"
        with processes.main_process_first():
            parts = read_rows(recipe, cache, progress, rows)
            prompted, prompts = with_prompts(recipe)
            stages = stages_before(prompted, parts, cache_folder(), progress)
            if stages:
                check_before_stages(prompted, parts)
        start = _run_stages(prompted, stages, progress, resume_anyway)
        with processes.main_process_first():
            parts, held = _training_parts(start, parts, stages, work, progress)
            begin = partial(_begin, folder, recipe, parts, stages) if main else _nothing
            decision = with_rules(start, parts, load_config(start.model))
            last = last_model(stages)
            reusable = last if recipe.reuse_stages else None
            done = find_finetuning(decision.recipe, parts, reusable, cache_folder()) if reusable else None
            if done is not None:
                begin()
                if main:
                    reuse_finetuning(done, folder, progress)
                return RunFolder(folder)
            place = _Place(folder, work, len(stages) + 1, tuple(resume_anyway))
            ready = _decided_training(decision, parts, place, begin, progress)
            ready = _with_rules_said(ready, prompts, progress)
            _log_notices(ready, parts, progress)
            saving = saving_of(recipe, ready, folder, resume_anyway)
            begin()
            if main:
                measure_before(ready, held, folder, progress)
        finetune(ready, saving, folder, progress, measured)
        with processes.main_process_first():
            if main:
                choose_fusion(held, folder, progress)
                finish_run(measure_run(folder, parts, progress), folder)
                if last:
                    register_finetuning(decision.recipe, parts, last, folder, cache_folder())
    return RunFolder(folder)


def _check_single(recipe: Recipe) -> None:
    """Refuse a recipe that is not one training of one encoder."""
    if recipe.repeated:
        raise RecipeError(
            "seeds, baseline, ablate and from_scratch.direction: both ask for several trainings, and this is one; call "
            "`warmstart.fit`"
        )
    if recipe.models:
        raise RecipeError("models: found encoders to choose from, and this trains one; call `warmstart.fit`")
    check_trainer_options(recipe.trainer)
    if recipe.is_sharded:
        processes.check_several("training.fsdp")


@dataclass(frozen=True)
class _Place:
    """Where a training is written, and what it resumes."""

    folder: Path
    work: Path
    number: int
    """Which of the run's stages it is."""
    resume_anyway: tuple[str, ...]


def _nothing() -> None:
    """What a process does where only the main one writes."""


def _decided_training(
    decision: Decision, parts: Parts, place: _Place, begin: Callable[[], None], progress: Progress
) -> PreparedTraining:
    """The training by the rules, after held-out rows have decided between its candidates."""

    def prepare(recipe: Recipe) -> PreparedTraining:
        return prepare_training(recipe, parts, place.work, progress, place.number, cache_folder())

    ready = replace(prepare(decision.recipe), rules=decision.rules)
    if not decision.candidates:
        return ready
    begin()  # after the errors that leave no folder, and before the first training
    choice = HeldOutChoice(decision.recipe, decision.candidates, parts, place.folder, place.work, place.resume_anyway)
    recipe, rules, record = follow_choice(choice, decision.rules, progress)
    return replace(prepare(recipe), rules=rules, choice=record)


def _with_rules_said(ready: PreparedTraining, prompts: Sequence[RuleRecord], progress: Progress) -> PreparedTraining:
    """The training with all that rules decided, which is logged."""
    rules = [*ready.rules, *prompts]
    if rules:
        progress.log(f"by rule: {list_rules(rules)}")
    return replace(ready, rules=rules)


def plan_stages(recipe: Recipe, progress: Progress = silent) -> list[EarlierStage]:
    """The stages of a recipe before its fine-tuning; reads its data and trains nothing."""
    return stages_before(recipe, read_rows(recipe, cache_folder(), progress), cache_folder(), progress)


def _run_stages(recipe: Recipe, stages: list[EarlierStage], progress: Progress, anyway: Iterable[str]) -> Recipe:
    """Train the stages that are not in the store yet; gives the recipe of the fine-tuning that starts from the last."""
    recipe = with_reference(recipe, stages)
    for number, stage in enumerate(stages, 1):
        if _reusable(recipe, stage):
            progress.log(f"{number:02d}-{stage.name} is finished ({stage.folder.name}); reused")
            if processes.is_main_process():
                discard_answers_left_over(stage.folder)
            continue
        with locked_stage(stage.folder, stage.identity):
            if _reusable(recipe, stage):  # another run has finished it, and may be reading it
                progress.log(f"{number:02d}-{stage.name} was just finished ({stage.folder.name}); reused")
                continue
            progress.log(f"{number:02d}-{stage.name} starts or resumes ({stage.folder.name})")
            if stage.finished and processes.is_main_process():  # and not to be reused
                discard(stage.folder)
            _run_stage(recipe, stage, progress, anyway)
    last = last_model(stages)
    return recipe.alone(str(last.model) if last else recipe.model)


def _reusable(recipe: Recipe, stage: EarlierStage) -> bool:
    """Whether a stage need not be trained; all processes of a training are to agree, or they wait for each other."""
    return recipe.reuse_stages and processes.as_main_process_sees(stage.finished)


def _training_parts(
    recipe: Recipe, parts: Parts, stages: Sequence[EarlierStage], work: Path, progress: Progress
) -> tuple[Parts, HeldOutQueries | None]:
    """The parts to train with, a teacher's answers among them where the recipe has one; and what is held out."""
    parts, held = hold_out_queries(recipe, parts)
    held_out = held.rows if held is not None and held.can_choose else None
    for stage in stages:
        if stage.distil is not None:
            return with_teacher_rows(recipe, parts, held_out, stage.folder, work, progress), held
    return parts, held


def _run_stage(recipe: Recipe, stage: EarlierStage, progress: Progress, anyway: Iterable[str]) -> None:
    if stage.options is not None:
        with disk_errors(stage.folder), _work_folder(stage.folder) as work:
            several = MultitaskStage(
                stage.tasks,
                stage.options,
                checkpoints=recipe.checkpoints,
                trainer=recipe.trainer,
                forgetting=recipe.forgetting,
            )
            train_multitask(several, stage.folder, cache_folder(), work, progress, anyway)
        return
    if stage.distil is not None:
        with processes.main_process_first():
            if processes.is_main_process():
                answer_texts(stage.distil, recipe, stage.folder, progress)
        return
    if stage.recipe is None:
        assert recipe.from_scratch is not None
        assert stage.texts is not None
        with processes.main_process_first():
            if processes.is_main_process():
                with publish(stage.folder) as staging:
                    shape = EncoderShape(**recipe.from_scratch.shape)
                    make_encoder(stage.texts, staging / "model", shape, recipe.seed)
        return
    run_recipe(stage.recipe, stage.folder, progress, stage.rows, anyway)


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """An empty folder for files not needed afterwards: inside the run, since /tmp may be memory."""
    work = folder / ".work"
    if not processes.is_main_process():  # it belongs to the main process, which goes first
        yield work
        return
    shutil.rmtree(work, ignore_errors=True)
    make_folder(folder)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _begin(folder: Path, recipe: Recipe, parts: Parts, stages: Sequence[EarlierStage]) -> None:
    """Record the recipe, the data, the environment and the stages; remove what a kill left half written."""
    for place in (folder, folder / "stages", folder / "checkpoints"):
        remove_stale_staging(place)
    begin_run(folder, recipe)
    write_json(folder / ENVIRONMENT, environment())
    write_record(parts.record(), folder / data_record.FILE)
    for number, stage in enumerate(stages, 1):
        record = folder / "stages" / f"{number:02d}-{stage.name}"
        if not record.exists():
            with publish(record, {"identity": dict(stage.identity)}) as staging:
                write_record(stage.record(), staging / "stage.json")
                forgotten = stage.training_folder / forgetting_record.FILE
                if forgotten.is_file():
                    link_or_copy(forgotten, staging / forgetting_record.FILE)


def _log_notices(ready: PreparedTraining, parts: Parts, progress: Progress) -> None:
    """Show what encoding the rows and opening the model brought to light before hours of training, not after them."""
    if note := pair_head_note(ready.loaded.model):
        progress.log(note)
    noticed = ready.task.encoding_findings.values() if isinstance(ready.task, CountsFindings) else ()
    kinds = {kind for kind, _ in noticed}
    for finding in parts.findings:
        if finding.kind in kinds:
            progress.log(f"{finding.severity} {finding.location}: {finding.message}")


def measure_run(folder: Path, parts: Parts, progress: Progress) -> Metrics:
    """Measure the model as it was saved on every part but the training rows."""
    measured = [part for part in ("dev", "test") if part in parts.tables]
    if not measured:
        return {}
    predictor = Predictor.load(folder)
    return {
        part: evaluate(predictor, parts.tables[part], folder / PREDICTION_FILES[part], progress) for part in measured
    }
