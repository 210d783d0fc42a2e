"""Early stopping without checkpoints on disk, in a plain Trainer: `python examples/early_stopping.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart.training.callbacks import EarlyStopping

s = start(max_steps=-1, num_train_epochs=4)
train, dev = s.rows[::2], s.rows[1::2]
trainer = Trainer(s.model, s.arguments, train_dataset=train, eval_dataset=dev, processing_class=s.tokenizer)
# The score is whatever you like, as long as higher is better.
stopping = EarlyStopping(lambda: -trainer.evaluate()["eval_loss"], patience=1)
trainer.add_callback(stopping)
trainer.train()  # the model ends with the weights of its best epoch
print([epoch["value"] for epoch in stopping.values])
