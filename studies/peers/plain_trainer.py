"""The script one would write with `transformers` alone: AutoModelForSequenceClassification and Trainer.

Runs in the project's own venv. 5e-5, 10 epochs, batches of 16, float32, all else as the Trainer has it: AdamW, linear
decay without warm-up, no weight decay. Texts are cut at `max_tokens` and padded batch by batch; pairs are text pairs.
"""

from __future__ import annotations

import tempfile

import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, set_seed

import job

LEARNING_RATE, EPOCHS, BATCH_SIZE = 5e-5, 10, 16


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Fine-tune the encoder with a new head, predict the test rows."""
    set_seed(work.seed)
    names = sorted(set(work.train.labels)) if work.task == "classify" else []
    tokenizer = AutoTokenizer.from_pretrained(work.model)
    # One output makes it a regression by mean squared error.
    model = AutoModelForSequenceClassification.from_pretrained(work.model, num_labels=len(names) or 1, dtype="float32")

    def encode(rows: job.Rows) -> list[dict[str, list[int]]]:
        tokens = tokenizer(rows.texts, rows.pairs, truncation=True, max_length=work.max_tokens)
        return [{key: tokens[key][row] for key in tokens} for row in range(len(rows.texts))]

    targets = [names.index(label) for label in work.train.labels] if names else work.train.numbers
    train = [{**row, "labels": target} for row, target in zip(encode(work.train), targets, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            learning_rate=LEARNING_RATE,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH_SIZE,
            seed=work.seed,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=settings, train_dataset=train, processing_class=tokenizer)
        trainer.train()
        logits = trainer.predict(encode(work.test)).predictions
    notes = f"Trainer, {LEARNING_RATE:g}, {EPOCHS} epochs, batch size {BATCH_SIZE}, float32, else default"
    if not names:
        return logits.ravel().astype(float).tolist(), notes
    return [names[index] for index in np.argmax(logits, axis=1)], notes


if __name__ == "__main__":
    job.run(answer, ("transformers", "torch"))
