"""Experiment trackers, such as TensorBoard and MLflow, through the Trainer's own integrations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import MissingExtraError, RecipeError, nearest

if TYPE_CHECKING:
    from transformers import TrainerCallback

PACKAGES = {"azure_ml": "azureml-core mlflow", "comet_ml": "comet_ml", "kubeflow": "kubeflow"}
"""What to install for a tracker whose package is named otherwise than the tracker."""
ALL, NONE = "all", "none"


def resolve_trackers(report_to: str | Iterable[str] | None) -> list[str]:
    """The trackers that `trainer.report_to` names; one that is unknown or not installed is refused."""
    from transformers.integrations import integration_utils as integrations

    names = [report_to] if isinstance(report_to, str) else list(report_to or [])
    installed: list[str] = integrations.get_available_reporting_integrations()
    if names in ([ALL], [NONE], []):
        return installed if names == [ALL] else []
    known: list[str] = list(integrations.INTEGRATION_TO_CALLBACK)
    for name in names:
        if name not in known:
            raise RecipeError(f"trainer.report_to: {name!r} is not a tracker; {nearest(name, known)}")
        if name not in installed:
            raise MissingExtraError(
                f"trainer.report_to: {name} is not installed; type: pip install {PACKAGES.get(name, name)}"
            )
    return names


def set_tensorboard_folder(callbacks: Iterable[TrainerCallback], folder: Path) -> None:
    """Let TensorBoard write below `folder`, where a resumed training continues, unless it has a folder already."""
    from transformers.integrations import TensorBoardCallback

    for callback in callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
            callback.logging_dir = str(folder / "tensorboard")


@contextmanager
def tracker_errors(names: Iterable[str]) -> Iterator[None]:
    """Report an error of a tracker as such: the training itself is not at fault."""
    try:
        yield
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package in names:
            reason = " ".join(str(error).split())
            raise RecipeError(f"trainer.report_to: {package} failed: {reason}") from error
        raise
