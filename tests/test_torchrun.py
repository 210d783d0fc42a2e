"""Two processes learn what one learns from the same steps, no row twice, and go on to the bit after a stop.

So they do where weights are sharded over them (FSDP), with what else a recipe may ask for.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import torchrun_fit
from small import saved_weights
from tiny import save_tiny

ORDERS = {
    "random": {"batching": "random"},
    "by-length": {"batching": "by-length"},
    "tokens": {"batching": "by-length", "batch_tokens": 400},
    "unfreezing": {"batching": "by-length"},
    "frozen": {"batching": "by-length"},
    "frozen-blocks": {"batching": "by-length"},
    "masked": {"batching": "by-length"},
    "contrastive": {"loss": "supervised-contrastive"},
    "fsdp": {"fsdp": True, "average_last_epochs": 2},
    "fsdp-masked": {"fsdp": True},
    "fsdp-dropout": {"fsdp": True, "r_drop": 1.0, "dropout_kernel": "fast", "early_stopping_patience": 3},
    "fsdp-lora": {"fsdp": True},
}
MASKED = {"name": "masked", "objective": "mlm+sop", "mlm_probability": [0.1, 0.5], "masking": "whole-word"}
MORE = {
    "unfreezing": {"layers": {"unfreeze": "gradual"}},
    "frozen": {"layers": {"freeze": "encoder"}, "head": {"type": "bilstm"}},
    "frozen-blocks": {"layers": {"freeze": 3}},
    # Two means, one over tokens and one over pairs, of which no two batches have as many.
    "masked": {"task": MASKED, "trainer": {"logging_steps": 2}},
    "contrastive": {"head": {"type": "linear"}},
    "fsdp": {"layers": {"lr_decay": 0.8, "unfreeze": "gradual"}, "trainer": {"gradient_accumulation_steps": 2}},
    "fsdp-masked": {"task": MASKED, "trainer": {"logging_steps": 2, "gradient_checkpointing": True}},
    "fsdp-lora": {"layers": {"lora": {"rank": 2}, "unfreeze": "head-first"}},
}
ALIKE = ["random", "by-length", "unfreezing", "frozen", "frozen-blocks", "masked", "fsdp", "fsdp-masked", "fsdp-lora"]
ON = ["random", "by-length", "tokens", "contrastive", "fsdp-dropout"]
PEOPLE = [{"text": f"alice {n} and bob", "entities": [{"start": 0, "end": 5, "label": "PER"}]} for n in range(21)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, files, encoder):
    """Runs of one process and of two: all that the tests look at, since starting processes takes long."""
    folder = tmp_path_factory.mktemp("torchrun")
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    calm = str(save_tiny(folder / "tiny-bert", **still))
    # 61 rows: the last step of an epoch is short, and its two parts differ.
    lines = [f"{'the good film ' * (n % 7 + 1)}{n},{'pos' if n % 2 else 'neg'}" for n in range(61)]
    (folder / "train.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    texts = [f"{'A good film. ' * (n % 7 + 1)}Bob loved {n}." for n in range(61)]
    (folder / "texts.txt").write_text("\n\n".join(texts))

    def of(out, batch, order, model, stop=None, noted=None):
        training = {"learning_rate": 1e-3, "epochs": 2, "batch_size": batch, "precision": "fp32", **ORDERS[order]}
        data = {"train": str(folder / "train.csv"), "test": files["test"], "out": str(folder / out)}
        saves = {"checkpoints": {"every_steps": 3, "when_finished": "keep"}}
        return {
            **data,
            **saves,
            "model": model,
            "training": training,
            "stop": stop,
            "noted": str(folder / (noted or out)),
        }

    shared = []
    for order in ALIKE:
        more = MORE.get(order, {})
        if order.endswith("masked"):
            more = {**more, "train": str(folder / "texts.txt"), "test": str(folder / "texts.txt")}
        alone = of(f"one-{order}", 32, order, calm) | more
        alone["training"].pop("fsdp", None)
        torchrun_fit.fit(**alone)
        shared.append(of(f"two-{order}", 16, order, calm) | more)
    for order in ON:  # with dropout
        more = MORE.get(order, {}) | ({"dev": files["test"]} if order == "fsdp-dropout" else {})
        shared.append(of(f"left-{order}", 4, order, encoder) | more)
        shared.append(of(f"stopped-{order}", 4, order, encoder, stop=4) | more)
        shared.append(of(f"stopped-{order}", 4, order, encoder, noted=f"again-{order}") | more)
    for out, batch in (("one-several", 16), ("two-several", 8)):
        shared.append(several(folder, out, batch, calm))
    torchrun_fit.several(**shared.pop(-2))
    people = {"train": str(folder / "people.jsonl"), "task": {"name": "tag", "crf": True}, "model": calm, "stop": None}
    for out, batch in (("two-crf", 8), ("one-crf", 16)):
        training = {"learning_rate": 1e-3, "epochs": 2, "batch_size": batch, "precision": "fp32"}
        shared.append({**people, "training": training, "out": str(folder / out), "noted": str(folder / out)})
    torchrun_fit.fit(**shared.pop())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run(
        [*launcher, torchrun_fit.__file__, json.dumps(shared)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-20000:]
    return folder


def several(folder, out, batch, model):
    """Two tasks, one with a loss of its own that learns too, and weights that are learned."""
    (folder / "people.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in PEOPLE))
    tag = {"task": {"name": "tag", "crf": True}, "data.train": str(folder / "people.jsonl")}
    training = {"learning_rate": 1e-3, "epochs": 2, "batch_size": batch, "precision": "fp32"}
    return {
        "out": str(folder / out),
        "model": model,
        "tasks": {"opinion": {"task": "classify", "data.train": str(folder / "train.csv")}, "people": tag},
        "options": {"training": training, "loss_weights": "uncertainty"},
    }


def noted(folder, out, count=2):
    return [json.loads(Path(f"{folder / out}.{index}").read_text()) for index in range(count)]


def weights(out):
    return saved_weights(out / "model")


@pytest.mark.parametrize("order", ALIKE)
def test_two_processes_learn_what_one_learns(folder, order):
    (one,), two = noted(folder, f"one-{order}", 1), noted(folder, f"two-{order}")
    together = [sorted(a + b) for a, b in zip(two[0]["steps"], two[1]["steps"], strict=True)]
    assert together == [sorted(step) for step in one["steps"]]
    runs = folder / f"one-{order}", folder / f"two-{order}"
    alone, shared = map(weights, runs)
    assert max(float((alone[name] - shared[name]).abs().max()) for name in alone) < 1e-5
    told = [json.loads((run / "stages/01-finetune/history.json").read_text()) for run in runs]
    assert told[0]["steps"] == told[1]["steps"] == (2 if order == "fsdp" else 4)  # which accumulates gradients
    assert told[0]["cached_blocks"] == told[1]["cached_blocks"] == (2 if order == "frozen-blocks" else 0)
    assert len(told[0]["history"]) == (2 if order.endswith("masked") else 0)
    for alone_noted, shared_noted in zip(told[0]["history"], told[1]["history"], strict=True):
        assert alone_noted == pytest.approx(shared_noted, abs=1e-4)
    written = [{str(path.relative_to(run)) for path in run.rglob("*") if "shards" not in path.parts} for run in runs]
    assert written[0] == written[1]
    assert any(runs[1].rglob("shards/*.safetensors")) == order.startswith("fsdp")


@pytest.mark.parametrize("order", ON)
def test_two_processes_go_on_to_the_bit(folder, order):
    """The signal comes to one process only, and both stop after the same step."""
    left, stopped, again = (noted(folder, f"{name}-{order}") for name in ("left", "stopped", "again"))
    said = [one["said"] for one in stopped]
    assert said[0].removeprefix("SIGTERM") == said[1].removeprefix("A signal")
    steps = int(said[0].partition("after step ")[2].partition(";")[0])
    assert 4 <= steps <= 6
    for whole, first, then in zip(left, stopped, again, strict=True):
        assert first["steps"] + then["steps"] == whole["steps"]
    assert sorted(row for one in left for step in one["steps"] for row in step) == sorted(2 * list(range(61)))
    one, two = weights(folder / f"left-{order}"), weights(folder / f"stopped-{order}")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_two_processes_learn_several_tasks_as_one_does(folder):
    one, two = folder / "one-several", folder / "two-several"
    for path in ("model", "heads/opinion", "heads/people"):
        alone, shared = (load_file(run / path / "model.safetensors") for run in (one, two))
        assert max(float((alone[name] - shared[name]).abs().max()) for name in alone) < 1e-5
    told = [json.loads((run / "trained" / "history.json").read_text()) for run in (one, two)]
    assert told[0]["steps"] == told[1]["steps"] == 12
    assert told[0]["weights"] == pytest.approx(told[1]["weights"], rel=1e-4)
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in two.iterdir())


def test_two_processes_learn_what_a_loss_has_outside_the_model(folder):
    one, two = weights(folder / "one-crf"), weights(folder / "two-crf")
    assert any(name.startswith("crf.") for name in one)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-5
