"""What counting words predicts of held-out rows, fold by fold."""

import numpy as np
import pytest

from warmstart.models.tfidf import CHARACTERS, MAX_WEIGHTS, WORDS, counted, cross_validate, vectorizer


@pytest.mark.parametrize("kind", ["logistic", "multi-label-logistic"])
def test_a_word_that_decides_is_learned_from_the_other_folds(kind):
    texts = [f"{['red', 'green', 'blue'][at % 3]} text {at}" for at in range(30)]
    labels = np.array([at % 3 for at in range(30)])
    targets = np.eye(3, dtype=np.int64)[labels] if kind != "logistic" else labels
    folds = [list(range(start, 30, 5)) for start in range(5)]
    for fold, outputs in zip(folds, cross_validate(texts, targets, kind, 3, folds), strict=True):
        assert outputs.shape == (6, 3)
        assert (outputs.argmax(1) == labels[fold]).all()


def test_a_label_that_the_other_folds_lack_is_never_predicted():
    texts, labels = ["red", "red", "blue", "blue", "green"], np.array([0, 0, 1, 1, 2])
    first, _ = cross_validate(texts, labels, "logistic", 3, [[4], [0, 1, 2, 3]])
    assert first[0].argmax() != 2


def test_characters_are_counted_where_there_are_no_spaces():
    assert counted(["これは良い映画です", "つまらない"]) is CHARACTERS
    assert counted(["a good film", "boring"]) is WORDS


def test_the_words_of_many_labels_are_bounded():
    most = MAX_WEIGHTS // 10_000_000
    assert vectorizer(["a b c d e f g h"], most).fit(["a b c d e f g h"]).transform(["a b"]).shape[1] == most
