"""A model folder from any source, checked before a library loads it.

Every file that loading a folder reads is checked here first: its kind, its size, its keys. Files that are never read,
such as a README or weights in another format, may be there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.models.security.config import check_config, check_keys
from warmstart.models.security.tensors import check_index, check_tensors
from warmstart.models.security.tokenizer import check_added_tokens, check_tokenizer, check_tokenizer_config
from warmstart.models.sentence_transformers_folder import DENSE, TRANSFORMER
from warmstart.storage.json_files import MEGABYTE, read_object

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
MODULES = (TRANSFORMER, DENSE)
"""Where the weights are of a model with a linear head of ours."""
ELSEWHERE = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
"""Files that make a library load another model than the folder's."""
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack", ".npz", ".joblib", ".gguf")
"""Weights in formats that can run code when loaded, or that are not read here."""
SETTINGS = ("generation_config.json", "processor_config.json", "preprocessor_config.json", "special_tokens_map.json")
VOCABULARIES = (
    "vocab.json",
    "added_tokens.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "bpe.codes",
    "tiktoken.model",
    "tekken.json",
)
TEMPLATES = (".jinja",)
MAX_FILES = 10_000
MAX_VOCABULARY_BYTES = 64 * MEGABYTE

_State = tuple[tuple[str, int, int, int, int], ...]
_checked: dict[str, _State] = {}


def check_folder(path: str | Path) -> None:
    """Refuse a model folder that could run code, reach outside itself or exhaust the memory.

    A folder that has not changed since it was last checked is not read again.

    Raises:
        ModelError: With the file and the key, what was found, what was expected.
    """
    # The folder itself may be a link: that is the user's own choice.
    folder = Path(path).resolve()
    state = tuple(_entries(folder, folder))
    if _checked.get(str(folder)) == state:
        return
    _check_weights(folder)
    present = {name for name, *_ in state}
    for name in ELSEWHERE:
        if name in present:
            raise ModelError(
                f"{folder / name}: found an adapter, which names another model to open; "
                "expected a complete model: merge the adapter into its model and save that"
            )
    if "config.json" in present:
        check_config(folder / "config.json")
    for name in SETTINGS:
        if name in present:
            check_keys(read_object(folder / name, ModelError), folder / name)
    if "tokenizer_config.json" in present:
        check_tokenizer_config(folder / "tokenizer_config.json")
    if "tokenizer.json" in present:
        check_tokenizer(folder / "tokenizer.json")
    if "added_tokens.json" in present:
        check_added_tokens(folder / "added_tokens.json")
    _check_sizes(folder, state)
    _checked[str(folder)] = state


def _entries(folder: Path, top: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """Everything in a folder, refusing what is neither file nor folder."""
    pending, count = [folder], 0
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                count += 1
                if count > MAX_FILES:
                    raise ModelError(f"{top}: found more than {MAX_FILES:,} files; this is no model folder")
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(Path(entry.path))
                elif stat.S_ISLNK(status.st_mode):
                    raise ModelError(
                        f"{entry.path!r}: found a link, expected a file: a model folder holds its own; "
                        "copy it with `cp -rL`, or name the model by its name on the Hub"
                    )
                elif not stat.S_ISREG(status.st_mode):
                    raise ModelError(f"{entry.path!r}: found a pipe, socket or device, expected a file; remove it")
                else:
                    name = str(Path(entry.path).relative_to(top))
                    yield name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _check_weights(folder: Path) -> None:
    """Weights are safetensors, complete and inside the folder; others may be beside them, unread."""
    if (folder / WEIGHTS).is_file():
        check_tensors(folder / WEIGHTS)
    elif (folder / INDEX).is_file():
        check_index(folder / INDEX)
    elif all((folder / part / WEIGHTS).is_file() for part in MODULES):
        for part in MODULES:
            check_tensors(folder / part / WEIGHTS)
    else:
        for path in sorted(folder.iterdir()):
            if path.suffix.lower() in PICKLES:
                raise ModelError(
                    f"{path}: found weights in a format that is not read here, as it may run code; expected {WEIGHTS}; "
                    "ask the author of the model for it, or convert it in a sandbox"
                )


def _check_sizes(folder: Path, state: _State) -> None:
    """Vocabularies and templates are read as a whole, so their size is limited."""
    for name, size, *_ in state:
        limit = MAX_VOCABULARY_BYTES if name in VOCABULARIES else MEGABYTE if name.endswith(TEMPLATES) else None
        if limit is not None and size > limit:
            raise ModelError(f"{folder / name}: found {size:,} bytes, expected at most {limit:,}")
