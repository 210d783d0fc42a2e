"""Rows stay on disk: `fit` on many rows takes little more memory than on few."""


def test_many_rows_take_little_more_memory_than_a_hundred(sample):
    figures = sample("memory", 15_000)
    assert figures["rows"] == 15_000
    assert figures["gb_above_model"] < 0.4, figures
