"""The outputs of two trees compared bit by bit: tensors, tables, and every number of JSON files.

A name may be the old one or the new one of `unchanged_words`. What is not compared is listed below, with the reason.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from unchanged_words import ADDED, FILES, GONE, flat, same_words, synonyms, translate_keys, translated

SKIPPED = {
    ("*", "seconds"): "durations",
    ("*", "fingerprint"): "a checksum that covers names in the code; the rows themselves are compared",
    ("*", "identity"): "recipe keys that a stage depends on; the recipes are compared",
    ("serve/*", "version"): "a checksum of files that contain names",
    ("export/*", "source"): "a checksum of files that contain names",
    ("predict --ray/*", "model"): "a checksum of files that contain names",
}
"""Keys of JSON files that are not compared, by a pattern of `case/file`, and why."""
WITHOUT_A_CLOCK = ("plan/*",)
"""Files whose seconds come from the table of devices; nothing in them is skipped."""
SKIPPED_FILES = {
    "*/.*": "locks",
    "*manifest.json": "checksums of files that are compared themselves, and recipe keys",
    "*environment.json": "versions and hardware",
    "*/run.json": "the form of a run's folder, which the old side does not write",
    "*/cache/stages/*.json": "recipe keys that a stage depends on",
    "*.log": "times",
    "*/log.txt": "times",
    "*/lock": "a process id",
    "*.svg": "plots of numbers that are compared themselves",
}
"""Files that are not compared, by a pattern of `case/file`, and why."""
PROSE = {
    "verdict",
    "why",
    "note",
    "notes",
    "title",
    "sentence",
    "message",
    "reason",
    "refused",
    "columns",
    "how",
    "what",
}
"""Keys of sentences: where they were reworded, their numbers must still be equal."""
STORED = re.compile(r"\b(pretrain|multitask|[a-z_]*scratch|finetune)-[0-9a-f]{12,64}\b")
"""The name of a stage in the store: its kind, and a checksum of recipe keys."""
HASH = re.compile(r"(?<=[-/])[0-9a-f]{12,64}(?=/|$)")
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")


@dataclass
class Compared:
    """What was compared in a case, and the differences."""

    files: int = 0
    tensors: int = 0
    numbers: int = 0
    unequal: list[str] = field(default_factory=list)

    def differ(self, where: str, old: Any, new: Any) -> None:
        """Add a difference."""
        self.unequal.append(f"{where}: base {_short(old)}, now {_short(new)}")


def compare_case(base: Path, now: Path) -> Compared:
    """Compare all files of a case."""
    result = Compared()
    old, new = (dict(_files(side)) for side in (base, now))
    for name, path in old.items():
        other = next((one for one in (name, *_elsewhere(name)) if one in new), None)
        if other is None:
            result.differ(name, "written", "missing")
            continue
        result.files += 1
        before = len(result.unequal)
        _compare_file(f"{base.name}/{name}", path, new.pop(other), result)
        result.unequal[before:] = [f"{name}: {one}" for one in result.unequal[before:]]
    for name in new:
        result.differ(name, "missing", "written")
    return result


def _files(side: Path) -> Iterator[tuple[str, Path]]:
    """The files of a case to compare, by name; checksums in names are left out."""
    for path in sorted(side.rglob("*")):
        name = str(path.relative_to(side))
        if path.is_file() and not any(fnmatch(f"{side.name}/{name}", pattern) for pattern in SKIPPED_FILES):
            if path.name == "rows.arrow":  # in a folder named by a checksum of recipe keys
                name = f"cache/rows {hashlib.sha256(path.read_bytes()).hexdigest()[:24]}"
            yield HASH.sub("", name), path


def _elsewhere(name: str) -> Iterator[str]:
    """Other paths that a file may have on the new side."""
    moved = name
    for pattern, place in FILES.items():
        moved = re.sub(pattern, place, moved)
    yield moved
    yield translate_keys(moved)


def _compare_file(where: str, old: Path, new: Path, result: Compared) -> None:
    compare: Callable[..., None] = _READERS.get(old.suffix, _compare_bytes)
    compare(where, old, new, result)


def _compare_bytes(where: str, old: Path, new: Path, result: Compared) -> None:
    if old.read_bytes() != new.read_bytes():
        result.differ("bytes", f"{old.stat().st_size} of them", f"{new.stat().st_size} others")


def _compare_tensors(where: str, old: Path, new: Path, result: Compared) -> None:
    """Compare tensors by name: dtype, shape and bytes."""
    before, after = _tensors(old), _tensors(new)
    for name, tensor in before.items():
        other = next((one for one in _tensor_names(name) if one in after), None)
        if other is None:
            result.differ(name, "a tensor", "none")
            continue
        result.tensors += 1
        result.numbers += math.prod(tensor[1])
        if after[other] != tensor:
            result.differ(name, *_first_difference(tensor, after[other]))
        del after[other]
    for name in after:
        result.differ(name, "none", "a tensor")


def _tensors(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The dtype, shape and bytes of each tensor of a safetensors file."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    header.pop("__metadata__", None)
    return {
        name: (one["dtype"], tuple(one["shape"]), data[slice(*one["data_offsets"])]) for name, one in header.items()
    }


def _tensor_names(name: str) -> Iterator[str]:
    """Names that a tensor may have on the new side."""
    known = synonyms()
    parts = [(part, *sorted(known.get(part, ()))) for part in name.split("/")]
    return map("/".join, itertools.product(*parts))


def _first_difference(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[str, str]:
    if old[:2] != new[:2]:
        return str(old[:2]), str(new[:2])
    place = next(index for index, both in enumerate(zip(old[2], new[2], strict=True)) if both[0] != both[1])
    count = sum(one != two for one, two in zip(old[2], new[2], strict=True))
    return f"byte {place} is {old[2][place]}", f"{new[2][place]}, and {count} of {len(old[2])} bytes differ"


def _compare_trees(where: str, old: Path, new: Path, result: Compared) -> None:
    _compare(where, "", _tree(old), _tree(new), result)


def _tree(path: Path) -> Any:
    """The content of a file as nested lists, mappings and plain values."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        return {
            name: {"type": str(table.schema.field(name).type), **_column(table, name)} for name in table.column_names
        }
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".yaml", ".yml"):
        return yaml.safe_load(text)
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return _state(json.loads(text)) if path.name == "state.json" else json.loads(text)


def _column(table: Any, name: str) -> dict[str, Any]:
    return {"values": table[name].to_pylist()}


def _state(value: Any) -> Any:
    """The state of a checkpoint as nested mappings; its tensors are in a file of their own."""
    if not isinstance(value, dict):
        return value
    [(kind, inner)] = value.items()
    if kind == "items":
        return {str(key): _state(item) for key, item in inner}
    return [_state(item) for item in inner] if kind in ("list", "tuple") else kind


def _compare(file: str, key: str, old: Any, new: Any, result: Compared) -> None:
    """Compare values of any kind."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if "sampling" in old or {"learn", "data", "task"} <= set(old):
            _compare_recipes(key, old, new, result)
        else:
            _compare_mappings(file, key, old, new, result)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, two) in enumerate(zip(old, new, strict=True)):
            _compare(file, f"{key}.{index}", one, two, result)
    else:
        result.numbers += _is_number(old)
        if not _same(key, old, new):
            result.differ(key, old, new)


def _compare_mappings(file: str, key: str, old: Mapping[str, Any], new: Mapping[str, Any], result: Compared) -> None:
    left = {name: value for name, value in new.items() if not _skipped(file, name)}
    for name, value in old.items():
        if _skipped(file, name):
            continue
        other = _name_in(left, name, value)
        if other is None:
            result.differ(f"{key}.{name}".strip("."), value, "missing")
        else:
            _compare(file, f"{key}.{name}".strip("."), value, left.pop(other), result)
    for name, value in left.items():
        result.differ(f"{key}.{name}".strip("."), "missing", value)


def _skipped(file: str, name: str) -> bool:
    if any(fnmatch(file, pattern) for pattern in WITHOUT_A_CLOCK):
        return False
    return any(name == key and fnmatch(file, pattern) for pattern, key in SKIPPED)


def _name_in(left: Mapping[str, Any], name: str, value: Any) -> str | None:
    """The name of a key on the new side: the same, or one of the table, preferably one with an equal value."""
    if name in left:
        return name
    known = [one for one in (translate_keys(name), *sorted(synonyms().get(name, ()))) if one in left]
    return next((one for one in known if _same(one, value, left[one])), known[0] if known else None)


def _compare_recipes(key: str, old: Mapping[str, Any], new: Mapping[str, Any], result: Compared) -> None:
    """Compare complete recipes by dotted key, the old one translated unless the new one has the same keys."""
    both = dict(flat(old)), dict(flat(new))
    if both[0].keys() != both[1].keys():
        # The options of a multi-task stage are a file of their own.
        place = ("before.0.multitask.", "stages.0.multitask.") if "sampling" in old else ("", "")
        words = translated({f"{place[0]}{name}": value for name, value in both[0].items()})
        both = dict(words), {f"{place[1]}{name}": value for name, value in both[1].items()}
    for name in sorted(both[0].keys() | both[1].keys()):
        plain = ".".join(part for part in name.split(".") if not part.isdigit())
        here = both[0].get(name, ADDED.get(plain, "missing"))
        there = both[1].get(name, GONE.get(plain, "missing"))
        result.numbers += _is_number(here)
        if not _same(name, here, there):
            result.differ(f"{key} {name}".strip(), here, there)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(key: str, old: Any, new: Any) -> bool:
    """Whether two plain values are equal, in old words or in new ones."""
    if _is_number(old) and _is_number(new):
        return old == new or (old != old and new != new)
    if same_words(old, new):
        return True
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    if STORED.search(old) and STORED.sub(r"\1", old) == STORED.sub(r"\1", new):
        return True
    if old[:1] in "[{" and new[:1] in "[{":
        inner = Compared()
        try:
            _compare("", key, json.loads(old), json.loads(new), inner)
        except ValueError:
            return False
        return not inner.unequal
    return any(part in PROSE for part in key.split(".")) and _numbers(old) == _numbers(new)


def _numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:\.\d+)?", text))


def _compare_prose(where: str, old: Path, new: Path, result: Compared) -> None:
    """Compare pages by their decimal numbers, in any order."""
    before, after = (Counter(NUMBER.findall(_plain(path.read_text(encoding="utf-8")))) for path in (old, new))
    result.numbers += before.total()
    if before != after:
        result.differ("numbers", dict(before - after), dict(after - before))


def _plain(page: str) -> str:
    """The text of a page without styles, scripts, tags and versions."""
    for pattern in (r"<style.*?</style>", r"<script.*?</script>", r"<[^>]*>", r"With warmstart .*"):
        page = re.sub(pattern, " ", page, flags=re.DOTALL if "<" in pattern else 0)
    return page


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) < 100 else f"{text[:97]}…"


_READERS = {
    ".safetensors": _compare_tensors,
    **dict.fromkeys((".json", ".jsonl", ".yaml", ".csv", ".parquet"), _compare_trees),
    **dict.fromkeys((".md", ".html"), _compare_prose),
}
