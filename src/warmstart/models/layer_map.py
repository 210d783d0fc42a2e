"""The layer map: a model seen as embeddings, blocks from bottom to top, and head.

Every layer-wise idea is written once against the map, never against a model's name:

    layers = LayerMap.of(model)
    layers.freeze()                      # only the head learns
    layers.freeze_to(-2)                 # and the topmost block
    AdamW(layers.param_groups(rate=2e-5, decay=0.95, weight_decay=0.01))
    print(layers)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from torch import nn

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.learning_rates import layer_rates, param_groups
from warmstart.models.structure import Structure

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, eq=False)
class Group:
    """One layer of the map: the embeddings, a block, or the head."""

    name: str
    what: str
    """Class names of its modules."""
    parameters: dict[str, nn.Parameter] = field(repr=False)
    """By their full dotted name in the model; a tied parameter is here under one of its names only."""
    modules: tuple[str, ...]
    """Dotted names of the modules it consists of."""
    module: nn.Module | None = field(default=None, repr=False)
    """The block itself; embeddings and head are no single module."""
    runs: int = 1
    """How often one forward pass runs it: more than once where blocks are shared, as in ALBERT."""

    @property
    def size(self) -> int:
        """How many numbers its parameters hold."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    @property
    def trainable(self) -> int:
        """How many of them are learned at present."""
        return sum(p.numel() for p in self.parameters.values() if p.requires_grad)


@dataclass(frozen=True, eq=False)
class LayerMap:
    """A model seen as embeddings, blocks from bottom to top, and head; each parameter is in one group.

    What runs before the blocks or is shared by all of them belongs to the embeddings; what runs after the
    last block (final norm, pooler, classifier) belongs to the head, which may be empty. A tied parameter,
    such as the output matrix of a masked language model, belongs to the lowest group that uses it.
    """

    embeddings: Group
    blocks: tuple[Group, ...]
    head: Group
    _places: dict[str, int] = field(repr=False)

    @classmethod
    def of(cls, model: nn.Module) -> LayerMap:
        """Map a transformers model, a module that wraps one, or any module with one list of blocks."""
        structure = Structure.of(model)
        every = list(model.named_parameters(remove_duplicate=False))
        lowest: dict[int, int] = {}
        for name, parameter in every:
            place = structure.place(name)
            lowest[id(parameter)] = min(place, lowest.get(id(parameter), place))
        top = len(structure.blocks) + 1
        parameters: list[dict[str, nn.Parameter]] = [{} for _ in range(top + 1)]
        for name, parameter in model.named_parameters():
            parameters[lowest[id(parameter)]][name] = parameter
        modules: list[dict[str, nn.Module]] = [{} for _ in range(top + 1)]
        for name, module in model.named_modules():
            if name in structure.places and next(module.parameters(), None) is not None:
                modules[structure.places[name]][name] = module

        def group(name: str, place: int, **block: Any) -> Group:
            what = ", ".join(dict.fromkeys(type(module).__name__ for module in modules[place].values()))
            return Group(name, what, parameters[place], tuple(modules[place]), **block)

        parts = enumerate(zip(structure.blocks, structure.runs, strict=True))
        return cls(
            group("embeddings", 0),
            tuple(group(f"block {i}", i + 1, module=block, runs=runs) for i, (block, runs) in parts),
            group("head", top),
            {name: lowest[id(parameter)] for name, parameter in every},
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups from bottom to top: embeddings, blocks, head."""
        return (self.embeddings, *self.blocks, self.head)

    @property
    def depth(self) -> int:
        """How many blocks a text passes through, a shared block counted once for each run."""
        return sum(block.runs for block in self.blocks)

    def group_of(self, parameter_name: str) -> Group:
        """Say which group a parameter belongs to; a tied parameter is known by each of its names."""
        if parameter_name not in self._places:
            raise ModelError(f"The model has no parameter {parameter_name!r}: {nearest(parameter_name, self._places)}")
        return self.groups[self._places[parameter_name]]

    def freeze_to(self, n: int) -> None:
        """Let the groups from index `n` up learn and hold those below still; -1 is the head, as in a list."""
        count = len(self.groups)
        if not -count <= n <= count:
            raise RecipeError(f"Cannot freeze to group {n}: this model has {count}, so {-count} to {count} is meant.")
        first = n if n >= 0 else count + n
        for index, group in enumerate(self.groups):
            for parameter in group.parameters.values():
                parameter.requires_grad_(index >= first)

    def freeze(self) -> None:
        """Hold everything still but the head."""
        self.freeze_to(-1)

    def unfreeze(self) -> None:
        """Let everything learn."""
        self.freeze_to(0)

    def rates(self, rate: float, decay: float = 1.0, head_rate: float | None = None) -> dict[str, float]:
        """The learning rate of each group by its name: `decay` times that of the group above; see `encoders.rates`."""
        found = layer_rates(len(self.groups), rate, decay, head_rate)
        return {group.name: each for group, each in zip(self.groups, found, strict=True)}

    def param_groups(
        self, rate: float, decay: float = 1.0, head_rate: float | None = None, weight_decay: float = 0.0
    ) -> list[dict[str, Any]]:
        """Parameter groups for any optimizer, from embeddings to head, frozen parameters included.

        Args:
            rate: The head's learning rate, from which those below follow.
            decay: What a group's rate is multiplied by to give that of the group below.
            head_rate: A rate for the head alone.
            weight_decay: For all but norms and biases.
        """
        rates = layer_rates(len(self.groups), rate, decay, head_rate)
        return param_groups(self.groups, rates, weight_decay)

    def as_rows(self) -> list[dict[str, Any]]:
        """Give the table as plain values, ready for JSON."""
        total = sum(group.size for group in self.groups) or 1
        return [
            {
                "layer": group.name,
                "what": group.what,
                "runs": group.runs,
                "parameters": group.size,
                "share": group.size / total,
                "trainable": group.trainable,
            }
            for group in self.groups
        ]

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table("layer", "what")
        for column in ("parameters", "share", "trainable"):
            table.add_column(column, justify="right")
        for row in self.as_rows():
            layer = row["layer"] if row["runs"] == 1 else f"{row['layer']} (run {row['runs']} times)"
            numbers = (f"{row['parameters']:,}", f"{row['share']:.1%}", f"{row['trainable']:,}")
            table.add_row(layer, row["what"], *numbers)
        return table

    def __str__(self) -> str:
        from rich.console import Console

        text = StringIO()
        Console(file=text, width=100).print(self)
        return text.getvalue().rstrip("\n")
