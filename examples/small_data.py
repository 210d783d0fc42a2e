"""For small data, in a plain Trainer: the topmost block drawn anew, and the mean of the weights after the last epochs.

`python examples/small_data.py ENCODER CSV`
"""

from start import start
from transformers import Trainer

from warmstart.models.reinit import renew
from warmstart.training.callbacks.weight_averaging import Averaging

s = start(max_steps=-1, num_train_epochs=3)
print(len(renew(s.model, blocks=1, head="zero")), "parameters start anew")
averaging = Averaging(last=2)
Trainer(s.model, s.arguments, train_dataset=s.rows[:32], processing_class=s.tokenizer, callbacks=[averaging]).train()
print("the mean of", averaging.count, "epochs")
