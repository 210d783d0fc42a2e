"""Two tasks on one encoder, in a plain Trainer: `python examples/multi_task.py ENCODER CSV`."""

from typing import Any

from start import start
from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer

from warmstart.models.shared_encoder import MultiTaskModel
from warmstart.training.batches import EpochDataLoader
from warmstart.training.task_sampling import MultiTaskBatchSampler, MultiTaskRows

s = start(remove_unused_columns=False)
topics = [{**row, "row": number} for number, row in enumerate(s.rows)]
questions = [{**row, "labels": int("?" in text)} for row, text in zip(topics, s.texts, strict=True)]
rows = MultiTaskRows({"topic": topics, "question": questions}, sampling="uniform")
asks = AutoModelForSequenceClassification.from_pretrained(s.model.name_or_path, num_labels=2)
models = {"topic": s.model, "question": asks}
model = MultiTaskModel(models, losses=dict.fromkeys(models), loss_weights="uncertainty")
padded = DataCollatorWithPadding(s.tokenizer)


def collate(batch: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch of one task, padded, with the task's name."""
    columns = ("task", "row")
    return {"task": batch[0]["task"], **padded([{k: v for k, v in row.items() if k not in columns} for row in batch])}


class MultiTaskTrainer(Trainer):
    """A Trainer whose steps take turns between the tasks."""

    def get_train_dataloader(self) -> EpochDataLoader:
        """Batches of one task each."""
        return EpochDataLoader(rows, batch_sampler=MultiTaskBatchSampler(rows, batch_size=8), collate_fn=collate)


MultiTaskTrainer(model, s.arguments, train_dataset=rows).train()
print("weights of the losses:", {name: round(weight, 3) for name, weight in model.current_weights().items()})
