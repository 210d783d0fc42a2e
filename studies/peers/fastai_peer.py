r"""fastai: its AWD-LSTM classifier, after its language model has learned the training texts.

Classifies single texts only. It needs a venv of its own, with torch pinned and first, as a looser request pulls a CUDA
build of gigabytes:

    python3.11 -m venv VENV
    echo torch==2.13.0 > pins.txt
    VENV/bin/pip install -c pins.txt torch==2.13.0
    VENV/bin/pip install -c pins.txt fastai==2.8.12
    VENV/bin/python studies/peers/fastai_peer.py JOB.json

The weights that fastai starts from by default are on a server of its own, and are not used here: the language model
starts from nothing. That is not how fastai is meant to be used, and the page says so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from fastai.text.all import (
    AWD_LSTM,
    TextDataLoaders,
    language_model_learner,
    set_seed,
    text_classifier_learner,
)

import job

LM_EPOCHS, EPOCHS, RATE, DROP = 10, 10, 2e-3, 0.5


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Train the language model on the texts, then the classifier on its encoder, predict the test rows."""
    if work.task != "classify" or work.train.pairs is not None:
        sys.exit("text_classifier_learner takes single texts: neither scores nor pairs")
    set_seed(work.seed, reproducible=True)
    rows = pd.DataFrame({"text": work.train.texts, "label": work.train.labels})
    options = {"text_col": "text", "valid_pct": 0.0, "bs": 32, "num_workers": 0}
    texts = TextDataLoaders.from_df(rows, is_lm=True, seq_len=72, **options)
    language = language_model_learner(texts, AWD_LSTM, pretrained=False, drop_mult=DROP)
    with language.no_bar(), language.no_logging():
        language.fit_one_cycle(LM_EPOCHS, RATE)
    labelled = TextDataLoaders.from_df(rows, label_col="label", text_vocab=texts.vocab, **options)
    learner = text_classifier_learner(labelled, AWD_LSTM, pretrained=False, drop_mult=DROP)
    with tempfile.TemporaryDirectory() as folder:
        language.path = learner.path = Path(folder)
        language.save_encoder("encoder")
        learner.load_encoder("encoder")
    with learner.no_bar(), learner.no_logging():
        learner.fine_tune(EPOCHS, RATE)
        test = learner.dls.test_dl(pd.DataFrame({"text": work.test.texts}))
        probabilities, _ = learner.get_preds(dl=test)
    names = list(labelled.vocab[1])
    chosen = np.asarray(probabilities).argmax(axis=1)
    notes = f"fastai's AWD_LSTM from nothing, language model {LM_EPOCHS} epochs, then fine_tune({EPOCHS}, {RATE:g})"
    return [str(names[index]) for index in chosen], notes


if __name__ == "__main__":
    job.run(answer, ("fastai", "torch"))
