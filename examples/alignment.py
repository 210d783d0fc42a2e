"""Words tagged in the text as it was written, in a plain Trainer: `python examples/alignment.py ENCODER CSV`."""

import re

from start import start
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification, Trainer

from warmstart.text.alignment import tokenize_with_offsets, tokens_to_char_span, word_ids

s = start()
model = AutoModelForTokenClassification.from_pretrained(s.model.name_or_path, num_labels=2)
rows = []
for text, tokens in zip(s.texts, tokenize_with_offsets(s.tokenizer, s.texts), strict=True):
    words = [match.span() for match in re.finditer(r"\S+", text)]
    long = [end - start > 6 for start, end in words]  # stands for tags that people gave
    # A token that belongs to no word does not count.
    tags = [int(long[word]) if word >= 0 else -100 for word in word_ids(tokens.offsets, words)]
    rows.append({"input_ids": tokens.ids, "labels": tags})
Trainer(model, s.arguments, train_dataset=rows, data_collator=DataCollatorForTokenClassification(s.tokenizer)).train()
tokens = tokenize_with_offsets(s.tokenizer, s.texts[:1])[0]
span = tokens_to_char_span(tokens.offsets, 0, 3)
print("the first three tokens cover", repr(s.texts[0][slice(*span)] if span else ""))
