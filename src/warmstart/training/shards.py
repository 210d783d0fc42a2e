"""The tensors of a checkpoint that no process holds whole: each writes its share, and any number may read them.

They are safetensors, written and read by `torch.distributed.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import Shard
from torch.distributed.tensor import empty as empty_sharded

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

FOLDER = "shards"


def save_shards(tensors: dict[str, torch.Tensor], folder: Path | None = None) -> None:
    """Write each process's share of the tensors into a checkpoint's folder; every process must take part.

    Args:
        folder: The folder, in the main process; the others learn of it from there.
    """
    place = [str(folder / FOLDER) if folder else ""]
    torch.distributed.broadcast_object_list(place, src=0)
    with _own_errors():
        save(dict(tensors), storage_writer=HuggingFaceStorageWriter(place[0], save_distributed=True))


def load_shards(names: Iterable[str], folder: Path, mesh: DeviceMesh | None) -> dict[str, torch.Tensor]:
    """Read what `save_shards` wrote, on however many processes.

    Args:
        mesh: The processes to shard over, all of which must take part; None for whole tensors in this process alone.
    """
    reader = HuggingFaceStorageReader(str(folder / FOLDER))
    stored = reader.read_metadata().state_dict_metadata
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        about = stored.get(name)
        if not isinstance(about, TensorStorageMetadata):
            raise ValueError(f"found no tensor {name[:80]!r}")
        dtype = about.properties.dtype
        if mesh is None:
            tensors[name] = torch.empty(about.size, dtype=dtype)
        else:
            tensors[name] = empty_sharded(about.size, dtype=dtype, device_mesh=mesh, placements=[Shard(0)])
    with _own_errors():
        load(tensors, storage_reader=reader, no_dist=mesh is None)
    return tensors


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise what went wrong in a process, as a full disk, and not the exception that carries it to all of them."""
    try:
        yield
    except CheckpointException as error:
        failures = [failure for failure, _ in error.failures.values()]
        raise (failures[0] if failures else RuntimeError(str(error))) from None
