"""Where the blocks of a model are, and what runs before and after them.

The model's structure shows it: its blocks are the one `ModuleList` of modules of one class in the encoder, as long as
the configuration says; what is registered before that list feeds it (the embeddings), and what is registered after it
or outside the encoder follows it (the head). An `nn.Embedding` of the encoder always feeds the blocks, wherever it is
registered. What the structure does not show is an entry in `architectures.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import ArchitectureSpec, encoder_config, spec_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True, eq=False)
class Structure:
    """A model taken apart: its distinct blocks, how often each runs, and the position of every module."""

    blocks: tuple[nn.Module, ...]
    runs: tuple[int, ...]
    positions: dict[str, int]
    """By dotted name of a module, or of a parameter outside of all modules: 0 for the embeddings, 1 for the first
    block, and so on up to the head."""
    config: PretrainedConfig | None
    """That of the encoder; None for a module that has none."""

    @classmethod
    def of(cls, model: nn.Module) -> Structure:
        """Take a model apart, or raise a `ModelError` that lists the candidates for its blocks."""
        host = _host(model)
        config = encoder_config(getattr(host, "config", None))
        spec = spec_of(config)
        base = getattr(host, "base_model", host)
        prefix = next(name for name, module in model.named_modules() if module is base)
        stack = _join(prefix, _stack(base, config, spec))
        blocks, runs, positions = _split(model.get_submodule(stack), stack, spec, config)
        head = len(blocks) + 1
        for name, feeds in _beside(model, prefix, stack):
            positions[name] = 0 if feeds else head
        # The specs come last: they correct the structure.
        holder = stack.rpartition(".")[0]
        positions |= {_join(holder, name): 0 for name in spec.embeddings}
        positions |= {_join(holder, name): 1 for name in spec.first_block}
        positions |= {_join(holder, name): head for name in spec.head}
        return cls(blocks, runs, positions, config)

    def position(self, name: str) -> int:
        """Where a parameter belongs: the position of the nearest module that holds it."""
        while name and name not in self.positions:
            name = name.rpartition(".")[0]
        return self.positions[name]


def _host(model: nn.Module) -> nn.Module:
    """The transformers model inside wrappers or under a custom head; the model itself if there is none."""
    hosts: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        known = isinstance(getattr(getattr(module, "config", None), "model_type", None), str)
        if known and not any(_inside(name, other) for other in hosts):
            hosts[name] = module
    if len(hosts) > 1:
        first = next(iter(hosts))
        raise ModelError(
            f"{type(model).__name__} holds {len(hosts)} encoders ({', '.join(hosts)}); a layer map shows one.\n"
            f"Map each by itself, for example LayerMap.of(model.get_submodule({first!r}))."
        )
    return next(iter(hosts.values()), model)


def _stack(base: nn.Module, config: PretrainedConfig | None, spec: ArchitectureSpec) -> str:
    """The name of the list that holds the blocks."""
    if spec.blocks:
        return spec.blocks
    lists: dict[str, nn.ModuleList] = {}
    for name, module in base.named_modules():
        if isinstance(module, nn.ModuleList) and not any(_inside(name, other) for other in lists):
            alike = len({type(block) for block in module}) == 1
            if alike and next(module.parameters(), None) is not None:
                lists[name] = module
    length = None if spec.shared_blocks else getattr(config, "num_hidden_layers", None)
    fitting = [name for name, module in lists.items() if length in (None, len(module))]
    # A decoder must never pass for a head; its config may deny it, when it was saved from the encoder alone.
    decoder = getattr(config, "is_encoder_decoder", False) or any("decoder" in n.split(".") for n in lists)
    if len(fitting) == 1 and (len(lists) == 1 or not decoder):
        return fitting[0]
    candidates = ", ".join(f"{name} ({len(module)} x {type(module[0]).__name__})" for name, module in lists.items())
    expected = f"one ModuleList of {length} blocks, as config.num_hidden_layers says" if length else "one ModuleList"
    key, value = getattr(config, "model_type", "my-model"), next(iter(lists), "name.of.list")
    raise ModelError(
        f"Cannot tell which part of {type(base).__name__} holds its blocks.\n"
        f"Found: {candidates or 'no ModuleList of modules of one class with parameters'}.\n"
        f"Expected: {expected}.\n"
        "What to do: of an encoder-decoder load the encoder (T5EncoderModel, T5ForTokenClassification); if "
        "blocks were removed, set config.num_hidden_layers; for a new architecture add an entry to "
        "warmstart.models.architectures.ARCHITECTURES, for example "
        f"ARCHITECTURES[{key!r}] = ArchitectureSpec(blocks={value!r})."
    )


def _split(
    stack: nn.Module, name: str, spec: ArchitectureSpec, config: PretrainedConfig
) -> tuple[tuple[nn.Module, ...], tuple[int, ...], dict[str, int]]:
    """The distinct blocks, how often each runs, and their positions, counted from 1."""
    listed = dict(stack._modules.items())  # named_children would drop a block that is listed twice
    blocks = tuple(stack.children())
    order = [block for block in listed.values() if block is not None]
    if spec.shared_blocks:
        passes = int(config.num_hidden_layers)
        order = [blocks[int(run / (passes / len(blocks)))] for run in range(passes)]
    runs = Counter(id(block) for block in order)
    number = {id(block): position for position, block in enumerate(blocks, start=1)}
    positions = {_join(name, key): number[id(block)] for key, block in listed.items()}
    return blocks, tuple(runs[id(block)] for block in blocks), positions


def _beside(model: nn.Module, prefix: str, stack: str) -> Iterator[tuple[str, bool]]:
    """The name of everything beside the path to the blocks, and whether it feeds them."""
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
