"""Units of a text: every visible character is in one, and each is looked at where it has most context."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from warmstart.tasks.shared.tagging_units import best_views, characters_of, covering, joined, words_of
from warmstart.text.windows import slices

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(" \t\u3000aé7'-_.。東ア한ไ\u0301\u200d👍🏽")), max_size=40)


def shown(text):
    return [text[start:end] for start, end in words_of(text)]


def test_words_of_a_raw_text():
    assert shown("Angela Merkel's 2nd visit, 3.5 km.") == [
        *("Angela", "Merkel", "'", "s", "2nd", "visit", ",", "3", ".", "5", "km", ".")
    ]
    assert shown("東京へ行くTokyo2020") == ["東", "京", "へ", "行", "く", "Tokyo2020"]
    assert shown("cafe\u0301 über") == ["cafe\u0301", "über"]
    assert shown(" \u3000\n") == []


@given(TEXTS)
def test_units_ascend_and_hold_every_character_that_is_no_white_space(text):
    for units in (words_of(text), characters_of(text)):
        assert all(start < end for start, end in units)
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(units))
        held = {place for start, end in units for place in range(start, end)}
        assert held == {place for place, character in enumerate(text) if not character.isspace()}


@given(TEXTS, st.data())
def test_no_piece_crosses_a_joined_unit(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    pieces = [(a, b) for a, b in itertools.pairwise(cuts) if a < b]
    units = joined(words_of(text), pieces)
    for start, end in units:
        for a, b in pieces:
            touched = range(max(a, start), min(b, end))
            beyond = [place for place in range(a, b) if place not in touched and not text[place].isspace()]
            assert not touched or not beyond
    assert joined(words_of(text), [(at, at + 1) for at in range(len(text))]) == words_of(text)


def test_what_a_span_touches():
    units = [(0, 3), (4, 7), (7, 8), (9, 12)]
    assert covering(units, 4, 8) == (1, 3)
    assert covering(units, 5, 6) == (1, 2)
    assert covering(units, 2, 10) == (0, 4)
    assert covering(units, 3, 4) is None
    assert covering([], 0, 1) is None


@given(st.integers(1, 200), st.integers(2, 30), st.data())
def test_every_token_is_looked_at_where_it_has_most_context(length, room, data):
    views = slices(length, room, data.draw(st.integers(0, room - 1)))
    chosen = best_views([[token] for token in range(length)], views, length)
    for token, number in enumerate(chosen):
        contexts = [
            min(token - start if start else length, stop - 1 - token if stop < length else length)
            for start, stop in views
        ]
        assert contexts[number] == max(contexts)
        assert views[number][0] <= token < views[number][1]
    assert chosen == sorted(chosen)
