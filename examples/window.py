"""The head and the tail of long texts in a plain Trainer: `python examples/window.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart.text.windows import Cut, Frame, Window, encode

s = start()
window = Window(tokens=16, keep="head+tail")  # or head, tail; slices are for a model that pools them
frame = Frame.of(s.tokenizer, pair=False)  # the special tokens around a text
cut = Cut()
rows = []
for text, label in zip(s.texts, s.labels, strict=True):
    feature = encode(window, frame, s.tokenizer(text, add_special_tokens=False)["input_ids"])
    cut.add(feature)
    rows.append({"input_ids": feature["input_ids"], "labels": label})
Trainer(s.model, s.arguments, train_dataset=rows, processing_class=s.tokenizer).train()
print(cut.told(window))
