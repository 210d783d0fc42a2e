r"""Flair: its TextClassifier on the same encoder, fine-tuned as its own guide does.

Classifies single texts only. It needs a venv of its own, with torch pinned and first, as a looser request pulls a CUDA
build of gigabytes:

    python3.11 -m venv VENV
    echo torch==2.13.0 > pins.txt
    VENV/bin/pip install -c pins.txt torch==2.13.0
    VENV/bin/pip install -c pins.txt flair==0.15.1
    VENV/bin/python studies/peers/flair_peer.py JOB.json

The defaults of `fine_tune`: 5e-5, batches of 4, 10 epochs, linear with a warm-up of 0.1. Without dev rows the last
epoch is taken, as all rows are trained on.
"""

from __future__ import annotations

import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import flair
from flair.data import Corpus, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import TransformerDocumentEmbeddings
from flair.models import TextClassifier
from flair.trainers import ModelTrainer

import job

TYPE = "label"


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Fine-tune the encoder with a new head, predict the test rows."""
    if work.task != "classify" or work.train.pairs is not None:
        sys.exit("TextClassifier takes single texts: neither scores nor pairs")
    flair.set_seed(work.seed)
    rows = [
        Sentence(text).add_label(TYPE, label) for text, label in zip(work.train.texts, work.train.labels, strict=True)
    ]
    corpus = Corpus(train=FlairDatapointDataset(rows), sample_missing_splits=False)
    # The vector that the encoder was made with: its first token would be another one.
    encoder = TransformerDocumentEmbeddings(work.model, fine_tune=True, cls_pooling="mean")
    encoder.tokenizer.model_max_length = work.max_tokens
    model = TextClassifier(encoder, label_type=TYPE, label_dictionary=corpus.make_label_dictionary(TYPE))
    with tempfile.TemporaryDirectory() as folder:
        ModelTrainer(model, corpus).fine_tune(folder, save_final_model=False)
    test = [Sentence(text) for text in work.test.texts]
    model.predict(test, mini_batch_size=32)
    notes = "Flair's fine_tune with its defaults (5e-5, batch size 4, 10 epochs), mean pooling"
    return [sentence.get_label(TYPE).value for sentence in test], notes


if __name__ == "__main__":
    job.run(answer, ("flair", "transformers", "torch"))
