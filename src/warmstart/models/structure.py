"""Where the blocks of a model are, and what runs before and after them.

The answer comes from the model's structure: its blocks are the one `ModuleList` of like modules in the
encoder, as long as the configuration says; what is registered before that list feeds it (the embeddings),
and what is registered after it or outside the encoder follows it (the head). An `nn.Embedding` of the encoder
always feeds the blocks, wherever it is registered. What no structure tells is a row in `architectures.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import Row, encoder_config, row_of


@dataclass(frozen=True, eq=False)
class Structure:
    """A model taken apart: its distinct blocks, how often each runs, and the place of every piece."""

    blocks: tuple[nn.Module, ...]
    runs: tuple[int, ...]
    places: dict[str, int]
    """By dotted name of a module or lone parameter: 0 embeddings, 1 the first block, the last the head."""

    @classmethod
    def of(cls, model: nn.Module) -> Structure:
        """Take a model apart, or raise a `ModelError` that says what was found."""
        host = _host(model)
        config = encoder_config(getattr(host, "config", None))
        row = row_of(config)
        base = getattr(host, "base_model", host)
        prefix = next(name for name, module in model.named_modules() if module is base)
        stack = _join(prefix, _stack(base, config, row))
        blocks, runs, places = _split(model.get_submodule(stack), stack, row, config)
        head = len(blocks) + 1
        for name, feeds in _beside(model, prefix, stack):
            places[name] = 0 if feeds else head
        # Rows come last: they say where the structure is wrong.
        holder = stack.rpartition(".")[0]
        places |= {_join(holder, name): 0 for name in row.embeddings}
        places |= {_join(holder, name): 1 for name in row.first_block}
        places |= {_join(holder, name): head for name in row.head}
        return cls(blocks, runs, places)

    def place(self, name: str) -> int:
        """Say where a parameter belongs: the place of the nearest piece that holds it."""
        while name and name not in self.places:
            name = name.rpartition(".")[0]
        return self.places[name]


def _host(model: nn.Module) -> nn.Module:
    """Find the transformers model inside wrappers or a hand-made head; a model without any is its own."""
    hosts: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        known = isinstance(getattr(getattr(module, "config", None), "model_type", None), str)
        if known and not any(_inside(name, other) for other in hosts):
            hosts[name] = module
    if len(hosts) > 1:
        first = next(iter(hosts))
        raise ModelError(
            f"{type(model).__name__} holds {len(hosts)} encoders ({', '.join(hosts)}); a map shows one.\n"
            f"Map each by itself, for example LayerMap.of(model.get_submodule({first!r}))."
        )
    return next(iter(hosts.values()), model)


def _stack(base: nn.Module, config: Any, row: Row) -> str:
    """Name the list that holds the blocks."""
    if row.blocks:
        return row.blocks
    lists: dict[str, nn.ModuleList] = {}
    for name, module in base.named_modules():
        if isinstance(module, nn.ModuleList) and not any(_inside(name, other) for other in lists):
            alike = len({type(block) for block in module}) == 1
            if alike and next(module.parameters(), None) is not None:
                lists[name] = module
    length = None if row.shared else getattr(config, "num_hidden_layers", None)
    fitting = [name for name, module in lists.items() if length in (None, len(module))]
    # A decoder must never pass for a head; its config may deny it, when it was saved from the encoder alone.
    decoder = getattr(config, "is_encoder_decoder", False) or any("decoder" in n.split(".") for n in lists)
    if len(fitting) == 1 and (len(lists) == 1 or not decoder):
        return fitting[0]
    found = ", ".join(f"{name} ({len(module)} x {type(module[0]).__name__})" for name, module in lists.items())
    wanted = f"one ModuleList of {length} blocks, as config.num_hidden_layers says" if length else "one ModuleList"
    key, value = getattr(config, "model_type", "my-model"), next(iter(lists), "name.of.list")
    raise ModelError(
        f"Cannot tell which part of {type(base).__name__} holds its blocks.\n"
        f"Found: {found or 'no ModuleList of like modules with parameters'}.\n"
        f"Expected: {wanted}.\n"
        "What to do: of an encoder-decoder load the encoder (T5EncoderModel, T5ForTokenClassification); if "
        "blocks were cut off, set config.num_hidden_layers; for a new architecture add a row to "
        "warmstart.models.architectures.ARCHITECTURES, for example "
        f"ARCHITECTURES[{key!r}] = Row(blocks={value!r})."
    )


def _split(
    stack: nn.Module, name: str, row: Row, config: Any
) -> tuple[tuple[nn.Module, ...], tuple[int, ...], dict[str, int]]:
    """Give the distinct blocks, how often each is run, and their places, counted from 1."""
    listed = dict(stack._modules.items())  # named_children would drop a block that is listed twice
    blocks = tuple(stack.children())
    order = [block for block in listed.values() if block is not None]
    if row.shared:
        passes = int(config.num_hidden_layers)
        order = [blocks[int(turn / (passes / len(blocks)))] for turn in range(passes)]
    runs = Counter(id(block) for block in order)
    number = {id(block): place for place, block in enumerate(blocks, start=1)}
    places = {_join(name, key): number[id(block)] for key, block in listed.items()}
    return blocks, tuple(runs[id(block)] for block in blocks), places


def _beside(model: nn.Module, prefix: str, stack: str) -> Iterator[tuple[str, bool]]:
    """Name everything beside the way down to the blocks, and say whether it feeds them."""
    here, module = "", model
    for step in stack.split("."):
        encoder = _inside(here, prefix)
        for name, _ in module.named_parameters(here, recurse=False, remove_duplicate=False):
            yield name, encoder
        before = True
        for key, child in module._modules.items():
            if key == step:
                before = False
            else:
                yield _join(here, key), encoder and (before or isinstance(child, nn.Embedding))
        here, module = _join(here, step), module.get_submodule(step)


def _inside(name: str, other: str) -> bool:
    return other in ("", name) or name.startswith(f"{other}.")


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
