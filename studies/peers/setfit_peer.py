r"""SetFit: a sentence encoder trained on pairs of texts with equal and unequal labels, then logistic regression.

Classifies single texts only. It needs a venv of its own, with torch pinned and first, as a looser request pulls a CUDA
build of gigabytes:

    python3.11 -m venv VENV
    echo torch==2.13.0 transformers==5.22.2 sentence-transformers==6.2.0 setfit==1.2.0 | tr ' ' '\n' > pins.txt
    VENV/bin/pip install -c pins.txt torch==2.13.0
    VENV/bin/pip install -c pins.txt setfit
    VENV/bin/python studies/peers/setfit_peer.py JOB.json

Its defaults, but for the number of pairs: 20 with the same label and 20 with another for each row
(`num_iterations=20`), and of those at most 300 batches of 16. All pairs, which is the default, grow with the square of
the rows.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments

import job

ITERATIONS, BATCH_SIZE, MOST_STEPS = 20, 16, 300


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Train the encoder and its head, predict the test rows."""
    if work.task != "classify" or work.train.pairs is not None:
        sys.exit("SetFit classifies single texts: it takes neither scores nor pairs")
    model = SetFitModel.from_pretrained(work.model, device="cpu")
    model.model_body.max_seq_length = work.max_tokens
    steps = min(MOST_STEPS, math.ceil(2 * ITERATIONS * len(work.train.texts) / BATCH_SIZE))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            num_iterations=ITERATIONS,
            max_steps=steps,
            seed=work.seed,
            save_strategy="no",
            report_to="none",
            show_progress_bar=False,
        )
        rows = Dataset.from_dict({"text": work.train.texts, "label": work.train.labels})
        Trainer(model=model, args=settings, train_dataset=rows).train()
    answers = model.predict(work.test.texts, as_numpy=True, show_progress_bar=False)
    notes = f"SetFit's defaults with num_iterations={ITERATIONS}, {steps} steps (at most {MOST_STEPS})"
    return [str(label) for label in answers], notes


if __name__ == "__main__":
    job.run(answer, ("setfit", "sentence-transformers", "transformers", "scikit-learn", "torch"))
