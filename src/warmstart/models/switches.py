"""Attention heads and blocks switched off, by forward hooks that the layer map finds a place for.

    with HeadsOff(model, {3: [7], 5: ALL}):      # head 7 of block 3, and all heads of block 5
        model(**inputs)
    with BlocksOff(model, [6]):                  # block 6 returns what it reads
        model(**inputs)

Blocks and heads are counted from 0, as by `warmstart show MODEL`. A head that is off gives zeros where its block joins
the heads, as if the weights that read it were 0 ("Are Sixteen Heads Really Better than One?", Michel et al. 2019). The
hooks carry gradient, so that a model can be trained with heads off, and are gone when the context ends.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from warmstart.errors import ModelError, RecipeError
from warmstart.models.architectures import spec_of
from warmstart.models.layer_map import LayerMap

ALL = "*"
"""All heads of a block."""


def heads_joined(layers: LayerMap) -> list[nn.Module]:
    """The module of each block that reads the outputs of all its heads side by side."""
    name, kind = spec_of(layers.config).heads_joined, getattr(layers.config, "model_type", "this model")
    if not name:
        raise ModelError(
            f"{kind}: no module is known that reads the outputs of a block's attention heads, so none can be switched "
            "off. If there is one, name it in warmstart.models.architectures.ARCHITECTURES, for example "
            f"ARCHITECTURES[{kind!r}] = ArchitectureSpec(heads_joined='attention.output.dense')."
        )
    return [_block(group.module).get_submodule(name) for group in layers.blocks]


def count_heads(layers: LayerMap) -> int:
    """How many attention heads a block has."""
    return int(getattr(layers.config, "num_attention_heads", 0))


class _Hooks(AbstractContextManager[Any]):
    """Hooks that are there while the context lasts."""

    def __init__(self) -> None:
        self.handles: list[RemovableHandle] = []

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @abstractmethod
    def attach(self) -> None:
        """Put the hooks on, for good."""

    def remove(self) -> None:
        """Take them off again."""
        for handle in self.handles:
            handle.remove()
        self.handles = []


class HeadGates(_Hooks):
    """What each head gives, times a number: 1 for a head that is on, 0 for one that is off.

    Args:
        model: A transformers model, or a module that wraps one.
        gates: Of shape (blocks, heads); ones by default. Those that require a gradient get one.
    """

    def __init__(self, model: nn.Module, gates: torch.Tensor | None = None) -> None:
        super().__init__()
        layers = LayerMap.of(model)
        self.modules = heads_joined(layers)
        shape = (len(self.modules), count_heads(layers))
        self.gates = torch.ones(shape) if gates is None else gates
        if self.gates.shape != shape:
            raise ModelError(f"gates: found the shape {tuple(self.gates.shape)}, expected {shape}, blocks and heads")

    def attach(self) -> None:
        for module, gates in zip(self.modules, self.gates, strict=True):
            # A block whose heads are all on is left alone.
            if gates.requires_grad or bool((gates != 1).any()):
                self.handles.append(module.register_forward_pre_hook(_gated(gates), prepend=True))


class HeadsOff(HeadGates):
    """Heads that give nothing.

    Args:
        heads: By the number of a block, the numbers of its heads, or `ALL`.
    """

    def __init__(self, model: nn.Module, heads: Mapping[int, Iterable[int] | str]) -> None:
        super().__init__(model)
        blocks, count = self.gates.shape
        for block, some in heads.items():
            _check(block, blocks, "block")
            for head in range(count) if some == ALL else map(int, some):
                _check(head, count, "head")
                self.gates[block, head] = 0


class BlocksOff(_Hooks):
    """Blocks that return the hidden states they read; what else a block returns stays as it is.

    Args:
        blocks: The numbers of the blocks.
    """

    def __init__(self, model: nn.Module, blocks: Iterable[int]) -> None:
        super().__init__()
        layers = LayerMap.of(model)
        self.modules: list[nn.Module] = []
        for block in sorted(set(blocks)):
            _check(block, len(layers.blocks), "block")
            if layers.blocks[block].runs > 1:
                raise ModelError(
                    f"block {block}: its weights are shared by {layers.blocks[block].runs} layers, so that none can be "
                    "switched off alone; switch heads off instead"
                )
            self.modules.append(_block(layers.blocks[block].module))

    def attach(self) -> None:
        for module in self.modules:
            # Before all other hooks, so that those which record hidden states see the same as the next block.
            self.handles.append(module.register_forward_hook(_skip, prepend=True, with_kwargs=True))


@dataclass(frozen=True)
class Switches:
    """Heads and blocks that are off; `str` gives them as `parse_switches` reads them."""

    heads: Mapping[int, Sequence[int] | str]
    blocks: Sequence[int] = ()

    def __str__(self) -> str:
        every = [(block, [ALL] if some == ALL else some) for block, some in self.heads.items()]
        return ",".join([*(f"{block}.{head}" for block, some in every for head in some), *map(str, self.blocks)])


def parse_switches(text: str) -> Switches:
    """Heads and blocks as in `3.7,5.*,6`: head 7 of block 3, all heads of block 5, and the whole of block 6."""
    heads: dict[int, list[int] | str] = {}
    blocks: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        block, dot, head = part.partition(".")
        if not block.isdecimal() or (dot and head != ALL and not head.isdecimal()):
            raise RecipeError(
                f"without: found {part!r}; expected heads and blocks such as 3.7 (head 7 of block 3), 5.* (all heads "
                "of block 5) or 6 (the whole block 6), with commas between them"
            )
        if not dot:
            blocks.append(int(block))
        elif head == ALL:
            heads[int(block)] = ALL
        elif (earlier := heads.setdefault(int(block), [])) != ALL:
            heads[int(block)] = [*map(int, earlier), int(head)]
    if not heads and not blocks:
        raise RecipeError("without: names no head and no block; give some, such as 3.7,5.*,6")
    return Switches(heads, blocks)


def switch_off(model: nn.Module, switches: Switches) -> None:
    """Switch heads and blocks of a model off for good."""
    if switches.heads:
        HeadsOff(model, switches.heads).attach()
    if switches.blocks:
        BlocksOff(model, switches.blocks).attach()


def _gated(gates: torch.Tensor) -> Any:
    def gate(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        joined, *others = inputs
        by_head = joined.reshape(*joined.shape[:-1], len(gates), -1)
        return (by_head * gates.to(joined).unsqueeze(-1)).flatten(-2), *others

    return gate


def _skip(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], outputs: Any) -> Any:
    """What a block reads, the first of its arguments, in the place of the hidden states that it returns."""
    states = next(iter((*inputs, *named.values())))
    return (states, *outputs[1:]) if isinstance(outputs, tuple) else states


def _block(module: nn.Module | None) -> nn.Module:
    assert module is not None, "a block of a layer map is a module"
    return module


def _check(number: int, count: int, what: str) -> None:
    if not 0 <= number < count:
        raise ModelError(f"{what} {number}: this model has {count}; expected 0 to {count - 1}")
