r"""spaCy: its text classifier as `spacy init config --pipeline textcat` sets it up for a CPU, without an encoder.

Classifies single texts only. It needs a venv of its own:

    python3.11 -m venv VENV
    VENV/bin/pip install spacy==3.8.18
    VENV/bin/python studies/peers/spacy_peer.py JOB.json

No trained pipeline is used: those are fetched from a server of their own.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import spacy
from spacy.training import Example
from spacy.util import minibatch

import job

EPOCHS = 20


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Train the classifier, predict the test rows."""
    if work.task != "classify" or work.train.pairs is not None:
        sys.exit("spaCy's text classifier takes single texts: neither scores nor pairs")
    spacy.util.fix_random_seed(work.seed)
    nlp = spacy.blank("en")
    textcat = nlp.add_pipe("textcat")
    names = sorted(set(work.train.labels))
    for name in names:
        textcat.add_label(name)
    rows = [
        Example.from_dict(nlp.make_doc(text), {"cats": {name: float(name == label) for name in names}})
        for text, label in zip(work.train.texts, work.train.labels, strict=True)
    ]
    optimizer = nlp.initialize(lambda: rows)
    order = random.Random(work.seed)
    for _ in range(EPOCHS):
        order.shuffle(rows)
        for batch in minibatch(rows, size=32):
            nlp.update(batch, sgd=optimizer, drop=0.1)
    answers = [max(document.cats, key=document.cats.get) for document in nlp.pipe(work.test.texts)]
    return answers, f"spaCy's textcat with its default model from nothing, {EPOCHS} epochs, batch size 32, dropout 0.1"


if __name__ == "__main__":
    np.seterr(all="ignore")
    job.run(answer, ("spacy", "thinc"))
