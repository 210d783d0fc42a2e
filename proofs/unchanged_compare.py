"""Two folders that the sides of the proof left, compared bit by bit: tensors, tables, and every number of JSON files.

Names may be the old ones or the new ones of `unchanged_words`; what is left out stands in `SKIPPED`, with the reason.
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

from unchanged_words import ADDED, FILES, GONE, flat, keys_in, renewed, same_words, synonyms

SKIPPED = {
    ("*", "seconds"): "time by the clock",
    ("*", "fingerprint"): "a checksum that covers the name of a function; the rows themselves are compared",
    ("*", "identity"): "what a stage depends on by name; the recipes that say it are compared",
    ("serve/*", "version"): "a checksum of a model's folder, in which names stand",
    ("export/*", "source"): "a checksum of a model's folder, in which names stand",
}
"""Keys of JSON files that are not compared, by a pattern of their file, and why."""
COMPARED_ALL_THE_SAME = ("plan/*",)
"""Files whose seconds follow from a table of devices, not from the clock."""
SKIPPED_FILES = {
    "*/.*": "locks and notes of what is under way",
    "*manifest.json": "checksums of files that are compared themselves, and what they depend on by name",
    "*environment.json": "versions and hardware, which are this machine's",
    "*/run.json": "the form of a run's folder, which the old side does not write",
    "*/cache/stages/*.json": "what a stage depends on by name",
    "*.log": "what happened when",
    "*/log.txt": "what happened when",
    "*/lock": "the process that holds a folder",
    "*.svg": "pictures of numbers that are compared themselves",
}
"""Files that are not compared, by a pattern of their path, and why."""
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
"""Keys whose text is for people: where it was reworded, the numbers in it must be the same."""
STORED = re.compile(r"\b(pretrain|multitask|[a-z_]*scratch|finetune)-[0-9a-f]{12,64}\b")
"""The name of a stage in the store: its kind, and a checksum of what it depends on by name."""
HASH = re.compile(r"(?<=[-/])[0-9a-f]{12,64}(?=/|$)")
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")


@dataclass
class Compared:
    """What was compared in a case, and what is not equal."""

    files: int = 0
    tensors: int = 0
    numbers: int = 0
    unequal: list[str] = field(default_factory=list)

    def differ(self, where: str, old: Any, new: Any) -> None:
        """Note a difference."""
        self.unequal.append(f"{where}: base {_short(old)}, now {_short(new)}")


def compare_case(base: Path, now: Path) -> Compared:
    """Compare all that one case left on both sides."""
    found = Compared()
    old, new = (dict(_files(side)) for side in (base, now))
    for name, path in old.items():
        other = next((one for one in (name, *_elsewhere(name)) if one in new), None)
        if other is None:
            found.differ(name, "written", "missing")
            continue
        found.files += 1
        before = len(found.unequal)
        _compare_file(f"{base.name}/{name}", path, new.pop(other), found)
        found.unequal[before:] = [f"{name}: {one}" for one in found.unequal[before:]]
    for name in new:
        found.differ(name, "missing", "written")
    return found


def _files(side: Path) -> Iterator[tuple[str, Path]]:
    """The files of a case that are compared, by a name without checksums."""
    for path in sorted(side.rglob("*")):
        name = str(path.relative_to(side))
        if path.is_file() and not any(fnmatch(f"{side.name}/{name}", pattern) for pattern in SKIPPED_FILES):
            if path.name == "rows.arrow":  # in a folder that is named by a checksum of how they were read
                name = f"cache/rows {hashlib.sha256(path.read_bytes()).hexdigest()[:24]}"
            yield HASH.sub("", name), path


def _elsewhere(name: str) -> Iterator[str]:
    """Where a file may be by the words of the new side."""
    moved = name
    for pattern, place in FILES.items():
        moved = re.sub(pattern, place, moved)
    yield moved
    yield keys_in(moved)


def _compare_file(where: str, old: Path, new: Path, found: Compared) -> None:
    compare: Callable[..., None] = _READERS.get(old.suffix, _compare_bytes)
    compare(where, old, new, found)


def _compare_bytes(where: str, old: Path, new: Path, found: Compared) -> None:
    if old.read_bytes() != new.read_bytes():
        found.differ("bytes", f"{old.stat().st_size} of them", f"{new.stat().st_size} others")


def _compare_tensors(where: str, old: Path, new: Path, found: Compared) -> None:
    """Tensors by name: type, shape and bytes."""
    before, after = _tensors(old), _tensors(new)
    for name, tensor in before.items():
        other = next((one for one in _tensor_names(name) if one in after), None)
        if other is None:
            found.differ(name, "a tensor", "none")
            continue
        found.tensors += 1
        found.numbers += math.prod(tensor[1])
        if after[other] != tensor:
            found.differ(name, *_first_difference(tensor, after[other]))
        del after[other]
    for name in after:
        found.differ(name, "none", "a tensor")


def _tensors(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The tensors of a safetensors file as they lie in it."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    header.pop("__metadata__", None)
    return {
        name: (one["dtype"], tuple(one["shape"]), data[slice(*one["data_offsets"])]) for name, one in header.items()
    }


def _tensor_names(name: str) -> Iterator[str]:
    """The name of a tensor with its parts in new words."""
    known = synonyms()
    parts = [(part, *sorted(known.get(part, ()))) for part in name.split("/")]
    return map("/".join, itertools.product(*parts))


def _first_difference(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[str, str]:
    if old[:2] != new[:2]:
        return str(old[:2]), str(new[:2])
    place = next(index for index, both in enumerate(zip(old[2], new[2], strict=True)) if both[0] != both[1])
    count = sum(one != two for one, two in zip(old[2], new[2], strict=True))
    return f"byte {place} is {old[2][place]}", f"{new[2][place]}, and {count} of {len(old[2])} bytes differ"


def _compare_trees(where: str, old: Path, new: Path, found: Compared) -> None:
    _compare(where, "", _tree(old), _tree(new), found)


def _tree(path: Path) -> Any:
    """What a file holds, as nested lists, mappings and plain values."""
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
    """The plain part of a checkpoint as nested mappings; its tensors are compared by themselves."""
    if not isinstance(value, dict):
        return value
    [(kind, inner)] = value.items()
    if kind == "items":
        return {str(key): _state(item) for key, item in inner}
    return [_state(item) for item in inner] if kind in ("list", "tuple") else kind


def _compare(file: str, key: str, old: Any, new: Any, found: Compared) -> None:
    """Compare values of any kind."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if "sampling" in old or {"learn", "data", "task"} <= set(old):
            _compare_recipes(key, old, new, found)
        else:
            _compare_mappings(file, key, old, new, found)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, two) in enumerate(zip(old, new, strict=True)):
            _compare(file, f"{key}.{index}", one, two, found)
    else:
        found.numbers += _is_number(old)
        if not _same(key, old, new):
            found.differ(key, old, new)


def _compare_mappings(file: str, key: str, old: Mapping[str, Any], new: Mapping[str, Any], found: Compared) -> None:
    left = {name: value for name, value in new.items() if not _skipped(file, name)}
    for name, value in old.items():
        if _skipped(file, name):
            continue
        other = _name_in(left, name, value)
        if other is None:
            found.differ(f"{key}.{name}".strip("."), value, "missing")
        else:
            _compare(file, f"{key}.{name}".strip("."), value, left.pop(other), found)
    for name, value in left.items():
        found.differ(f"{key}.{name}".strip("."), "missing", value)


def _skipped(file: str, name: str) -> bool:
    if any(fnmatch(file, pattern) for pattern in COMPARED_ALL_THE_SAME):
        return False
    return any(name == key and fnmatch(file, pattern) for pattern, key in SKIPPED)


def _name_in(left: Mapping[str, Any], name: str, value: Any) -> str | None:
    """The name that a key has on the new side: its own, or another of the table, that of an equal value first."""
    if name in left:
        return name
    known = [one for one in (keys_in(name), *sorted(synonyms().get(name, ()))) if one in left]
    return next((one for one in known if _same(one, value, left[one])), known[0] if known else None)


def _compare_recipes(key: str, old: Mapping[str, Any], new: Mapping[str, Any], found: Compared) -> None:
    """Complete recipes by dotted key: the old one in new words, or in its own where the new side has them still."""
    both = dict(flat(old)), dict(flat(new))
    if both[0].keys() != both[1].keys():
        # What is said of several tasks at once stands in a file of its own.
        place = ("before.0.multitask.", "stages.0.multitask.") if "sampling" in old else ("", "")
        words = renewed({f"{place[0]}{name}": value for name, value in both[0].items()})
        both = dict(words), {f"{place[1]}{name}": value for name, value in both[1].items()}
    for name in sorted(both[0].keys() | both[1].keys()):
        plain = ".".join(part for part in name.split(".") if not part.isdigit())
        here = both[0].get(name, ADDED.get(plain, "missing"))
        there = both[1].get(name, GONE.get(plain, "missing"))
        found.numbers += _is_number(here)
        if not _same(name, here, there):
            found.differ(f"{key} {name}".strip(), here, there)


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


def _compare_prose(where: str, old: Path, new: Path, found: Compared) -> None:
    """Pages for people: every number with a decimal point, in whatever order they are told."""
    before, after = (Counter(NUMBER.findall(_plain(path.read_text(encoding="utf-8")))) for path in (old, new))
    found.numbers += before.total()
    if before != after:
        found.differ("numbers", dict(before - after), dict(after - before))


def _plain(page: str) -> str:
    """The text of a page, without styles, scripts, tags and versions of libraries."""
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
