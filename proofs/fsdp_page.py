"""The page of the proof of sharded training."""

from __future__ import annotations

from typing import Any

from common import write_page


def write(figures: dict[str, Any], numbers: list[int]) -> None:
    """Write docs/results/fsdp.md."""
    write_page("fsdp", "Sharded training", "make proof-fsdp", page(figures, numbers))


def page(figures: dict[str, Any], numbers: list[int]) -> str:
    """The page as Markdown."""
    sizes = {number: figures[str(number)] for number in numbers}
    most, largest = numbers[-1], sizes[numbers[-1]]
    kept = {name: memory["kept_mb"] for name, memory in largest["memory"].items()}
    kills = sum(size["kills"] for size in sizes.values()) + figures["tiny_kills"]
    equal = sum(size["bit_equal"] for size in sizes.values()) + figures["tiny_bit_equal"]
    rows = "\n".join(
        f"| {number} | {name.upper()} | {memory['kept_mb']:,.0f} MB | "
        + " | ".join(f"{memory[f'{phase}_mb']:,} MB" for phase in ("training", "loading", "saving"))
        + " |"
        for number, size in sizes.items()
        for name, memory in size["memory"].items()
    )
    checks = "\n".join(
        f"| {number} | {size['bit_equal']} of {size['kills']} | {size['from_ddp']:.1e} | {size['logits']:.1e} |"
        for number, size in sizes.items()
    )
    return (
        f"With `training.fsdp` on {most} processes, each keeps **{kept['fsdp']:,.0f} MB** of weights, gradients and "
        f"optimizer state of {figures['model']} where a copy (DDP) has {kept['ddp']:,.0f} MB, and **{equal} of "
        f"{kills}** runs that were killed with SIGKILL ended bit-identical.\n\n"
        "## Memory of a process\n\n"
        "| processes | training | weights, gradients, optimizer state | peak while training | while loading | with "
        f"saving |\n| ---: | --- | ---: | ---: | ---: | ---: |\n{rows}\n\n"
        "The largest over the processes. The peaks are of the resident set: in the first two steps, before them, and "
        f"from the first step to the end; the imported libraries have {figures['libraries_mb']:,} MB of each. While "
        "training there are also activations, the weights and gradients of the block that is being computed, and those "
        "of the embeddings, which are gathered for the whole step. To load a model, every process needs the whole "
        "weights once, and the main process to write it, without gradients and optimizer state.\n\n"
        "## Killed and resumed, and compared\n\n"
        "| processes | killed runs that ended bit-identical | largest difference of a weight from DDP | of a logit in "
        f"plain transformers |\n| ---: | ---: | ---: | ---: |\n{checks}\n\n"
        "Runs were killed in a step; with the fewest processes, also while a checkpoint was written, before it was "
        "published, and while they resumed. Weights and optimizer state are compared. "
        "The logits are those of the sharded model, and of the folder that the run wrote, opened "
        f"by `AutoModelForSequenceClassification`. A run that {numbers[0]} processes began and {most} ended, with the "
        f"same rows in each step, differs from one of {most} processes by {figures['other_number']:.1e} in the weight "
        f"that differs most. A tiny encoder was killed {figures['tiny_kills']} times more, at random times, with 2 "
        "and with 4 processes: "
        f"{figures['tiny_bit_equal']} ended bit-identical.\n\n"
        "All processes are on one machine and talk by `gloo`. GPUs and several machines were not tested."
    )
