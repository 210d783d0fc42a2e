"""Embeddings of a sentence encoder that is not trained, then logistic regression, or ridge for scores.

Runs in the project's own venv. The encoder pools and normalizes as its folder says. C is chosen by 5-fold
cross-validation on the training rows, by accuracy, with as many folds as the rarest label has rows where those are
fewer; where a label has a single row there is nothing to choose by, and C is scikit-learn's default, 1. Pairs are
[u, v, |u - v|, u * v], as in Sentence-BERT and InferSent.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import StratifiedKFold

import job

CS = [0.1, 1, 10, 100]
ALPHAS = [0.01, 0.1, 1, 10, 100]


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Encode all rows, fit on the training rows, predict the test rows."""
    encoder = SentenceTransformer(work.model, device="cpu")
    encoder.max_seq_length = work.max_tokens
    train, test = features(encoder, work.train), features(encoder, work.test)
    if work.task == "score":
        ridge = RidgeCV(alphas=ALPHAS).fit(train, work.train.numbers)
        return ridge.predict(test).tolist(), f"frozen embeddings, RidgeCV chose alpha={ridge.alpha_:g} of {ALPHAS}"
    model, notes = classifier(train, work.train.labels, work.seed)
    return model.predict(test).tolist(), f"frozen embeddings, {notes}"


def features(encoder: SentenceTransformer, rows: job.Rows) -> np.ndarray:
    """Embeddings of texts, or of pairs and how the two differ."""
    first = encoder.encode(rows.texts)
    if rows.pairs is None:
        return first
    second = encoder.encode(rows.pairs)
    return np.hstack([first, second, np.abs(first - second), first * second])


def classifier(train: np.ndarray, labels: list[str], seed: int) -> tuple[LogisticRegression, str]:
    """A logistic regression and its settings in words."""
    folds = min(5, *Counter(labels).values())
    if folds < 2:
        return LogisticRegression(max_iter=1000).fit(train, labels), "LogisticRegression(C=1): a label has a single row"
    split = StratifiedKFold(folds, shuffle=True, random_state=seed)
    model = LogisticRegressionCV(Cs=CS, cv=split, max_iter=1000).fit(train, labels)
    return model, f"LogisticRegressionCV chose C={np.ravel(model.C_)[0]:g} of {CS} in {folds} folds"


if __name__ == "__main__":
    job.run(answer, ("sentence-transformers", "scikit-learn", "torch"))
