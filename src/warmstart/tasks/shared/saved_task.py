"""The task of a saved model: `warmstart.json` in a model folder, written and read in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart import tasks
from warmstart.errors import ModelError, RecipeError
from warmstart.models.temperature import MAX_TEMPERATURE, MIN_TEMPERATURE
from warmstart.storage.files import write_json
from warmstart.storage.json_files import JsonObject, read_object
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.prompts import PROMPT
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

FILE = "warmstart.json"
FORMAT = 1
MAX_NUMBER = 1 << 20
"""The largest number that a window may hold."""
MAX_PROMPT = 1000
"""The most characters of a prompt."""


@dataclass(frozen=True)
class SavedTask:
    """What a predictor must know beyond the model's config; labels are in the config alone.

    Attributes:
        task: The name of the task.
        pair: Whether it reads two texts.
        temperature: What the logits are divided by before they become probabilities; 1 without calibration.
    """

    task: str
    options: JsonObject
    pair: bool
    window: Window
    temperature: float = 1.0

    @classmethod
    def of(cls, task: AnyTask, window: Window) -> SavedTask:
        """That of a trained model."""
        return cls(tasks.name_of(type(task)), task.options.model_dump(mode="json"), task.pair, window)

    @classmethod
    def read(cls, folder: Path) -> SavedTask:
        """Read it from a model folder, refusing whatever `write` does not write."""
        path = folder / FILE
        try:
            values = read_object(path, ModelError)
        except FileNotFoundError:
            raise ModelError(f"{folder} has no {FILE}: not a model that `warmstart fit` wrote") from None
        if values.get("format") != FORMAT:
            raise ModelError(f"{path}: format: found {values.get('format')!r}, this version reads {FORMAT}")
        for key, kind in _KINDS.items():
            if not isinstance(values.get(key), kind):
                raise ModelError(f"{path}: {key}: found {str(values.get(key))[:80]!r}, expected {_EXPECTED[kind]}")
        window = _read_window(path, values["window"])
        temperature = _read_temperature(path, values.get("temperature", 1.0))
        return cls(values["task"], values["options"], values["pair"], window, temperature)

    def write(self, folder: Path) -> None:
        """Write it to a model folder."""
        values: JsonObject = {"format": FORMAT, **asdict(self)}
        if self.temperature == 1.0:
            del values["temperature"]
        if not self.window.prompt:
            del values["window"]["prompt"]
        write_json(folder / FILE, values)

    def with_temperature(self, temperature: float) -> SavedTask:
        """The same with calibrated probabilities; 1 undoes it."""
        return replace(self, temperature=temperature)


def open_task(
    folder: Path, config: PreTrainedConfig, task_class: type[AnyTask] | None = None
) -> tuple[AnyTask, SavedTask]:
    """The task that a model folder was trained with.

    Args:
        task_class: The class of a task that is not registered. A folder that names one is never imported from: it may
            come from anywhere.
    """
    saved = SavedTask.read(folder)
    path = folder / FILE
    if task_class is None:
        try:
            task_class = tasks.find(saved.task)
        except RecipeError as error:
            raise ModelError(f"{path}: {error}") from None
    elif tasks.name_of(task_class) != saved.task:
        raise ModelError(f"{path}: task: found {saved.task!r}, but the class passed is {tasks.name_of(task_class)!r}")
    try:
        options = task_class.options_class.check(saved.options, f"{path} (options of {saved.task})")
    except RecipeError as error:
        raise ModelError(f"{path}: {error}") from None
    try:
        task = task_class.from_config(options, saved.pair, config)
    except RecipeError as error:
        raise ModelError(f"{path}: {error}") from None
    except ModelError as error:
        raise ModelError(f"{folder / 'config.json'}: {error}") from None
    if saved.window.prompt and PROMPT not in task.prompt_uses(options):
        raise ModelError(f"{path}: window.prompt: found {saved.window.prompt!r}, but {saved.task} takes no prompt")
    return task, saved


def _read_temperature(path: Path, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not MIN_TEMPERATURE <= value <= MAX_TEMPERATURE:
        expected = f"{MIN_TEMPERATURE} to {MAX_TEMPERATURE}"
        raise ModelError(f"{path}: temperature: found {str(value)[:80]!r}, expected {expected}")
    return float(value)


def _read_window(path: Path, values: JsonObject) -> Window:
    """The window of a saved task: known names only, numbers that a text can have, and settings that go together."""
    known = [field.name for field in fields(Window)]
    if not {"max_tokens", "method"} <= set(values) <= set(known):
        raise ModelError(f"{path}: window: found {str(values)[:80]!r}, expected {', '.join(known)}")
    for name, value in values.items():
        if name == "method" or (value is None and name in {"head_tokens", "max_slices"}):
            continue
        if name == "prompt":
            if not isinstance(value, str) or len(value) > MAX_PROMPT:
                what = f"{path}: window.prompt: found {str(value)[:80]!r}"
                raise ModelError(f"{what}, expected at most {MAX_PROMPT:,} characters of text")
            continue
        if type(value) is not int or not 0 <= value <= MAX_NUMBER:
            what = f"{path}: window.{name}: found {str(value)[:80]!r}"
            raise ModelError(f"{what}, expected a whole number, at most {MAX_NUMBER:,}")
    try:
        return Window(**values)
    except ValueError as error:
        raise ModelError(f"{path}: window.{str(error)[:200]}") from None


_KINDS: dict[str, type[Any]] = {"task": str, "options": dict, "pair": bool, "window": dict}
_EXPECTED: dict[type[Any], str] = {str: "a word", dict: "names and values", bool: "true or false"}
