"""A supervised contrastive loss in a plain Trainer: `python examples/contrastive.py ENCODER CSV`."""

from typing import Any

from start import start
from transformers import Trainer

from warmstart.training.batches import EpochDataLoader
from warmstart.training.label_batches import LabelPairBatchSampler
from warmstart.training.supervised_contrastive import contrastive_loss


class ContrastiveTrainer(Trainer):
    """A Trainer that draws the texts of a label together; every batch has two or more of each of its labels."""

    def get_train_dataloader(self) -> EpochDataLoader:
        """One loader for all epochs."""
        labels = [row["labels"] for row in self.train_dataset]
        batches = LabelPairBatchSampler(labels, self.args.train_batch_size, seed=self.args.seed)
        return EpochDataLoader(self.train_dataset, batch_sampler=batches, collate_fn=self.data_collator)

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **kwargs: Any) -> Any:
        """The loss of the texts' vectors, here the mean over their tokens."""
        outputs = model(**inputs, output_hidden_states=True)
        mask = inputs["attention_mask"].unsqueeze(-1)
        vectors = (outputs.hidden_states[-1] * mask).sum(dim=1) / mask.sum(dim=1)
        loss = contrastive_loss(vectors, inputs["labels"], temperature=0.1)
        return (loss, outputs) if return_outputs else loss


s = start(per_device_train_batch_size=8)
print(
    ContrastiveTrainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train().training_loss
)
