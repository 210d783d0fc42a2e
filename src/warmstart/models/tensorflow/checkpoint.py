"""A checkpoint of TensorFlow: tensors by name, in one data file or several, each with a checksum.

The format is that of `tensorflow/core/util/tensor_bundle` and `tensor_bundle.proto`. Nothing in it can run code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warmstart.errors import ModelError
from warmstart.models.tensorflow.crc32c import crc32c, unmask
from warmstart.models.tensorflow.table import read_table
from warmstart.models.tensorflow.wire import content, fields, whole

INDEX = ".index"
TYPES: dict[int, str] = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 14: "<u2", 19: "<f2"}
"""The types of tensors that are read, by their number in TensorFlow, as NumPy has them; 14 is bfloat16."""
BFLOAT16 = 14
HEADER = b""
MAX_SHARDS = 100_000
MAX_DIMENSIONS = 8

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor is, and what."""

    type: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    """As stored, masked."""
    partitioned: bool
    """Whether it is a variable in several parts, which are stored under names of their own."""


class Checkpoint:
    """A checkpoint, opened; tensors are read when they are asked for.

    Args:
        prefix: The path of its files without `.index` and `.data-00000-of-00001`.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.index = prefix.with_name(prefix.name + INDEX)
        table = read_table(self.index)
        if HEADER not in table:
            raise ModelError(f"{self.index}: found no header; it is not the index of a checkpoint")
        self.shards = self._header(table.pop(HEADER))
        self.entries = {self._name(key): self._entry(key, value) for key, value in table.items()}
        self._check_sizes()

    @classmethod
    def find(cls, folder: Path) -> Checkpoint:
        """The only checkpoint in a folder."""
        indexes = sorted(path for path in folder.glob(f"*{INDEX}") if path.is_file())
        if len(indexes) != 1:
            names = ", ".join(path.name for path in indexes) or "none"
            raise ModelError(
                f"{folder}: found {names}, expected one file *{INDEX}, as bert_model.ckpt{INDEX}; give a folder with "
                "the files of one checkpoint"
            )
        return cls(indexes[0].with_name(indexes[0].name.removesuffix(INDEX)))

    def read(self, name: str) -> Array:
        """A tensor; bfloat16 becomes fp32.

        Raises:
            ModelError: Its checksum is wrong, or its type not one of numbers.
        """
        entry, path = self.entries[name], self.shard_path(self.entries[name].shard)
        if entry.type not in TYPES or entry.partitioned:
            what = "is in several parts" if entry.partitioned else f"has the type {entry.type}, which is not read"
            raise ModelError(f"{self.index}: {name}: {what}; expected a whole tensor of numbers")
        dtype = np.dtype(TYPES[entry.type])
        if math.prod(entry.shape) * dtype.itemsize != entry.size:
            raise ModelError(
                f"{self.index}: {name}: found {entry.size:,} bytes for the shape {list(entry.shape)}, expected "
                f"{math.prod(entry.shape) * dtype.itemsize:,}"
            )
        with path.open("rb") as file:
            file.seek(entry.offset)
            data = file.read(entry.size)
        if crc32c(data) != unmask(entry.checksum):
            raise ModelError(
                f"{path}: {name}: the checksum of the {entry.size:,} bytes at byte {entry.offset:,} is wrong; the file "
                "is damaged: copy it again from where it came"
            )
        array = np.frombuffer(data, dtype=dtype).reshape(entry.shape)
        if entry.type == BFLOAT16:
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def shard_path(self, number: int) -> Path:
        """The path of a data file."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self.shards:05d}")

    def _check_sizes(self) -> None:
        """Refuse data files that are missing or end before a tensor does, whether it is read or not."""
        for name, entry in self.entries.items():
            path, end = self.shard_path(entry.shard), entry.offset + entry.size
            if not path.is_file():
                raise ModelError(f"{path}: found no such file, which holds {name}; copy all files of the checkpoint")
            if end > (size := path.stat().st_size):
                raise ModelError(
                    f"{path}: {name}: found {size:,} bytes, expected at least {end:,}; the file is cut off: copy it "
                    "again from where it came"
                )

    def _header(self, message: bytes) -> int:
        """The number of data files."""
        try:
            values = {number: value for number, value in fields(message) if number in {1, 2}}
            shards, big_endian = whole(values.get(1, 0)), whole(values.get(2, 0))
        except ValueError as error:
            raise ModelError(f"{self.index}: the header is damaged: {error}") from None
        if not 1 <= shards <= MAX_SHARDS or big_endian:
            raise ModelError(
                f"{self.index}: header: found {shards} data files, {'big' if big_endian else 'little'} endian, "
                f"expected 1 to {MAX_SHARDS:,}, little endian"
            )
        return shards

    def _name(self, key: bytes) -> str:
        try:
            return key.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"{self.index}: found the name {key[:40]!r}, expected UTF-8") from None

    def _entry(self, key: bytes, message: bytes) -> TensorEntry:
        name = self._name(key)
        values: dict[int, int] = {}
        shape: tuple[int, ...] = ()
        partitioned = False
        try:
            for number, value in fields(message):
                if number == 2:
                    shape = _shape(content(value))
                elif number == 7:
                    partitioned = True
                else:
                    values[number] = whole(value)
        except ValueError as error:
            raise ModelError(f"{self.index}: {name}: its entry is damaged: {error}") from None
        kind, shard, offset, size, checksum = (values.get(number, 0) for number in (1, 3, 4, 5, 6))
        if not 0 <= shard < self.shards or offset < 0 or size < 0:
            raise ModelError(
                f"{self.index}: {name}: found {size} bytes at byte {offset} of data file {shard}, of {self.shards}"
            )
        return TensorEntry(kind, shape, shard, offset, size, checksum, partitioned)


def _shape(message: bytes) -> tuple[int, ...]:
    """The sizes of a tensor's dimensions."""
    sizes: list[int] = []
    for number, value in fields(message):
        if number == 2:
            sizes.append(next((whole(size) for inner, size in fields(content(value)) if inner == 1), 0))
    if len(sizes) > MAX_DIMENSIONS or any(size < 0 for size in sizes):
        raise ValueError(f"found the shape {sizes[:20]}")
    return tuple(sizes)
