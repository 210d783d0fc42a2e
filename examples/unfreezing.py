"""Gradual unfreezing in a plain Trainer: `python examples/unfreezing.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart import LayerMap
from warmstart.training.callbacks import GradualUnfreezing

s = start()
layers = LayerMap.of(s.model)
gradual = GradualUnfreezing(layers, every=2)  # one more block every 2 steps; every="epoch": every epoch
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, callbacks=[gradual]).train()
print(layers)  # what is trained at the end
