"""The base class of everything a user can set: typed, documented under each field, and strict about unknown names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from warmstart.errors import RecipeError, nearest

Value: TypeAlias = Any
"""A plain value, as YAML, JSON or a caller gives it; the options check it."""
Values: TypeAlias = dict[str, Value]
"""Plain values by name."""


@dataclass(frozen=True)
class OneOf:
    """Marks a string field that takes one of several names, which are listed only when needed: plugins may add some."""

    names: Callable[[], Sequence[str]]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "enum": list(self.names())}

    def check(self, name: str) -> str:
        """Refuse any other name, with the nearest one."""
        if name not in self.names():
            raise ValueError(nearest(name, self.names()))
        return name


class Options(BaseModel):
    """A set of options; the text under each field is its meaning, and is used for `--help`, the schema and the docs."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Field of each name that other libraries use, as a dotted key, with a value where the name implies one."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """What to do instead, for names of other libraries that no field stands for."""

    @classmethod
    def check(cls, values: Mapping[str, Value], where: str, lines: Mapping[str, int] | None = None) -> Self:
        """Build from plain values.

        Args:
            where: How an error message starts: with the file, or wherever else the options came from.
            lines: Line of each dotted key in that file, if there is a file.

        Raises:
            RecipeError: One line for each problem, with its key.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            problems = _innermost(cls, error.errors())
            sentences = [_sentence(cls, problem, where, lines or {}) for problem in problems]
            raise RecipeError("\n".join(dict.fromkeys(sentences))) from None


def meaning(options: type[Options], key: str) -> str:
    """The text under the field that a dotted key names."""
    *parents, last = key.split(".")
    for parent in parents:
        options = _options_below(options, parent)[0]
    return " ".join((fields_of(options)[last].description or "").split())


def missing(options: type[Options], name: str, key: str) -> str:
    """The message for a field that must be set, with its meaning."""
    about = meaning(options, name)
    return f"{key} is missing; expected {about[:1].lower()}{about[1:]}"


def fields_of(options: type[Options]) -> dict[str, FieldInfo]:
    """The fields by the names that a user writes, which a keyword of Python cannot be in the code."""
    return {field.alias or name: field for name, field in options.model_fields.items()}


def name_here(root: type[Options], location: Sequence[str | int]) -> str | None:
    """Our dotted key for an unknown one: a synonym, or a field of another section; None where there is neither."""
    keys, holders = _keys_at(root, location)
    name = keys[-1].lower().replace("-", "_")
    target = root.synonyms.get(name) or _in_another_section(root, name)
    if target is None:
        return None
    # The innermost section that has the field: in a stage, `lr` is the stage's own learning rate, in `head` the head's.
    last = target.rpartition(".")[2]
    for depth in range(len(keys) - 1, 0, -1):
        if target.startswith(f"{'.'.join(keys[:depth])}."):
            return target
        if holders[depth] is holders[depth - 1]:  # an item of a list, or a field that takes any name
            continue
        for key in (target, last):
            if has_field(holders[depth], key.partition(": ")[0]):
                return ".".join((*keys[:depth], key))
    return target


def has_field(options: type[Options], key: str) -> bool:
    """Whether a dotted key names a field; below a field that takes any name, all do."""
    name, _, rest = key.partition(".")
    if name not in fields_of(options):
        return _takes_any(options)
    below = _options_below(options, name)
    if not rest or not below:
        return not rest or dict in _types_of(fields_of(options)[name])
    return any(has_field(inner, rest) for inner in below)


def _in_another_section(root: type[Options], name: str) -> str | None:
    """A field of that name, if exactly one section of the root has it."""
    sections = {key: field.annotation for key, field in fields_of(root).items()}
    holding = [
        key
        for key, kind in sections.items()
        if isinstance(kind, type) and issubclass(kind, Options) and name in fields_of(kind) and not _takes_any(kind)
    ]
    return f"{holding[0]}.{name}" if len(holding) == 1 else None


def _takes_any(options: type[Options]) -> bool:
    return options.model_config.get("extra") == "allow"


def _types_of(field: FieldInfo) -> tuple[object, ...]:
    """The types that a field can hold, without what is in them."""
    kinds = (field.annotation, *get_args(field.annotation))
    return tuple(get_origin(kind) or kind for kind in kinds)


def _options_below(options: type[Options], name: str) -> list[type[Options]]:
    """The Options classes a field can hold (a field may also hold plain values)."""
    field = fields_of(options).get(name)
    if field is None:
        return []
    choices = (field.annotation, *get_args(field.annotation))
    return [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Options)]


def _keys_at(root: type[Options], location: Sequence[str | int]) -> tuple[list[str], list[type[Options]]]:
    """The keys that a user wrote, and the options that each stands in."""
    keys: list[str] = []
    holders: list[type[Options]] = []
    for step in location:
        holder = holders[-1] if holders else root
        below = _options_below(holder, keys[-1]) if keys else []
        # pydantic names the member of a union in the path ("FileOptions", "str"); users did not write that.
        if keys and (step in {"str", "list[str]"} or step in {kind.__name__ for kind in below}):
            continue
        keys.append(str(step))
        holders.append(below[0] if below else holder)
    return keys, holders


def _innermost(root: type[Options], problems: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """The problems without those of a field in which another one is: that a mapping is no text, for one."""
    keys = [_keys_at(root, problem["loc"])[0] for problem in problems]
    return [
        problem
        for problem, own in zip(problems, keys, strict=True)
        if not own or not any(len(other) > len(own) and other[: len(own)] == own for other in keys)
    ]


def _sentence(root: type[Options], problem: ErrorDetails, where: str, lines: Mapping[str, int]) -> str:
    """One pydantic problem in our words."""
    keys, holders = _keys_at(root, problem["loc"])
    key = ".".join(keys)
    at = f"{where}:{lines[key]}" if key in lines else where
    if problem["type"] == "extra_forbidden":
        return f"{at}: {unknown(root, problem['loc'])}"
    if problem["type"] == "missing":
        return f"{at}: {missing(holders[-1], keys[-1], key)}"
    reason = problem["msg"].removeprefix("Value error, ")
    if not keys:  # several options do not go together
        return f"{at}: {reason}"
    return f"{at}: {key}: found {problem['input']!r}; {reason[:1].lower()}{reason[1:]}"


def unknown(root: type[Options], location: Sequence[str | int]) -> str:
    """The message for a key that is no option: its name here, what to do instead, or the nearest name."""
    keys, holders = _keys_at(root, location)
    key = ".".join(keys)
    if here := name_here(root, location):
        return f"{key} is called {here} here"
    if instead := root.elsewhere.get(keys[-1].lower().replace("-", "_")):
        return f"{key} is not an option; {instead}"
    return f"{key} is not an option; {nearest(keys[-1], fields_of(holders[-1]))}"
