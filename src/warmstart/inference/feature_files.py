"""Vectors to a file: Parquet or NumPy's own format, written as they come and published when complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.storage.files import atomic_file, open_atomic_binary

if TYPE_CHECKING:
    from warmstart.inference.token_features import TokenVectors

Chunks = Iterable[tuple[list[str], npt.NDArray[np.float32]]]
"""Places of some rows, and their vectors."""

StoredVectors: TypeAlias = npt.NDArray[np.floating[Any]]
FloatType: TypeAlias = type[np.float32] | type[np.float16]
KINDS: dict[str, FloatType] = {"fp32": np.float32, "fp16": np.float16}


def write_vectors(chunks: Chunks, path: Path, shape: tuple[int, ...], store: str = "fp32") -> int:
    """Write vectors to a file, which is complete or absent; returns how many.

    A Parquet file has `row`, where a text came from, and `vector`, a list of one length (of such lists, where a text
    has several layers); an `.npy` file has the vectors alone, in the order of the rows.

    Args:
        shape: The shape of one vector.
        store: `fp32`, or `fp16` for half the size.
    """
    check_out(path, store)
    return _WRITERS[path.suffix](_stored(chunks, KINDS[store]), path, shape, KINDS[store])


def check_out(path: Path, store: str, tokens: bool = False) -> None:
    """Refuse a file or a precision that cannot be written, before anything is computed.

    Args:
        tokens: Whether there is a vector for each token.
    """
    if tokens and path.suffix == ".npy":
        raise RecipeError(
            f"--out {path}: an .npy file cannot say which token each vector is of; with --pooling none, give .parquet"
        )
    if path.suffix not in _WRITERS:
        raise RecipeError(f"--out {path}: found suffix {path.suffix!r}; {nearest(path.suffix, _WRITERS)}")
    if not path.parent.is_dir():
        raise RecipeError(f"--out {path}: there is no folder {path.parent}; make it first")
    if store not in KINDS:
        raise RecipeError(f"--dtype: found {store!r}; {nearest(store, KINDS)}")


def write_token_vectors(
    chunks: Iterable[tuple[list[str], TokenVectors]], path: Path, shape: tuple[int, ...], store: str = "fp32"
) -> int:
    """Write the vectors of tokens to a Parquet file, which is complete or absent; returns how many.

    It has a row for each token: `row`, where its text came from, `slice`, `segment`, `token`, `start`, `end` and
    `vector`, as in `TokenVectors`.

    Args:
        chunks: Where the text of each token came from, and the tokens.
    """
    check_out(path, store, tokens=True)

    def batches() -> Iterator[list[Any]]:
        for rows, chunk in chunks:
            vectors = _as_stored(rows, chunk.vectors, KINDS[store])
            yield [rows, chunk.slices, chunk.segments, chunk.tokens, chunk.starts, chunk.ends, vectors]

    names = {"row": "string", "slice": "int32", "segment": "int8", "token": "string", "start": "int32", "end": "int32"}
    return _write_parquet(batches(), path, names, (shape, KINDS[store]))


def _stored(chunks: Chunks, kind: FloatType) -> Iterator[tuple[list[str], StoredVectors]]:
    """The vectors as they are stored."""
    for locations, vectors in chunks:
        yield locations, _as_stored(locations, vectors, kind)


def _as_stored(locations: Sequence[str], vectors: npt.NDArray[np.float32], kind: FloatType) -> StoredVectors:
    """Vectors as they are stored, refusing numbers that a smaller format cannot hold."""
    with np.errstate(over="ignore"):
        small: StoredVectors = vectors.astype(kind, copy=False)
    finite = np.isfinite(vectors).reshape(len(small), -1).all(axis=1)
    lost = np.isinf(small).reshape(len(small), -1).any(axis=1) & finite
    if lost.any():
        where = locations[int(lost.argmax())]
        raise ModelError(f"{where}: its vector has a number that fp16 cannot hold (past 65504); use --dtype fp32")
    return small


def _parquet(chunks: Chunks, path: Path, shape: tuple[int, ...], kind: FloatType) -> int:
    return _write_parquet(map(list, chunks), path, {"row": "string"}, (shape, kind))


def _write_parquet(
    batches: Iterable[list[Any]], path: Path, names: Mapping[str, str], vector: tuple[tuple[int, ...], FloatType]
) -> int:
    """Write batches of columns, the vectors last; returns how many rows there are.

    Args:
        names: The type of each column but the last.
        vector: The shape and type of a vector.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape, kind = vector
    stored = pa.from_numpy_dtype(kind)
    for size in reversed(shape):
        stored = pa.list_(stored, size)
    types = [getattr(pa, name)() for name in names.values()]
    schema = pa.schema([*zip(names, types, strict=True), ("vector", stored)])
    count = 0
    with atomic_file(path) as staging, pq.ParquetWriter(staging, schema) as writer:
        for *columns, vectors in batches:
            array = pa.array(vectors.reshape(-1))
            for size in reversed(shape):
                array = pa.FixedSizeListArray.from_arrays(array, size)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            writer.write_batch(pa.record_batch([*arrays, array], schema=schema))
            count += len(vectors)
    return count


def _npy(chunks: Chunks, path: Path, shape: tuple[int, ...], kind: FloatType) -> int:
    count = 0
    with open_atomic_binary(path) as file:
        _header(file, count, shape, kind)
        for locations, vectors in chunks:
            file.write(np.ascontiguousarray(vectors).data)
            count += len(locations)
        # NumPy leaves room in the header for a count of any size, so that it can be put right in place.
        file.seek(0)
        _header(file, count, shape, kind)
    return count


def _header(file: BinaryIO, count: int, shape: tuple[int, ...], kind: FloatType) -> None:
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": (count, *shape)}
    np.lib.format.write_array_header_1_0(file, about)


_WRITERS: dict[str, Callable[..., int]] = {".parquet": _parquet, ".npy": _npy}
