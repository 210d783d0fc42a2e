"""What an encoder still knows after a plain Trainer: `python examples/masked_texts.py ENCODER CSV`."""

import copy
from pathlib import Path

from start import start
from transformers import Trainer

from warmstart.inspection.forgetting import measure_forgetting
from warmstart.inspection.masked_texts import mask_texts
from warmstart.inspection.token_reader import fitted_reader
from warmstart.models.hidden_states import encoder_of

s = start(learning_rate=1e-3)
before = copy.deepcopy(encoder_of(s.model)).eval()
# Any general text does. What the reader is fitted on and what is measured must not be the same.
half = len(s.texts) // 2
reader = fitted_reader(before, mask_texts(s.texts[:half], s.tokenizer, max_tokens=64), Path("runs/readers"))
others = mask_texts(s.texts[half:], s.tokenizer, max_tokens=64)
Trainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train()
for name, model in (("before", before), ("after", s.model)):
    remaining = measure_forgetting(model, others, before, reader)
    print(name, "loss of masked tokens", remaining.loss, "CKA", [round(layer, 3) for layer in remaining.cka])
