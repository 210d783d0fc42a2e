"""Every task, found by scanning, on several architectures, does what any task must.

It learns a few rows by heart, comes back from disk with equal answers, opens in the library that has its head, resumes
bit-equal after a crash, and gives the same answers alone and in a batch, in order, however long the text.

What a head and a tokenizer decide is tried on every pair of task and architecture; learning by heart and resuming,
which take a training each, for every task on one architecture and for one task on all of them.
"""

import io

import pyarrow.parquet as pq
import pytest

from contracts.cases import all_cases
from test_resume import Crash, Trouble, crash, same
from tiny import save_tiny
from warmstart import tasks
from warmstart.deploy.export.compare_answers import compare_answers
from warmstart.deploy.label.columns import answers_file, columns_of
from warmstart.errors import DataError
from warmstart.experiments.export_run import export
from warmstart.inference.answer_files import flat
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, make_recipe

ARCHITECTURES = ("bert", "roberta", "distilbert", "albert", "electra", "deberta-v2", "xlnet", "mpnet", "modernbert")
CASES = all_cases()
PRODUCT = [(name, architecture) for architecture in ARCHITECTURES for name in CASES]
TRAINED = [(name, architecture) for name, architecture in PRODUCT if architecture == "bert" or name == "classify"]
BRIEF = {"training.max_steps": 2}
BY_HEART = {
    "training.learning_rate": 3e-3,
    "training.lr_schedule": "constant",
    "training.batch_size": 8,
    "training.max_steps": 60,
    "training.epochs": 200,
    "training.weight_decay": 0,
    "training.precision": "fp32",
    "window.max_tokens": 64,
}


def recipe_of(encoder, name, **more):
    """The recipe of a case, on rows in memory."""
    case = CASES[name]
    recipe = {"model": encoder, "task": name.partition(" ")[0], "data.train": MEMORY, "data.test": MEMORY}
    optional = {key for row in case.rows for key in row}
    schema = tasks.find(recipe["task"]).schema(tasks.options_of(recipe["task"], _options(case)))
    recipe |= {f"data.columns.{column.name}": column.name for column in schema if column.name in optional}
    return make_recipe({**recipe, **BY_HEART, **case.settings, **more}, "test")


def fit(encoder, name, folder, **more):
    progress = more.pop("progress", None)
    rows = {"train": CASES[name].rows, "test": CASES[name].rows}
    made = recipe_of(encoder, name, **more)
    return run_recipe(made, folder, *([progress] if progress else []), rows=rows)


def _options(case):
    return {key.removeprefix("task."): value for key, value in case.settings.items() if key.startswith("task.")}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run of a case on an architecture, made once."""
    made = {}

    def get(name, architecture):
        if architecture in CASES[name].skips:
            pytest.skip(f"{architecture}: {CASES[name].skips[architecture]}")
        if (name, architecture) not in made:
            folder = tmp_path_factory.mktemp("task")
            # Ten times the usual first weights: a tiny network as drawn by default learns nothing by heart quickly.
            encoder = str(save_tiny(folder / "encoder", architecture, initializer_range=0.2))
            brief = {} if (name, architecture) in TRAINED else BRIEF
            made[name, architecture] = fit(encoder, name, folder / "run", **brief)
        return made[name, architecture]

    return get


def test_every_task_has_a_case():
    assert {name.partition(" ")[0] for name in CASES} == set(tasks.names())


every = pytest.mark.parametrize(("name", "architecture"), PRODUCT)
trained = pytest.mark.parametrize(("name", "architecture"), TRAINED)


@trained
def test_it_learns_by_heart(fitted, name, architecture):
    run = fitted(name, architecture)
    headline = Predictor.load(run.folder).task.headline
    assert run.metrics["test"][headline] >= 0.99, run.metrics["test"]


@every
def test_answers_do_not_depend_on_their_neighbours_and_come_in_order(fitted, name, architecture):
    predictor, case = Predictor.load(fitted(name, architecture).folder), CASES[name]
    asked = [*case.asked, case.long, *case.rows]
    alone = [predictor.predict([given], batch_size=1)[0] for given in asked]
    for one, answer in zip(2 * alone, predictor.predict(2 * asked, batch_size=32), strict=True):
        assert near(one, answer), (one, answer)


@every
def test_the_library_that_has_the_head_gives_the_same(fitted, name, architecture):
    run, case = fitted(name, architecture), CASES[name]
    if case.opened is None:
        pytest.skip("no other library has this head")
    predictor = Predictor.load(run.folder)
    for given, answer in zip(case.asked, predictor.predict(case.asked), strict=True):
        expected = case.opened(run.model, given)
        assert near({key: answer[key] for key in expected}, expected)


@trained
def test_it_resumes_bit_equal_after_a_crash(name, architecture, tmp_path):
    if architecture in CASES[name].skips:
        pytest.skip(f"{architecture}: {CASES[name].skips[architecture]}")
    encoder = str(save_tiny(tmp_path / "encoder", architecture))
    few = {"training.max_steps": 4, "checkpoints.every_steps": 2, "checkpoints.when_finished": "keep"}
    whole = fit(encoder, name, tmp_path / "whole", **few)
    with pytest.raises(Crash):
        fit(encoder, name, tmp_path / "run", progress=Trouble(3, crash), **few)
    same(fit(encoder, name, tmp_path / "run", **few), whole)


@pytest.mark.parametrize("name", CASES)
def test_its_answers_fit_the_columns_of_a_labelled_corpus(fitted, name):
    predictor = Predictor.load(fitted(name, "bert").folder)
    kinds = columns_of(predictor.task, predictor.task.input_columns, (), None)
    answers = predictor.predict(CASES[name].asked)
    stored = pq.read_table(io.BytesIO(answers_file(answers, kinds))).to_pylist()
    assert [{key: row[key] for key in answer} for row, answer in zip(stored, answers, strict=True)] == list(
        map(flat, answers)
    )


@pytest.mark.parametrize("name", CASES)
def test_its_example_is_answered(fitted, name):
    predictor = Predictor.load(fitted(name, "bert").folder)
    [answer] = predictor.predict([predictor.task.example])
    assert answer


@pytest.mark.parametrize("name", CASES)
def test_what_is_no_question_is_refused(fitted, name):
    predictor = Predictor.load(fitted(name, "bert").folder)
    for given in CASES[name].refused:
        with pytest.raises(DataError, match="text 2"):
            predictor.predict([CASES[name].asked[0], given])


@pytest.mark.parametrize("name", CASES)
def test_another_engine_gives_the_same(fitted, name, tmp_path):
    run, case = fitted(name, "bert"), CASES[name]
    asked = [*case.asked, case.long, *case.rows]
    export(run.folder, tmp_path / "onnx", rows=case.rows)
    found = compare_answers(
        Predictor.load(run.folder).predict(asked), Predictor.load(tmp_path / "onnx", engine="onnx").predict(asked)
    )
    assert found.equal, found


def near(one, two, within=1e-5):
    """Whether two answers are the same, numbers but for so much."""
    if isinstance(one, float) and isinstance(two, float):
        return one == pytest.approx(two, abs=within)
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(near(one[key], two[key], within) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(near(a, b, within) for a, b in zip(one, two, strict=True))
    return one == two
