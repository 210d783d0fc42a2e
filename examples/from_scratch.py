"""An encoder from scratch, trained as a masked language model: `python examples/from_scratch.py ENCODER CSV`."""

from pathlib import Path

from start import start
from transformers import AutoModelForMaskedLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer

from warmstart.models.from_scratch import EncoderShape, make_encoder

s = start()  # the texts of the CSV are used, its encoder is not
shape = EncoderShape(architecture="modernbert", num_layers=2, hidden_size=64, num_heads=2, vocab_size=500)
folder = make_encoder(s.texts, Path("runs/small-encoder"), shape)
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForMaskedLM.from_pretrained(folder)
rows = [tokenizer(text) for text in s.texts]
Trainer(model, s.arguments, train_dataset=rows, data_collator=DataCollatorForLanguageModeling(tokenizer)).train()
print(f"{model.num_parameters():,} parameters, {len(tokenizer):,} tokens in the vocabulary")
