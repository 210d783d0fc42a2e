"""Layer-wise learning rates in a plain Trainer: `python examples/rates.py ENCODER CSV`."""

from start import start
from torch.optim import AdamW
from transformers import Trainer

from warmstart import LayerMap

s = start()
layers = LayerMap.of(s.model)
optimizer = AdamW(layers.param_groups(learning_rate=2e-5, lr_decay=0.95, head_learning_rate=1e-3, weight_decay=0.01))
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, optimizers=(optimizer, None)).train()
for name, rate in layers.learning_rates(learning_rate=2e-5, lr_decay=0.95, head_learning_rate=1e-3).items():
    print(f"{name:12} {rate:.2e}")
