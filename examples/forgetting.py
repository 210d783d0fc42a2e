"""How far fine-tuning moves each layer, measured in a plain Trainer: `python examples/forgetting.py ENCODER CSV`."""

import copy

import torch
from start import start
from transformers import Trainer

from warmstart.inspection.cka import LinearCKA
from warmstart.training.callbacks.step_monitor import StepMonitor

s = start()
before = copy.deepcopy(s.model.base_model).eval()
batch = s.tokenizer(s.texts[:16], padding=True, return_tensors="pt")
tokens = batch["attention_mask"].bool()


@torch.no_grad()
def similarity() -> dict[str, list[float]]:
    """The CKA of each layer with what it was before training: 1 is unchanged."""
    cka, was_training = LinearCKA(), s.model.training
    states = [
        encoder.eval()(**batch, output_hidden_states=True).hidden_states for encoder in (before, s.model.base_model)
    ]
    cka.add(*([layer[tokens] for layer in layers] for layers in states))
    s.model.train(was_training)
    return {"cka": [round(value, 3) for value in cka.values()]}


monitor = StepMonitor(similarity, every=2)
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, callbacks=[monitor]).train()
print(*monitor.measurements, similarity(), sep="\n")
