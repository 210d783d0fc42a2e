"""Offsets of tokens: for every tokenizer they ascend, lie in the text and cover what the token spells."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizer

from tiny import ARCHITECTURES, tiny_byte_tokenizer, tiny_japanese, tiny_tokenizer, tiny_unigram_tokenizer
from warmstart.text.alignment import (
    char_span_to_tokens,
    join_words,
    tokenize_with_offsets,
    tokens_to_char_span,
    word_ids,
)
from warmstart.text.token_matching import normalize_nfkc

JAPANESE = [
    f"{words}-{subwords}{case}"
    for words in ("mecab", "sudachi", "basic")
    for subwords in ("wordpiece", "character")
    for case in ("", "-lower")
]
OTHERS = ["byte", "byte-prefix", "unigram", "letters"]
TEXTS = st.text(
    st.one_of(
        st.sampled_from("㍿ﬁ①ﾊﾞﾟＡｂ１´¨ﷺ가각ᄀ\u1161\u11a8éÉßİΣς髙大学東京へ行くバハ゛゙あ"),
        st.sampled_from("\u0301\u0316\u3099\u200d\ufe0f\u00ad\x00\x01\x7f\ufffd\u0e33▁Ġ#@_[]"),
        st.sampled_from("👩👍🏽🏿💻❤ ab the film.,' \t\n\r\u3000\u00a0\u2028\x1c"),
        st.characters(exclude_categories=("Cs",)),
    ),
    max_size=24,
)
HARD = [
    "",
    " \n\u3000",
    "東京 大学\tへ\n行く\x00次\x01の a\u200db 👩🏽‍💻 あ゙ \u0301 é e\u0301\u0316",
    "㍿ﾊﾞﾊﾞ東京[MASK]大学①",
    "#a ##b [SEP] ＡＢab´ [UNK]日",
    "ﬁlm ﷺ ΑΣ ΣΑΣ ẞ İstanbul e\u0301\x00\u0301 각\u11a8",
]


class Letters(PreTrainedTokenizer):
    """A tokenizer in plain Python that takes every character as it is, white space too."""

    def __init__(self):
        super().__init__(unk_token="[UNK]")

    vocab_size = 0x3100

    def get_vocab(self):
        return {}

    def _tokenize(self, text):
        return list(text)

    def _convert_token_to_id(self, token):
        return ord(token) if len(token) == 1 else 0

    def _convert_id_to_token(self, index):
        return chr(index) if index else "[UNK]"


@pytest.fixture(scope="session")
def tokenizer_of(tmp_path_factory):
    """Each tokenizer by its name, built once."""
    built = {}

    def build(name):
        words, _, rest = name.partition("-")
        if name in ARCHITECTURES:
            return tiny_tokenizer(name)
        if words == "byte":
            return tiny_byte_tokenizer(prefix=bool(rest))
        if name == "unigram":
            return tiny_unigram_tokenizer()
        if name == "letters":
            return Letters()
        subwords, _, lower = rest.partition("-")
        return tiny_japanese(tmp_path_factory.mktemp("ja"), words, subwords, do_lower_case=bool(lower))

    def of(name):
        if name not in built:
            built[name] = build(name)
        return built[name]

    return of


def bare(text):
    """A text without what tokenizers may drop or change: white space, marks, controls, case."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(one for one in text if not one.isspace() and unicodedata.category(one)[0] not in "MC" and one != "▁")


def check(tokenizer, text):
    tokens = tokenize_with_offsets(tokenizer, [text])[0]
    assert tokens.ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(tokens.ids) == len(tokens.offsets)
    assert [start for start, _ in tokens.offsets] == sorted(start for start, _ in tokens.offsets)
    assert all(0 <= start <= end <= len(text) for start, end in tokens.offsets)
    assert all(text[start:end] == text[start:end].strip() for start, end in tokens.offsets)
    return tokens


@pytest.mark.parametrize("name", [*JAPANESE, "bert", *OTHERS])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=HARD[0])
@example(text=HARD[1])
@example(text=HARD[2])
@example(text=HARD[3])
@example(text=HARD[4])
@example(text=HARD[5])
def test_offsets_cover_what_the_tokens_spell(tokenizer_of, name, text):
    tokenizer = tokenizer_of(name)
    tokens = check(tokenizer, text)
    unknown = tokenizer.unk_token_id
    shared = [span for span in tokens.offsets if tokens.offsets.count(span) > 1]
    for token, id, span in zip(tokenizer.convert_ids_to_tokens(tokens.ids), tokens.ids, tokens.offsets, strict=True):
        if id == unknown or span in shared or name.startswith("byte"):
            continue
        surface = text[slice(*span)]
        spelled = token if name == "letters" else re.sub("^##(?=.)|^▁", "", token)
        assert bare(surface) in (bare(spelled), bare(token)), (token, surface)


@pytest.mark.parametrize("name", [*JAPANESE, "bert", *OTHERS])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=HARD[2])
@example(text=HARD[5])
@example(text="\ufffd")
def test_every_character_that_is_not_dropped_lies_in_a_token(tokenizer_of, name, text):
    if name.startswith("mecab"):
        text = text.replace("\0", "")  # reads no further
    tokens = check(tokenizer_of(name), text)
    held = {at for start, end in tokens.offsets for at in range(start, end)}
    for at, one in enumerate(text):
        # BERT's own cleaning drops the replacement character, as it drops control characters.
        assert at in held or one.isspace() or not bare(one) or one == "\ufffd", (text, at)


@given(text=TEXTS)
def test_normalized_units_spell_the_normalized_text(text):
    units = normalize_nfkc([(one, at, at + 1) for at, one in enumerate(text)])
    assert "".join(one for one, *_ in units) == unicodedata.normalize("NFKC", text)
    for one, start, end in units:
        assert one in unicodedata.normalize("NFKC", text[start:end])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_offsets_of_every_architecture(tokenizer_of, name):
    for text in HARD:
        check(tokenizer_of(name), text)


def test_tokens_belong_to_the_words_they_came_from(tokenizer_of):
    text, words = join_words(["Alice", "zz", "\u200d", "lives"])
    assert text == "Alice zz \u200d lives"
    tokens = tokenize_with_offsets(tokenizer_of("bert"), [text])[0]
    assert word_ids(tokens.offsets, words) == [0, 1, 1, 3]


def test_a_token_over_two_words_belongs_to_the_first_and_an_empty_one_to_none():
    assert word_ids([(0, 3), (3, 3), (3, 5), (6, 7)], [(0, 2), (2, 3), (4, 5)]) == [0, -1, 2, -1]


def test_spans_go_to_tokens_and_back(tokenizer_of):
    text = " 東京大学へ行く㍿ "
    offsets = tokenize_with_offsets(tokenizer_of("mecab-character"), [text])[0].offsets
    for start, end in [(1, 3), (3, 5), (8, 9), (1, 9)]:
        assert tokens_to_char_span(offsets, *char_span_to_tokens(offsets, start, end)) == (start, end)
    assert char_span_to_tokens(offsets, 0, 1) is None
    assert tokens_to_char_span(offsets, 2, 2) is None


@pytest.mark.parametrize("name", ["mecab-wordpiece", "sudachi-wordpiece", "bert"])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS, data=st.data())
def test_characters_alone_never_cross_a_boundary(tokenizer_of, name, text, data):
    tokenizer = tokenizer_of(name)
    offsets = tokenize_with_offsets(tokenizer, [text], by="character")[0].offsets
    letters = [at for at, one in enumerate(text) if tokenize_with_offsets(tokenizer, [one])[0].offsets]
    if letters:
        start, last = sorted((data.draw(st.sampled_from(letters)), data.draw(st.sampled_from(letters))))
        first, stop = char_span_to_tokens(offsets, start, last + 1)
        span = tokens_to_char_span(offsets, first, stop)
        assert span[0] == start
        assert bare(text[last + 1 : span[1]]) == "", "only what the tokenizer drops may be added"
