"""A slanted triangle in a plain Trainer: `python examples/schedules.py ENCODER CSV`."""

from start import start
from torch.optim import AdamW
from transformers import Trainer

from warmstart.training.schedules import schedule

s = start()
optimizer = AdamW(s.model.parameters(), lr=2e-5)
slanted = schedule(optimizer, "slanted-triangular", steps=s.arguments.max_steps, warmup=0.1, ratio=32)
Trainer(
    s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, optimizers=(optimizer, slanted)
).train()
print(f"rate at the end: {slanted.get_last_lr()[0]:.2e}")
