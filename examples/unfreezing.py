"""Gradual unfreezing in a plain Trainer: `python examples/unfreezing.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart import LayerMap
from warmstart.training.callbacks.unfreezing import Unfreezing

s = start()
layers = LayerMap.of(s.model)
gradual = Unfreezing(layers, "gradual", every=2)  # one more block every 2 steps; every=None: every epoch
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, callbacks=[gradual]).train()
print(layers)  # what learns at the end
