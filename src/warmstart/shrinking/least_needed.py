"""Which blocks and heads of a model are needed least, measured on dev rows."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.data.schema import Row
from warmstart.inference.predictor import Predictor
from warmstart.inspection.ablation import Ablations, torch_model
from warmstart.inspection.importance import gradient_importance
from warmstart.models.fewer_heads import choose_heads
from warmstart.models.layer_map import LayerMap
from warmstart.models.switches import Switches
from warmstart.runtime.progress import Progress

ROWS = 500
"""Dev rows by which blocks and heads are compared."""


def order_blocks(predictor: Predictor, rows: Sequence[Row], count: int, progress: Progress) -> list[int]:
    """Blocks in the order in which they can be missed, each time the one without which most is left."""
    ablations = Ablations(predictor, rows[:ROWS])
    left = list(range(len(LayerMap.of(torch_model(predictor)).blocks)))
    order: list[int] = []
    with progress.bar("blocks off", count) as bar:
        for _ in range(count):
            ablations.go_on_from(Switches({}, sorted(order)))
            best = max(left, key=lambda block: ablations.measure(Switches({}, sorted([*order, block]))).mean)
            left.remove(best)
            order.append(best)
            bar.advance(note=str(best))
    return order


def least_heads(predictor: Predictor, rows: Sequence[Row], count: int, progress: Progress) -> dict[int, list[int]]:
    """So many heads of each block, by its number, on which the loss depends least."""
    return choose_heads(torch_model(predictor), gradient_importance(predictor, rows[:ROWS], progress), count)
