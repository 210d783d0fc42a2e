"""Where the time of a training step goes: a profile by kind of work, and the share of the machine's peak it reaches.

A step is forward, backward, clipping and the optimizer, with PyTorch's dropout and with ours, on rows without padding.
The peak is that of a large product of matrices on the same threads. Shares are of the profile's CPU time; the speed is
measured without the profile, by CPU time.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
import transformers
from torch.profiler import ProfilerActivity, profile

from common import ROOT, arguments, finish, timed, weights, write_page
from warmstart.models.first_token import first_token_only
from warmstart.models.precision import autocast, resolve_precision
from warmstart.training.fast_dropout import FastDropout

ENCODERS = ("minilm", "e5-small", "mpnet-base")
LENGTHS = (32, 128, 384)
TOKENS = 2048
"""In a step, at most; and 32 rows at most."""
KINDS = {
    "linear layers": ("aten::mm", "aten::addmm", "aten::linear", "mkldnn"),
    "attention": ("aten::bmm", "aten::baddbmm", "softmax", "attention"),
    "activation": ("gelu", "relu", "tanh"),
    "dropout": ("bernoulli", "dropout", "_Dropout", "aten::ge"),
    "norm": ("layer_norm",),
    "embedding": ("embedding", "index"),
    "optimizer and clipping": ("adam", "norm", "Optimizer"),
    "copies and fills": ("copy_", "fill_", "zero_", "clone", "contiguous"),
}
"""Names of operations that belong to a kind of work, the first that fits; all else is the rest."""


class Step:
    """A model in training and a batch of one length."""

    def __init__(self, model: Any, length: int, precision: str) -> None:
        self.model, self.precision = model.train(), precision
        rows = max(min(32, TOKENS // length), 1)
        ids = torch.randint(5, min(model.config.vocab_size, 20_000), (rows, length))
        self.batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.zeros(rows).long()}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        self.tokens = rows * length

    def run(self, ours: bool) -> None:
        """One step, with PyTorch's kernels or with ours."""
        with contextlib.ExitStack() as stack:
            if ours:
                stack.enter_context(first_token_only(self.model))
                stack.enter_context(FastDropout())
            with autocast(self.precision, self.model.device):
                loss = self.model(**self.batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def seconds(self, ours: bool, rounds: int) -> float:
        """The least CPU time of a few steps."""
        return min(timed(lambda: self.run(ours)) for _ in range(rounds + 1))

    def shares(self, ours: bool) -> dict[str, float]:
        """The share of each kind of work in the CPU time of one step."""
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            self.run(ours)
        spent = dict.fromkeys([*KINDS, "rest"], 0.0)
        for event in profiled.key_averages():
            kind = next((kind for kind, names in KINDS.items() if any(name in event.key for name in names)), "rest")
            spent[kind] += event.self_cpu_time_total
        return {kind: round(time / sum(spent.values()), 3) for kind, time in spent.items()}


def peak(precision: str) -> float:
    """Operations per second of a large product of matrices, in 10⁹, per thread."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
    return 2 * 2048**3 / min(timed(lambda: a @ b) for _ in range(4)) / 1e9


def operations(model: Any, step: Step) -> float:
    """Those of the matrix products of a whole step, in 10⁹: forward, and twice as much backward."""
    config, length = model.config, step.batch["input_ids"].shape[1]
    hidden, inner = config.hidden_size, config.intermediate_size
    of_a_token = config.num_hidden_layers * (2 * (4 * hidden**2 + 2 * hidden * inner) + 4 * length * hidden)
    return 3 * of_a_token * step.tokens / 1e9


def load(name: str) -> Any:
    """A real encoder with a new head; a tiny one where a sample is run."""
    if os.environ.get("WARMSTART_BENCH_TINY"):
        import sys

        sys.path.insert(0, str(ROOT / "tests"))
        from tiny import tiny_model

        return tiny_model("bert", "sequence", 2)
    return transformers.AutoModelForSequenceClassification.from_pretrained(weights(name), num_labels=2)


def measure(name: str, length: int, precision: str, rounds: int) -> dict[str, Any]:
    """One encoder at one length."""
    model = load(name)
    step = Step(model, length, precision)
    plain, ours = (step.seconds(ours, rounds) for ours in (False, True))
    reached = operations(model, step) / plain / peak(precision)
    return {
        "encoder": name,
        "tokens": length,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "ratio": round(plain / ours, 2),
        "share_of_peak": round(reached, 3),
        "shares": step.shares(False),
        "shares_ours": step.shares(True),
    }


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 0, "encoders to measure; 0 for all")
    lengths = LENGTHS[:1] if os.environ.get("WARMSTART_BENCH_TINY") else LENGTHS
    figures = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for precision in dict.fromkeys(("fp32", resolve_precision("auto"))):
            for name in ENCODERS[: args.n or None] if threads == 1 else ENCODERS[:1]:
                for length in lengths:
                    figures.append(measure(name, length, precision, 1 if args.n else 3))
                    print(figures[-1], flush=True)
    if args.write:
        write_page("step", "Where a training step goes", "make bench-step", _page(figures))
    finish({"steps": figures})


def _page(figures: list[dict[str, Any]]) -> str:
    lines = []
    for one in figures:
        for label, shares in (("PyTorch's dropout", one["shares"]), ("ours", one["shares_ours"])):
            speed = f"{one['share_of_peak']:.0%}" if shares is one["shares"] else f"{one['ratio']} × as fast"
            cells = " | ".join(f"{share:.0%}" for share in shares.values())
            about = f"{one['encoder']} | {one['tokens']} | {one['precision']} | {one['threads']}"
            lines.append(f"| {about} | {label} | {speed} | {cells} |")
    kinds = " | ".join(figures[0]["shares"])
    ratios = [one["ratio"] for one in figures]
    return (
        f"Cheap dropout and a shorter last block make a training step **{min(ratios)} to {max(ratios)} times** as "
        "fast.\n\n"
        f"A step of at most 32 rows and {TOKENS:,} tokens without padding: forward, backward, clipping and AdamW. The "
        "first line of each pair is a plain step, with the share of the machine's peak in matrix products that it "
        "reaches; the second is a step with dropout from cheap random bits and the last block computed for the first "
        "token alone, where the architecture allows that (not in MPNet).\n\n"
        f"| encoder | tokens | precision | threads | step | speed | {kinds} |\n"
        f"| --- | --- | --- | --- | --- | --- |{' ---: |' * len(figures[0]['shares'])}\n" + "\n".join(lines)
    )


if __name__ == "__main__":
    main()
