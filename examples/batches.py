"""Length-grouped batches in a plain Trainer: `python examples/batches.py ENCODER CSV`."""

from start import start
from transformers import Trainer

from warmstart.training.batches import EpochDataLoader, LengthGroupedBatchSampler, row_lengths


class LengthGroupedTrainer(Trainer):
    """A Trainer whose batches have rows of similar length."""

    def get_train_dataloader(self) -> EpochDataLoader:
        """One loader for all epochs, for one process or several, resumed or not."""
        args, rows = self.args, self.train_dataset
        options = {"seed": args.seed, "num_processes": args.world_size, "process_index": args.process_index}
        batches = LengthGroupedBatchSampler(row_lengths(rows), args.train_batch_size, **options)
        return EpochDataLoader(rows, batch_sampler=batches, collate_fn=self.data_collator)


s = start(per_device_train_batch_size=4)
LengthGroupedTrainer(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train()
for batch in LengthGroupedBatchSampler(row_lengths(s.rows), batch_size=4):
    print([len(s.rows[row]["input_ids"]) for row in batch])
