"""Fine-tuning with some attention heads off, in a plain Trainer: `python examples/heads_off.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart.models.switches import ALL, HeadsOff

s = start()
# Head 0 of the first block, and all heads of the second: their hooks are gone when the block ends.
with HeadsOff(s.model, {0: [0], 1: ALL}):
    Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train()
