"""The layer map: a model seen as embeddings, blocks from bottom to top, and head.

Every layer-wise technique is written once against the map, never against a model's name:

    layers = LayerMap.of(model)
    layers.freeze()                      # train the head alone
    layers.freeze_to(-2)                 # and the top block
    AdamW(layers.param_groups(learning_rate=2e-5, lr_decay=0.95, weight_decay=0.01))
    print(layers)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, TypedDict

from torch import nn

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.layer_group import LayerGroup
from warmstart.models.learning_rates import ParamGroup, layer_learning_rates, param_groups
from warmstart.models.structure import Structure
from warmstart.runtime import notebook_html

if TYPE_CHECKING:
    from rich.table import Table
    from transformers import PretrainedConfig


class LayerRow(TypedDict):
    """A layer in plain values, ready for JSON."""

    layer: str
    type: str
    runs: int
    parameters: int
    share: float
    trainable: int


@dataclass(frozen=True, eq=False, repr=False)
class LayerMap:
    """A model seen as embeddings, blocks from bottom to top, and head; each parameter is in one group.

    What runs before the blocks or is shared by all of them belongs to the embeddings; what runs after the
    last block (final norm, pooler, classifier) belongs to the head, which may be empty. A tied parameter,
    such as the output matrix of a masked language model, belongs to the lowest group that uses it.
    """

    embeddings: LayerGroup
    blocks: tuple[LayerGroup, ...]
    head: LayerGroup
    _positions: dict[str, int] = field(repr=False)
    config: PretrainedConfig | None = field(default=None, repr=False)
    """That of the encoder; None for a module that has none."""

    @classmethod
    def of(cls, model: nn.Module) -> LayerMap:
        """Map a transformers model, a module that wraps one, or any module with one list of blocks."""
        structure = Structure.of(model)
        names = list(model.named_parameters(remove_duplicate=False))
        lowest: dict[int, int] = {}
        for name, parameter in names:
            position = structure.position(name)
            lowest[id(parameter)] = min(position, lowest.get(id(parameter), position))
        top = len(structure.blocks) + 1
        parameters: list[dict[str, nn.Parameter]] = [{} for _ in range(top + 1)]
        for name, parameter in model.named_parameters():
            parameters[lowest[id(parameter)]][name] = parameter
        modules: list[dict[str, nn.Module]] = [{} for _ in range(top + 1)]
        for name, module in model.named_modules():
            if name in structure.positions and next(module.parameters(), None) is not None:
                modules[structure.positions[name]][name] = module

        def group(name: str, position: int, block: nn.Module | None = None, runs: int = 1) -> LayerGroup:
            classes = ", ".join(dict.fromkeys(type(module).__name__ for module in modules[position].values()))
            return LayerGroup(name, classes, parameters[position], tuple(modules[position]), block, runs)

        blocks = enumerate(zip(structure.blocks, structure.runs, strict=True))
        return cls(
            group("embeddings", 0),
            tuple(group(f"block {i}", i + 1, block, runs) for i, (block, runs) in blocks),
            group("head", top),
            {name: lowest[id(parameter)] for name, parameter in names},
            structure.config,
        )

    @property
    def groups(self) -> tuple[LayerGroup, ...]:
        """All groups from bottom to top: embeddings, blocks, head."""
        return (self.embeddings, *self.blocks, self.head)

    @property
    def depth(self) -> int:
        """How many blocks a text passes through, a shared block counted once for each run."""
        return sum(block.runs for block in self.blocks)

    def group_of(self, parameter_name: str) -> LayerGroup:
        """The group that a parameter belongs to; a tied parameter is known by each of its names."""
        if parameter_name not in self._positions:
            raise ModelError(
                f"The model has no parameter {parameter_name!r}: {nearest(parameter_name, self._positions)}"
            )
        return self.groups[self._positions[parameter_name]]

    def freeze_to(self, n: int) -> None:
        """Train the groups from index `n` up and freeze those below; -1 is the head, as in a list."""
        count = len(self.groups)
        if not -count <= n <= count:
            raise RecipeError(
                f"Cannot freeze to group {n}: this model has {count} groups; expected {-count} to {count}."
            )
        first = n if n >= 0 else count + n
        for index, group in enumerate(self.groups):
            for parameter in group.parameters.values():
                parameter.requires_grad_(index >= first)

    def freeze(self) -> None:
        """Freeze everything but the head."""
        self.freeze_to(-1)

    def unfreeze(self) -> None:
        """Train everything."""
        self.freeze_to(0)

    def learning_rates(
        self, learning_rate: float, lr_decay: float = 1.0, head_learning_rate: float | None = None
    ) -> dict[str, float]:
        """The learning rate of each group by its name; the arguments are those of `param_groups`."""
        rates = layer_learning_rates(len(self.groups), learning_rate, lr_decay, head_learning_rate)
        return {group.name: rate for group, rate in zip(self.groups, rates, strict=True)}

    def param_groups(
        self,
        learning_rate: float,
        lr_decay: float = 1.0,
        head_learning_rate: float | None = None,
        weight_decay: float = 0.0,
    ) -> list[ParamGroup]:
        """Parameter groups for any optimizer, from embeddings to head, frozen parameters included.

        Args:
            learning_rate: That of the head, from which the others follow.
            lr_decay: Layer-wise decay: the learning rate of a group is that of the group above it, times this.
            head_learning_rate: A learning rate for the head alone.
            weight_decay: For all but norms and biases.
        """
        rates = layer_learning_rates(len(self.groups), learning_rate, lr_decay, head_learning_rate)
        return param_groups(self.groups, rates, weight_decay)

    def as_rows(self) -> list[LayerRow]:
        """The table as plain values, ready for JSON."""
        total = sum(group.num_parameters for group in self.groups) or 1
        return [
            {
                "layer": group.name,
                "type": group.type,
                "runs": group.runs,
                "parameters": group.num_parameters,
                "share": group.num_parameters / total,
                "trainable": group.num_trainable,
            }
            for group in self.groups
        ]

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table("layer", "type")
        for column in ("parameters", "share", "trainable"):
            table.add_column(column, justify="right")
        for row in self.as_rows():
            numbers = (f"{row['parameters']:,}", f"{row['share']:.1%}", f"{row['trainable']:,}")
            table.add_row(_name(row), row["type"], *numbers)
        return table

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        groups = self.as_rows()
        rows = [[_name(row), row["type"], row["parameters"], f"{row['share']:.1%}", row["trainable"]] for row in groups]
        columns = ["layer", "type", "parameters", "share", "trainable"]
        total, trainable = (sum(row[key] for row in groups) for key in ("parameters", "trainable"))
        note = f"{total:,} parameters, {trainable:,} of them trainable"
        return notebook_html.table("Layer map", columns, rows, note)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from rich.console import Console

        text = StringIO()
        # In a notebook, a console would display the table instead of writing it.
        Console(file=text, width=100, force_jupyter=False).print(self)
        return text.getvalue().rstrip("\n")


def _name(row: LayerRow) -> str:
    return row["layer"] if row["runs"] == 1 else f"{row['layer']} (run {row['runs']} times)"
