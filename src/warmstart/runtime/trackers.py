"""Trackers of trainings, as TensorBoard and MLflow, by the Trainer's own integrations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.errors import MissingExtra, RecipeError, nearest

PACKAGES = {"azure_ml": "azureml-core mlflow", "comet_ml": "comet_ml", "kubeflow": "kubeflow"}
"""What to install for a tracker whose package has another name than the tracker."""
ALL, NONE = "all", "none"


def trackers_of(report_to: Any) -> list[str]:
    """The trackers that `trainer.report_to` names, refusing what is unknown or not installed."""
    from transformers.integrations import integration_utils as known

    names = [report_to] if isinstance(report_to, str) else list(report_to or [])
    there: list[str] = known.get_available_reporting_integrations()
    if names in ([ALL], [NONE], []):
        return there if names == [ALL] else []
    for name in names:
        if name not in known.INTEGRATION_TO_CALLBACK:
            raise RecipeError(
                f"trainer.report_to: {name!r} is no tracker; {nearest(name, known.INTEGRATION_TO_CALLBACK)}"
            )
        if name not in there:
            raise MissingExtra(
                f"trainer.report_to: {name} is not installed; type: pip install {PACKAGES.get(name, name)}"
            )
    return names


def keep_in(callbacks: Iterable[Any], folder: Path) -> None:
    """Let TensorBoard write beside the run, in a place that a resumed training finds again, unless told otherwise."""
    from transformers.integrations import TensorBoardCallback

    for one in callbacks:
        if isinstance(one, TensorBoardCallback) and one.logging_dir is None:
            one.logging_dir = str(folder / "tensorboard")


@contextmanager
def tracker_errors(names: Iterable[str]) -> Iterator[None]:
    """Tell an error of a tracker as what it is: nothing of the training itself is at fault."""
    try:
        yield
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package in names:
            reason = " ".join(str(error).split())
            raise RecipeError(f"trainer.report_to: {package} says: {reason}") from error
        raise
