"""LoRA with layer-wise rates in a plain Trainer, merged into a plain model: `python examples/lora.py ENCODER CSV`."""

from start import start
from torch.optim import AdamW
from transformers import Trainer

from warmstart import LayerMap
from warmstart.models.lora import add_lora, merge_lora

s = start()
add_lora(s.model, rank=8)
layers = LayerMap.of(s.model)
print(sum(group.trainable for group in layers.groups), "of", sum(group.size for group in layers.groups), "training")
optimizer = AdamW(layers.param_groups(rate=1e-3, decay=0.95))
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, optimizers=(optimizer, None)).train()
merge_lora(s.model)
s.model.save_pretrained("runs/example/merged")  # opens in plain transformers
