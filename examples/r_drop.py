"""R-Drop in a plain Trainer: `python examples/r_drop.py ENCODER CSV`."""

from typing import Any

from start import start
from transformers import Trainer

from warmstart.training.r_drop import divergence, duplicate_batch


class RDropTrainer(Trainer):
    """A Trainer that passes every batch through the model twice, and adds how much the outputs differ."""

    alpha = 1.0

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **kwargs: Any) -> Any:
        """The mean loss of both passes, and the divergence between them."""
        outputs = model(**duplicate_batch(inputs))
        loss = outputs.loss + self.alpha / 2 * divergence(outputs.logits, model.config.problem_type)
        return (loss, outputs) if return_outputs else loss


s = start()
print(RDropTrainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train().training_loss)
