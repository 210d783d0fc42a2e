"""What other command lines call our options and verbs, so that a name from elsewhere is answered with ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer.core import TyperCommand

VERBS = {
    "train": "fit",
    "finetune": "fit",
    "fine-tune": "fit",
    "run": "fit",
    "infer": "predict",
    "inference": "predict",
    "label": "predict",
    "classify": "predict",
    "eval": "evaluate",
    "test": "evaluate",
    "score": "evaluate",
    "diff": "compare",
    "analyze": "diagnose",
    "analyse": "diagnose",
    "errors": "diagnose",
    "active-learning": "ask",
    "prune": "shrink",
    "compress": "shrink",
    "query": "ask",
    "sample": "ask",
    "acquire": "ask",
    "convert": "export",
    "onnx": "export",
    "embed": "features",
    "encode": "features",
    "extract": "features",
    "tune": "sweep",
    "search": "sweep",
    "hpo": "sweep",
    "optimize": "sweep",
    "estimate": "plan",
    "cost": "plan",
    "validate": "check",
    "lint": "check",
    "deploy": "serve",
    "info": "show",
    "env": "doctor",
    "version": "--version",
    "help": "--help",
}
"""Our verb, by its name elsewhere."""
OPTIONS = {
    "--out": "output output_dir output_file output_path output_folder save_dir o",
    "--file": "input input_file data data_file",
    "--min-confidence": "threshold confidence confidence_threshold min_score min_probability",
    "--top-k": "top k topk top_n limit n_results",
    "--keep-column": "keep keep_columns columns_to_keep",
    "--workers": "num_workers n_workers concurrency n_jobs",
    "--cpus-per-worker": "threads num_threads num_cpus cpus",
    "--gpus-per-worker": "gpus num_gpus",
    "--batch-size": "max_batch_size batch bs",
    "--batch-wait-ms": "batch_wait_timeout_s max_queue_delay",
    "--max-queue": "queue max_queued_requests max_concurrent_requests",
    "--replicas": "num_replicas",
    "--token-file": "api_key api_key_file token",
    "--target-precision": "precision",
    "--slice-by": "by group_by slice groupby",
    "--limit": "max_examples top n",
    "--folds": "k_folds n_splits cv num_folds",
    "--int8": "quantize quantization",
    "--dtype": "output_dtype",
    "--rows": "n num_rows n_rows n_instances n_samples budget query_size batch",
    "--strategy": "method acquisition query_strategy acquisition_function sampling",
    "--min-ratio": "min_accuracy tolerance target_ratio",
    "--remove": "num_layers layers drop_layers prune_layers",
    "--dry-run": "simulate simulation",
    "--max-tokens": "max_length max_seq_length max_len",
    "--hardware": "device gpu",
    "--devices": "num_devices num_gpus world_size",
}
"""Names of other command lines for each of our options, where it sets no recipe field; asked only where we have it."""


def option_here(command: TyperCommand, option: str) -> str | None:
    """Our option for one that a verb does not have; None where nothing is known."""
    name = option.lstrip("-").replace("-", "_").lower()
    own = {flag for parameter in command.params for flag in parameter.opts}
    for flag, names in OPTIONS.items():
        if flag in own and name in names.split():
            return flag
    from warmstart.options import has_field, name_here
    from warmstart.recipe import Recipe, Sweep

    if "--sampler" in own and (field := Sweep.synonyms.get(name)) and f"--{field}" in own:
        return f"--{field}"
    if "--set" not in own:
        return None
    here = name if has_field(Recipe, name) else name_here(Recipe, name.split("."))
    return _setting(command.params, here) if here else None


def _setting(parameters: Sequence[Any], field: str) -> str:
    """How a verb sets a recipe field: by its own option, whose help ends with the field, or by `--set`."""
    key, _, value = field.partition(": ")
    for parameter in parameters:
        if str(getattr(parameter, "help", "")).endswith(f"[{key}]"):
            return f"{parameter.opts[0]} {value}".strip()
    return f"--set {key}={value or '…'}"
