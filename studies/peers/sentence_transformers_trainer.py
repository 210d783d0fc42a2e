"""The script one would write with `sentence-transformers` alone: its trainer and MultipleNegativesRankingLoss.

Runs in the project's own venv. Each query is paired with its relevant documents; other documents of a batch are the
negatives. 5e-5, 3 epochs, batches of 16 without duplicates, float32, all else as the trainer has it.
"""

from __future__ import annotations

import tempfile

import datasets
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)
from sentence_transformers.training_args import BatchSamplers
from transformers import set_seed

import job
from encoder_as_it_is import similarities

LEARNING_RATE, EPOCHS, BATCH_SIZE = 5e-5, 3, 16


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Fine-tune the encoder on relevant documents, then compare each test document with its query."""
    set_seed(work.seed)
    model = SentenceTransformer(work.model, device="cpu", model_kwargs={"dtype": "float32"})
    model.max_seq_length = work.max_tokens
    train = work.train
    assert train.pairs is not None
    relevant = [pair for *pair, label in zip(train.texts, train.pairs, train.numbers, strict=True) if label > 0]
    columns = ("anchor", "positive")
    rows = datasets.Dataset.from_list([dict(zip(columns, pair, strict=True)) for pair in relevant])
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            learning_rate=LEARNING_RATE,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH_SIZE,
            batch_sampler=BatchSamplers.NO_DUPLICATES,
            seed=work.seed,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        loss = losses.MultipleNegativesRankingLoss(model)
        SentenceTransformerTrainer(model=model, args=settings, train_dataset=rows, loss=loss).train()
    notes = f"{len(relevant)} pairs, {LEARNING_RATE:g}, {EPOCHS} epochs, batch size {BATCH_SIZE}, float32, else default"
    return similarities(model, work.test), f"SentenceTransformerTrainer, MultipleNegativesRankingLoss, {notes}"


if __name__ == "__main__":
    job.run(answer, ("sentence-transformers", "torch"))
