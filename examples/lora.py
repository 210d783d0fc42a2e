"""LoRA with layer-wise learning rates in a plain Trainer, then merged: `python examples/lora.py ENCODER CSV`."""

from start import start
from torch.optim import AdamW
from transformers import Trainer

from warmstart import LayerMap
from warmstart.models.lora import add_lora, merge_lora

s = start()
add_lora(s.model, rank=8)
layers = LayerMap.of(s.model)
print(sum(group.num_trainable for group in layers.groups), "trainable parameters")
optimizer = AdamW(layers.param_groups(learning_rate=1e-3, lr_decay=0.95))
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, optimizers=(optimizer, None)).train()
merge_lora(s.model)
s.model.save_pretrained("runs/example/merged")  # opens in plain transformers
