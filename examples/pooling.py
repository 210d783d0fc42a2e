"""A head that reads all tokens of all layers, in a plain Trainer: `python examples/pooling.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification

s = start()
encoder = s.model.base_model
config = PooledConfig(
    encoder=encoder.config, layers="scalar-mix", pooling="last+max+mean", num_labels=s.model.num_labels
)
model = PooledForSequenceClassification(config, encoder)
Trainer(model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train()
print(model.pooling.output_size, "numbers a text")
