"""A plain `transformers.Trainer`, with a head that reads all tokens of all layers.

python examples/pooling.py ENCODER CSV
"""

import csv
import sys
from pathlib import Path

from transformers import AutoModel, AutoTokenizer, Trainer, TrainingArguments

from warmstart.encoders.pooled import PooledConfig, PooledForSequenceClassification

folder, path = sys.argv[1:]
rows = list(csv.DictReader(Path(path).read_text(encoding="utf-8").splitlines()))
topics = sorted({row["topic"] for row in rows})
encoder, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
config = PooledConfig(encoder=encoder.config, layers="mix", tokens="last+max+mean", num_labels=len(topics))
model = PooledForSequenceClassification(config, encoder)
features = [{**tokenizer(row["message"]), "label": topics.index(row["topic"])} for row in rows]
arguments = TrainingArguments("trainer", max_steps=3, report_to="none", save_strategy="no")
Trainer(model, arguments, train_dataset=features, processing_class=tokenizer).train()
