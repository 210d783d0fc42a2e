"""For small data, in a plain Trainer: the top block re-initialized, and the weights of the last epochs averaged.

`python examples/small_data.py ENCODER CSV`
"""

from start import start
from transformers import Trainer

from warmstart.models.reinit import reinitialize
from warmstart.training.callbacks import WeightAveraging

s = start(max_steps=-1, num_train_epochs=3)
print(len(reinitialize(s.model, blocks=1, zero_head=True)), "parameters re-initialized")
averaging = WeightAveraging(last_epochs=2)
Trainer(s.model, s.arguments, train_dataset=s.rows[:32], processing_class=s.tokenizer, callbacks=[averaging]).train()
print("the mean of", averaging.count, "epochs")
