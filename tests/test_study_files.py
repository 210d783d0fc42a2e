"""The studies of the repository: each is valid, and so is the recipe of every method on every set."""

import os
from pathlib import Path

import pytest

from warmstart import tasks
from warmstart.recipe import Recipe, load_recipe
from warmstart.recipe.recipe import stages_from
from warmstart.recipe.study import Study, load_study
from warmstart.recipe.study_base import FILE

ROOT = Path(__file__).resolve().parents[1]
STUDIES = sorted(path.parent for path in (ROOT / "studies").glob(f"*/{FILE}"))


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_every_method_of_a_study_is_a_valid_recipe(folder):
    study, _ = load_study(folder)
    for set_name, one in study.sets.items():
        for method in study.all_methods().values():
            if set_name not in (method.sets or study.sets):
                continue
            values = study.fields(set_name, method, "m")
            data = {**values.get("data", {}), "train": one.train, "test": one.test}
            recipe = Recipe.check({**values, "data": data}, f"{folder.name}, {set_name}")
            tasks.find(recipe.task.name).options_class.model_validate(recipe.task.options)
            for stage in stages_from(recipe, (folder / study.data).resolve()).stages:
                for file in stage.multitask.others if stage.multitask else ():
                    assert load_recipe(os.path.normpath(file)).data.train, file  # the data may not be prepared
    for peer in study.peers.values():
        assert (folder / peer.script).is_file()


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_a_study_of_a_published_table_says_what_is_unlike_it(folder):
    study: Study = load_study(folder)[0]
    if study.source:
        assert study.unlike
        assert study.claims
        assert study.full_size
