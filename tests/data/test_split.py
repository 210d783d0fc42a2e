"""A split is a partition that leaks nothing, repeats exactly, and keeps the classes' shares."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmstart.data.split import fold_text, row_keys, shared_rows, split_table, take_fraction
from warmstart.data.table import from_rows
from warmstart.errors import DataError, RecipeError

PARTS = {"validation": 0.2, "test": 0.1}
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def table_of(texts, labels, schema, folder):
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    return from_rows(rows, schema, folder)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A  b\n", "a B"),
        ("ﬁne", "FINE"),
        ("Straße", "STRASSE"),
        ("ＡＢＣ", "abc"),
        ("e\u0301", "É"),
        ("a\u3000b", "a b"),
    ],
)
def test_fold_sees_through_spelling(one, other):
    assert fold_text(one) == fold_text(other)


@quick
@given(text=st.text(st.characters(max_codepoint=127)))
def test_the_short_way_for_ascii_is_the_long_way(text):
    assert fold_text(text) == " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def test_keys_tell_columns_apart_and_are_stable(tmp_path, classify):
    rows = [{"text": "a b", "pair": "c", "label": "x"}, {"text": "a", "pair": "b c", "label": "x"}]
    keys = row_keys(from_rows(rows, classify, tmp_path), ["text", "pair"])
    assert keys.dtype == np.uint64
    expected = [hashlib.blake2b(joined, digest_size=8).digest() for joined in (b"a b\x1fc", b"a\x1fb c")]
    assert keys.tolist() == [int.from_bytes(digest, "little") for digest in expected]


@quick
@given(
    rows=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abcd"), st.booleans()), min_size=30, max_size=150),
    seed=st.integers(0, 2**32),
)
def test_a_partition_without_leaks_in_file_order(tmp_path, classify, rows, seed):
    texts = [f"Text  {number}" if upper else f"text {number}" for number, _, upper in rows]
    table = table_of(texts, [label for _, label, _ in rows], classify, tmp_path)
    try:
        parts = split_table(table, ["text"], "label", PARTS, seed)
    except DataError as error:
        assert "would be empty" in str(error)  # noqa: PT017 - the other outcome that is allowed
        return
    assert list(parts) == ["train", "validation", "test"]
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(rows)))
    sides = [{fold_text(texts[index]) for index in indices} for indices in parts.values()]
    assert sum(map(len, sides)) == len(set().union(*sides))
    for indices in parts.values():
        assert np.all(np.diff(indices) > 0)
    again = split_table(table, ["text"], "label", PARTS, seed)
    assert all(np.array_equal(parts[name], again[name]) for name in parts)


@quick
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 1000))
def test_each_class_gets_its_share_within_rounding(tmp_path, classify, sizes, seed):
    labels = [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]
    if len(labels) < 20:
        labels += ["more"] * 20
    table = table_of([f"text {i}" for i in range(len(labels))], labels, classify, tmp_path)
    parts = split_table(table, ["text"], "label", PARTS, seed)
    whole = Counter(labels)
    for name, fraction in PARTS.items():
        counts = Counter(labels[index] for index in parts[name])
        assert all(abs(counts[label] - size * fraction) < 1 for label, size in whole.items())
        assert len(parts[name]) <= round(len(labels) * fraction)
    assert {labels[index] for index in parts["train"]} == set(labels)


def test_totals_hold_where_every_class_is_small(tmp_path, classify):
    labels = [f"c{i % 77}" for i in range(77 * 3)]
    table = table_of([f"t{i}" for i in range(len(labels))], labels, classify, tmp_path)
    parts = split_table(table, ["text"], "label", {"validation": 0.1, "test": 0.1}, seed=1)
    assert [len(parts[name]) for name in parts] == [231 - 46, 23, 23]


def test_the_order_of_rows_does_not_matter_but_the_seed_does(tmp_path, classify):
    rows = [{"text": f"t{i // 2}", "label": str(i % 5)} for i in range(400)]
    table = from_rows(rows, classify, tmp_path / "a")
    back = from_rows(rows[::-1], classify, tmp_path / "b")
    one, two = (split_table(each, ["text"], "label", PARTS, seed=3) for each in (table, back))
    for name in one:
        assert {rows[i]["text"] for i in one[name]} == {rows[::-1][i]["text"] for i in two[name]}
    other = split_table(table, ["text"], "label", PARTS, seed=4)
    assert not np.array_equal(one["test"], other["test"])


def test_one_text_repeated_often_does_not_fill_a_part(tmp_path, classify):
    texts = ["same"] * 500 + [f"t{i}" for i in range(500)]
    for seed in range(10):
        table = table_of(texts, ["x"] * 1000, classify, tmp_path)
        parts = split_table(table, ["text"], "label", {"test": 0.1}, seed)
        assert len(parts["test"]) == 100
        assert 0 in parts["train"]


def test_a_class_with_one_text_goes_to_train(tmp_path, classify):
    texts = ["only", "ONLY", "only "] + [f"t{i}" for i in range(50)]
    table = table_of(texts, ["rare"] * 3 + ["x"] * 50, classify, tmp_path)
    assert split_table(table, ["text"], "label", {"test": 0.6}, 0)["train"][:3].tolist() == [0, 1, 2]


def test_label_sets_are_strata_and_numbers_are_not(tmp_path, many, score):
    sets = [["a", "b"], ["b", "a"], []]
    table = from_rows([{"text": f"t{i}", "label": sets[i % 3]} for i in range(300)], many, tmp_path / "m")
    parts = split_table(table, ["text"], "label", {"test": 0.1}, 0)
    assert Counter(len(sets[i % 3]) for i in parts["test"]) == {2: 20, 0: 10}
    table = from_rows([{"text": f"t{i}", "label": i / 7} for i in range(300)], score, tmp_path / "s")
    for answer in ("label", None):
        assert len(split_table(table, ["text"], answer, {"test": 0.1}, 0)["test"]) == 30


def test_rare_sets_of_labels_are_held_out_too(tmp_path, many):
    rows = [{"text": f"t{i}", "label": [f"l{i}", "all"]} for i in range(100)] + [
        {"text": f"u{i}", "label": ["all"]} for i in range(100)
    ]
    parts = split_table(from_rows(rows, many, tmp_path), ["text"], "label", {"test": 0.2}, 0)
    assert Counter(len(rows[i]["label"]) for i in parts["test"]) == {1: 20, 2: 20}


def test_impossible_parts(tmp_path, classify):
    table = table_of(["a", "b", "c"], "xyx", classify, tmp_path)
    for parts in ({}, {"train": 0.5}, {"test": 0.0}, {"test": 0.5, "validation": 0.5}, {"test": float("nan")}):
        with pytest.raises(RecipeError):
            split_table(table, ["text"], "label", parts, 0)
    with pytest.raises(DataError, match="'test' would be empty"):
        split_table(table, ["text"], "label", {"test": 0.1}, 0)


def test_shared_texts_are_found(tmp_path, classify):
    one = table_of(["a", "B  c", "d"], "xyx", classify, tmp_path / "a")
    other = table_of(["b C", "D", "e"], "xyx", classify, tmp_path / "b")
    assert shared_rows(one, other, ["text"]).tolist() == [1, 2]
    assert shared_rows(one.select([0, 2]), other, ["text"]).tolist() == [1]


@quick
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 3))
def test_a_smaller_fraction_is_part_of_a_larger_one_and_has_every_class(tmp_path, classify, sizes, seed):
    labels = [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]
    table = table_of([f"text {i}" for i in range(len(labels))], labels, classify, tmp_path)
    chosen = [set(take_fraction(table, ["text"], "label", fraction, seed)) for fraction in (0.01, 0.1, 0.5, 1)]
    assert chosen[0] <= chosen[1] <= chosen[2] <= chosen[3] == set(range(len(labels)))
    assert {labels[index] for index in chosen[0]} == set(labels)
    counts = Counter(labels[index] for index in chosen[2])
    assert all(abs(counts[f"c{number}"] - size / 2) <= 1 for number, size in enumerate(sizes))


def test_a_fraction_of_many_small_classes_is_near_the_share_of_all(tmp_path, classify):
    labels = [f"c{i % 77}" for i in range(77 * 130)]
    table = table_of([f"t{i}" for i in range(len(labels))], labels, classify, tmp_path)
    assert abs(len(take_fraction(table, ["text"], "label", 0.1, seed=1)) - 1001) < 20


def test_a_fraction_keeps_duplicates_together_and_depends_on_rows_and_seed_alone(tmp_path, classify):
    rows = [{"text": f"t{i // 2}", "label": str(i // 2 % 5)} for i in range(400)]
    table = from_rows(rows, classify, tmp_path / "a")
    back = from_rows(rows[::-1], classify, tmp_path / "b")
    one, two = (take_fraction(each, ["text"], "label", 0.3, seed=3) for each in (table, back))
    texts = Counter(rows[i]["text"] for i in one)
    assert set(texts.values()) == {2}
    assert texts == Counter(rows[::-1][i]["text"] for i in two)
    assert not np.array_equal(one, take_fraction(table, ["text"], "label", 0.3, seed=4))
