"""A window gives exactly what the tokenizer itself would, for every architecture, and counts what it cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny import ARCHITECTURES, tiny_tokenizer
from warmstart.tasks.common.texts import encode_texts
from warmstart.windows import Frame, Window, room

TOKENIZERS = {name: tiny_tokenizer(name) for name in ARCHITECTURES}
texts = st.text(alphabet="ab c.,x9", min_size=1, max_size=60).filter(str.strip)


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(max_examples=40, deadline=None)
@given(first=texts, second=texts, tokens=st.integers(8, 90), pair=st.booleans())
def test_the_head_window_is_what_the_tokenizer_would_cut(name, first, second, tokens, pair):
    tokenizer = TOKENIZERS[name]
    [feature] = encode_texts({"text": [first], "pair": [second]}, tokenizer, Window(tokens), pair)
    given_texts = (first, second) if pair else (first,)
    whole = tokenizer(*given_texts)
    expected = tokenizer(*given_texts, truncation="longest_first", max_length=tokens)
    assert feature["input_ids"] == expected["input_ids"]
    assert feature.get("token_type_ids") == expected.get("token_type_ids")
    assert feature["cut"] == len(whole["input_ids"]) - len(expected["input_ids"])


@given(first=st.integers(0, 99), second=st.integers(0, 99), tokens=st.integers(0, 150))
def test_room_fills_the_window_and_cuts_nothing_it_need_not(first, second, tokens):
    frame = Frame((1,), (2,), (3,), None)
    kept = room(Window(tokens), frame, first, second)
    budget = max(tokens - 3, 0)
    assert sum(kept) == min(first + second, budget)
    assert 0 <= kept[0] <= first
    assert 0 <= kept[1] <= second
