"""The head and the tail of long texts in a plain Trainer: `python examples/window.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart.text.windows import Frame, Truncation, Window, apply_window

s = start()
window = Window(max_tokens=16, method="head+tail")  # or head, tail; slices are for a model that pools them
frame = Frame.of(s.tokenizer, pair=False)  # the special tokens around a text
truncation = Truncation()
rows = []
for text, label in zip(s.texts, s.labels, strict=True):
    feature = apply_window(window, frame, s.tokenizer(text, add_special_tokens=False)["input_ids"])
    truncation.add(feature)
    rows.append({"input_ids": feature["input_ids"], "labels": label})
Trainer(s.model, s.arguments, train_dataset=rows, processing_class=s.tokenizer).train()
print(truncation.summary(window))
