"""Slanted triangular learning rates in a plain Trainer: `python examples/schedules.py ENCODER CSV`."""

from start import start
from torch.optim import AdamW
from transformers import Trainer

from warmstart.training.schedules import make_scheduler

s = start()
optimizer = AdamW(s.model.parameters(), lr=2e-5)
slanted = make_scheduler(optimizer, "slanted-triangular", steps=s.arguments.max_steps, warmup=0.1, lr_ratio=32)
Trainer(
    s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, optimizers=(optimizer, slanted)
).train()
print(f"learning rate at the end: {slanted.get_last_lr()[0]:.2e}")
