"""A token budget instead of a batch size, in a plain Trainer: `python examples/token_budget.py ENCODER CSV`."""

from typing import Any

from start import start
from transformers import Trainer

from warmstart.training.batches import EpochDataLoader, LengthGroupedBatchSampler, row_lengths


class TokenBudgetTrainer(Trainer):
    """A Trainer whose steps have as many rows of similar length as fit into a number of tokens."""

    def __init__(self, *args: Any, batch_tokens: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches = LengthGroupedBatchSampler(
            row_lengths(self.train_dataset),
            batch_tokens=batch_tokens,
            seed=self.args.seed,
            num_processes=self.args.world_size,
            process_index=self.args.process_index,
        )

    def get_train_dataloader(self) -> EpochDataLoader:
        """One loader for all epochs."""
        return EpochDataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator)

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **kwargs: Any) -> Any:
        """Every row weighs the same: the sum over a step's rows is divided by the same number in every step."""
        outputs = model(**inputs)
        loss = outputs.loss * len(inputs["labels"]) / self.batches.mean_rows
        return (loss, outputs) if return_outputs else loss


s = start()
trainer = TokenBudgetTrainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer, batch_tokens=128)
trainer.train()
for batch in trainer.batches:
    longest = max(len(s.rows[row]["input_ids"]) for row in batch)
    print(len(batch), "rows of at most", longest, "tokens:", len(batch) * longest, "with padding")
