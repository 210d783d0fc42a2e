"""A window shows what it says of any text, on every architecture's tokenizer, and counts what it cut."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny import ARCHITECTURES, tiny_tokenizer
from warmstart.tasks.shared.text_inputs import encode_texts, pad
from warmstart.text.windows import (
    Frame,
    Truncation,
    Window,
    apply_window,
    count_covered,
    fit_pair,
    keep_ranges,
    ranges_around,
    slices,
    take_ranges,
    views,
)

TOKENIZERS = {name: tiny_tokenizer(name) for name in ARCHITECTURES}
KINDS = [
    Window(24),
    Window(24, "tail"),
    Window(24, "head+tail"),
    Window(24, "head+tail", head_tokens=5),
    Window(24, "slices"),
    Window(24, "slices", overlap=4),
    Window(24, "slices", overlap=3, max_slices=2),
]
FRAME = Frame((1001,), (1002,), (1003,), (0, 0, 0, 1, 1))
texts = st.text(alphabet="ab c.,x9", min_size=1, max_size=60).filter(str.strip)
lengths = st.integers(0, 200)
rooms = st.integers(1, 90)
windows = st.sampled_from(KINDS)


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


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(max_examples=40, deadline=None)
@given(first=texts, second=texts, window=windows, pair=st.booleans())
def test_every_row_is_framed_as_the_tokenizer_does_and_no_wider_than_the_window(name, first, second, window, pair):
    tokenizer = TOKENIZERS[name]
    [feature] = encode_texts({"text": [first], "pair": [second]}, tokenizer, window, pair)
    frame = Frame.of(tokenizer, pair)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (first, second)[: 1 + pair]]
    rows = feature["input_ids"] if window.method == "slices" else [feature["input_ids"]]
    shown = views(window, frame, *map(len, ids))
    assert len(rows) == len(shown)
    for number, (row, (a, b)) in enumerate(zip(rows, shown, strict=True)):
        parts = [take_ranges(ids[0], a), take_ranges(ids[1] if pair else [], b)]
        framed = [*frame.before, *parts[0], *frame.between, *parts[1], *frame.after]
        assert row == framed
        assert len(row) <= window.max_tokens
        if "token_type_ids" in feature:
            types = feature["token_type_ids"][number] if window.method == "slices" else feature["token_type_ids"]
            assert types == frame.put_around(*parts)["token_type_ids"]
    # The frame around the whole is the tokenizer's own, segments included.
    whole = tokenizer(first, second) if pair else tokenizer(first)
    assert frame.put_around(*ids) == {name: whole[name] for name in frame.put_around(*ids)}
    assert feature["tokens"] == sum(map(len, ids))


@given(first=st.integers(0, 99), second=st.integers(0, 99), tokens=st.integers(1, 150))
def test_room_fills_the_window_and_cuts_nothing_it_need_not(first, second, tokens):
    frame = Frame((1,), (2,), (3,), None)
    fit = fit_pair(Window(tokens), frame, first, second)
    budget = max(tokens - 3, 0)
    assert sum(fit) == min(first + second, budget)
    assert 0 <= fit[0] <= first
    assert 0 <= fit[1] <= second


@given(length=lengths, room=rooms, method=st.sampled_from(["head", "tail", "head+tail"]), head_tokens=st.none() | rooms)
def test_what_is_kept_is_a_prefix_and_a_suffix_with_nothing_doubled(length, room, method, head_tokens):
    ids = list(range(length))
    tokens = take_ranges(ids, keep_ranges(length, room, method, head_tokens))
    assert len(tokens) == min(length, room)
    assert tokens == sorted(set(tokens))
    split = next((at for at, token in enumerate(tokens) if at != token), len(tokens))
    assert tokens == ids[:split] + ids[length - len(tokens) + split :]
    if length > room:
        expected = {"head": room, "tail": 0}.get(method, min(head_tokens or -(-room * 128 // 510), room))
        assert split == expected


def test_the_papers_split_and_its_share_of_another_room():
    assert keep_ranges(1000, 510, "head+tail") == ((0, 128), (618, 1000))
    assert keep_ranges(1000, 255, "head+tail") == ((0, 64), (809, 1000))
    assert keep_ranges(3, 2, "head+tail") == ((0, 1), (2, 3))


@given(length=lengths, room=rooms, data=st.data(), max_slices=st.none() | st.integers(1, 5))
def test_slices_cover_the_text_in_order_and_share_exactly_the_overlap(length, room, data, max_slices):
    overlap = data.draw(st.integers(0, room - 1))
    parts = slices(length, room, overlap, max_slices)
    ids = list(range(length))
    assert parts[0][0] == 0
    assert all(stop - start == room for start, stop in parts[:-1])
    assert all(before[1] - after[0] == overlap for before, after in itertools.pairwise(parts))
    # Back from the slices to the text: each adds what is behind the overlap.
    again = [token for at, part in enumerate(parts) for token in take_ranges(ids, [part])[overlap if at else 0 :]]
    seen = count_covered(parts)
    assert again == ids[:seen]
    if max_slices is None:
        assert seen == length
    else:
        assert len(parts) <= max_slices
    # Every slice shows something new.
    assert length == 0 or all(count_covered(parts[:at]) < count_covered(parts[: at + 1]) for at in range(len(parts)))


@given(first=lengths, second=st.none() | lengths, window=windows)
def test_no_token_is_invented_and_each_is_seen_or_counted_as_cut(first, second, window):
    a = list(range(first))
    b = None if second is None else list(range(300, 300 + second))
    feature = apply_window(window, FRAME, a, b)
    rows = feature["input_ids"] if window.method == "slices" else [feature["input_ids"]]
    everything = {*a, *(b or ())}
    seen = set()
    for row in rows:
        inner = [token for token in row if token < 1000]
        assert set(inner) <= everything
        assert inner == sorted(inner)
        seen |= set(inner)
        assert len(row) <= window.max_tokens
    assert feature["tokens"] == len(everything)
    assert feature["cut"] == len(everything) - len(seen)
    if len(everything) + FRAME.size <= window.max_tokens:
        assert feature["cut"] == 0
        assert len(rows) == 1
    if window.method == "slices" and second is None and window.max_slices is None:
        assert feature["cut"] == 0


@given(first=lengths, second=lengths, window=windows)
def test_in_a_pair_the_second_text_is_sliced_and_the_head_of_the_first_repeated(first, second, window):
    if window.method != "slices":
        return
    shown = views(window, FRAME, first, second)
    budget = window.max_tokens - FRAME.size
    heads = {a for a, _ in shown}
    assert len(heads) == 1
    head = count_covered(heads.pop())
    assert head == min(first, max(budget // 2, budget - second))
    rest = [one for _, b in shown for one in b]
    assert count_covered(rest) == second or len(shown) == window.max_slices


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=5), window=windows)
def test_a_batch_holds_every_slice_in_order_and_how_many_each_text_has(lengths, window):
    tokenizer = TOKENIZERS["bert"]
    features = [
        apply_window(window, Frame.of(tokenizer, pair=False), [7 + number] * n) for number, n in enumerate(lengths)
    ]
    batch = pad(features, tokenizer)
    flat = [row for one in features for row in (one["input_ids"] if window.method == "slices" else [one["input_ids"]])]
    assert batch["input_ids"].shape[0] == len(flat)
    for row, mask, expected in zip(batch["input_ids"], batch["attention_mask"], flat, strict=True):
        assert row[mask.bool()].tolist() == expected
    assert batch["token_type_ids"].shape == batch["input_ids"].shape
    if window.method == "slices":
        assert batch["slices"].tolist() == [len(one["input_ids"]) for one in features]
    else:
        assert "slices" not in batch


def test_what_is_truncated_adds_up_and_is_summed_up_with_the_window():
    window = Window(13, "slices", overlap=2, max_slices=2)
    truncation = Truncation()
    for length in (5, 20, 40):
        truncation.add(apply_window(window, Frame((1,), (), (2,), None), list(range(length))))
    assert truncation == Truncation(rows=3, rows_cut=1, tokens=65, tokens_cut=20)
    before = Truncation(rows=1, rows_cut=0, tokens=5, tokens_cut=0)
    assert truncation.since(before) == Truncation(rows=2, rows_cut=1, tokens=60, tokens_cut=20)
    assert truncation.summary(window) == (
        "1 of 3 rows are longer than the window (slices of 13 tokens, overlap 2, at most 2); "
        "30.8% of all tokens are not seen"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "middle"}, "method: found 'middle', expected one of head, tail"),
        ({"overlap": 3}, "overlap: found 3, but method is head; set method: slices"),
        ({"method": "head+tail", "max_slices": 3}, "max_slices: found 3, but method is head.tail"),
        (
            {"method": "slices", "head_tokens": 3},
            "head_tokens: found 3, but method is slices; set method: head.tail",
        ),
        ({"method": "slices", "max_slices": 0}, "max_slices: found 0, expected 1 or more"),
        ({"method": "slices", "overlap": 10}, "overlap: found 10, but 12 tokens show 10 of a text"),
        (
            {"method": "head+tail", "head_tokens": 10},
            "head_tokens: found 10, but 12 tokens show 10 of a text; that leaves no tail",
        ),
        ({"max_tokens": 2}, "max_tokens: found 2, of which 2 are special ones; that leaves no text"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Window(**{"max_tokens": 12, **wrong}).check(Frame((1,), (), (2,), None), pair=False)


def test_in_a_pair_a_text_has_half_the_room():
    frame = Frame((1,), (2,), (3,), None)
    Window(23, "slices", overlap=9).check(frame, pair=True)
    with pytest.raises(ValueError, match="overlap: found 10, but 23 tokens show 10 of a text of a pair"):
        Window(23, "slices", overlap=10).check(frame, pair=True)


@given(data=st.data(), room=st.integers(8, 60))
def test_what_is_around_two_spans_holds_both_and_fills_the_room(data, room):
    sizes = [data.draw(st.integers(low, 60)) for low in (0, 2, 0, 2, 0)]
    edges = list(itertools.accumulate(sizes))
    length, first, second = edges[-1], (edges[0], edges[1]), (edges[2], edges[3])
    shown = ranges_around(length, room, first, second)
    inside = [token for start, stop in shown for token in range(start, stop)]
    assert inside == sorted(set(inside))
    assert set(inside) <= set(range(length))
    assert len(inside) == min(length, room)
    for start, stop in (first, second):
        assert {start, stop - 1} <= set(inside)
        if sizes[1] + sizes[3] <= room:
            assert set(range(start, stop)) <= set(inside)
    if second[1] - first[0] <= room:
        assert len(shown) == 1


def test_the_room_beside_two_spans_is_shared():
    assert ranges_around(100, 20, (40, 44), (50, 54)) == ((37, 57),)
    assert ranges_around(100, 20, (1, 4), (10, 13)) == ((0, 20),)
    assert ranges_around(100, 20, (10, 14), (80, 84)) == ((7, 17), (77, 87))
    assert ranges_around(100, 10, (10, 30), (80, 83)) == ((10, 16), (29, 30), (80, 83))
