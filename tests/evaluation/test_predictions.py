"""The predictions file: what is written is read back, whatever the labels are."""

import pyarrow.parquet as pq
import pytest

from warmstart.errors import Location, RunError
from warmstart.evaluation.predictions import Predictions, read_locations, read_predictions, write_predictions

LOCATIONS = [Location("/data/a.csv", 2), Location("b.parquet", 7, "row ")]
LABELS = ["a", "ü \n,\"'"]


def probabilities(value):
    return dict.fromkeys(LABELS, value)


@pytest.mark.parametrize(
    "predictions",
    [
        Predictions(LOCATIONS, LABELS, None, [{"label": "a", "probabilities": probabilities(0.5)}] * 2),
        Predictions(LOCATIONS, [["a"], []], None, [{"labels": ["a"]}, {"labels": []}]),
        Predictions(LOCATIONS, [1.5, -2.0], None, [{"score": 1.0}, {"score": 2.0}]),
        Predictions(LOCATIONS, None, [0.5, 1.0], [{"fills": [[{"token": "x"}]], "tokens": 3}] * 2),
        # A question's answer has the name of the column of true answers.
        Predictions(LOCATIONS, [[{"text": "x"}]] * 2, [0.0, 1.0], [{"answer": "x", "score": 0.1}] * 2),
    ],
    ids=["label", "labels", "score", "masked", "span"],
)
def test_what_is_written_is_read_back(predictions, tmp_path):
    path = tmp_path / "predictions.parquet"
    write_predictions(predictions, path)
    assert read_predictions(path) == predictions
    assert read_locations(path) == LOCATIONS
    only = read_predictions(path, fields=["score"])
    assert [set(answer) for answer in only.answers] == [{"score"} & set(predictions.answers[0])] * 2
    assert (only.truth, only.scores) == (predictions.truth, predictions.scores)
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.parquet"]


def test_a_missing_or_empty_file_is_refused(tmp_path):
    path = tmp_path / "predictions.parquet"
    with pytest.raises(RunError, match=r"predictions\.parquet is missing; remove .* to have the run done again"):
        read_predictions(path)
    write_predictions(Predictions(LOCATIONS, LABELS, None, [{"label": "a"}] * 2), path)
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    with pytest.raises(RunError, match=r"predictions\.parquet holds no rows"):
        read_predictions(path)
