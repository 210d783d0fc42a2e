"""Ten lines of scikit-learn: TF-IDF of words and pairs of words, then logistic regression, or ridge for scores.

Runs in the project's own venv. Reads whole texts: there is no limit of tokens. The two texts of a pair are joined by a
space. Uses neither the encoder nor the seed.
"""

from __future__ import annotations

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import job


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Fit on the training rows, predict the test rows."""
    features = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    train, test = joined(work.train), joined(work.test)
    if work.task == "score":
        regression = make_pipeline(features, Ridge()).fit(train, work.train.numbers)
        return regression.predict(test).tolist(), "TF-IDF (sublinear, 1-2 grams), Ridge(alpha=1)"
    model = make_pipeline(features, LogisticRegression(C=10, max_iter=1000)).fit(train, work.train.labels)
    return model.predict(test).tolist(), "TF-IDF (sublinear, 1-2 grams), LogisticRegression(C=10)"


def joined(rows: job.Rows) -> list[str]:
    """One text a row."""
    return rows.texts if rows.pairs is None else [f"{a} {b}" for a, b in zip(rows.texts, rows.pairs, strict=True)]


if __name__ == "__main__":
    job.run(answer, ("scikit-learn",))
