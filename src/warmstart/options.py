"""The base of everything a user can set: typed, documented under each field, unknown names refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from warmstart.errors import RecipeError, nearest


class Options(BaseModel):
    """A set of options; the text under each field is its meaning, and feeds `--help`, the schema and the docs."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)

    @classmethod
    def check(cls, values: Mapping[str, Any], where: str, lines: Mapping[str, int] | None = None) -> Self:
        """Build from plain values.

        Args:
            where: What an error message starts with: a file, or the place the options came from.
            lines: Line of each dotted key in that file, if there is a file.

        Raises:
            RecipeError: One line a problem, each with its key.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            problems = [_sentence(cls, problem, where, lines or {}) for problem in error.errors()]
            raise RecipeError("\n".join(dict.fromkeys(problems))) from None


def meaning(options: type[Options], key: str) -> str:
    """The text under the field that a dotted key names."""
    *parents, last = key.split(".")
    for parent in parents:
        options = _options_below(options, parent)[0]
    return " ".join((fields_of(options)[last].description or "").split())


def fields_of(options: type[Options]) -> dict[str, Any]:
    """The fields by the names that a user writes, which a keyword of Python cannot be in the code."""
    return {field.alias or name: field for name, field in options.model_fields.items()}


def _options_below(options: type[Options], field: str) -> list[type[Options]]:
    """The Options classes a field can hold (a field may also hold plain values)."""
    found = fields_of(options).get(field)
    if found is None:
        return []
    choices = (found.annotation, *get_args(found.annotation))
    return [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Options)]


def _sentence(options: type[Options], problem: Any, where: str, lines: Mapping[str, int]) -> str:
    """One pydantic problem in our words."""
    keys: list[str] = []
    for step in problem["loc"]:
        below = _options_below(options, keys[-1]) if keys else []
        # pydantic names the member of a union in the path ("File", "str"); users did not write that.
        if keys and isinstance(step, str) and (step in {"str", "list[str]"} or step in _class_names(below)):
            continue
        options = below[0] if below else options
        keys.append(str(step))
    key = ".".join(keys)
    at = f"{where}:{lines[key]}" if key in lines else where
    if problem["type"] == "extra_forbidden":
        return f"{at}: {key} is not an option; {nearest(keys[-1], fields_of(options))}"
    if problem["type"] == "missing":
        return f"{at}: {key} is missing; it says: {meaning(options, keys[-1])}"
    said = problem["msg"].removeprefix("Value error, ")
    if not keys:  # several options do not go together
        return f"{at}: {said}"
    return f"{at}: {key}: found {problem['input']!r}; {said[:1].lower()}{said[1:]}"


def _class_names(classes: list[type[Options]]) -> set[str]:
    return {cls.__name__ for cls in classes}
