"""Batches of like length in a plain Trainer: `python examples/batches.py ENCODER CSV`."""

from typing import Any

from start import start
from transformers import Trainer

from warmstart.training.batches import LengthBatches, Loader, lengths_of


class Grouped(Trainer):
    """A Trainer whose batches hold rows of like length."""

    def get_train_dataloader(self) -> Any:
        """One loader for all epochs, for one process or several, resumed or not."""
        args, rows = self.args, self.train_dataset
        mine = {"seed": args.seed, "processes": args.world_size, "process": args.process_index}
        batches = LengthBatches(lengths_of(rows), args.train_batch_size, **mine)
        return Loader(rows, batch_sampler=batches, collate_fn=self.data_collator)


s = start(per_device_train_batch_size=4)
Grouped(s.model, s.arguments, train_dataset=s.rows, processing_class=s.tokenizer).train()
for batch in LengthBatches(lengths_of(s.rows), batch=4):
    print([len(s.rows[row]["input_ids"]) for row in batch])
