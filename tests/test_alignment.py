"""Places of pieces: for every tokenizer they ascend, lie in the text and hold what the piece says."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizer

from tiny import ARCHITECTURES, tiny_byte_tokenizer, tiny_japanese, tiny_tokenizer, tiny_unigram_tokenizer
from warmstart.text.alignment import join_words, owners, pieces, pieces_to_span, span_to_pieces
from warmstart.text.piece_matching import normal

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
    found = pieces(tokenizer, [text])[0]
    assert found.ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(found.ids) == len(found.places)
    assert [start for start, _ in found.places] == sorted(start for start, _ in found.places)
    assert all(0 <= start <= end <= len(text) for start, end in found.places)
    assert all(text[start:end] == text[start:end].strip() for start, end in found.places)
    return found


@pytest.mark.parametrize("name", [*JAPANESE, "bert", *OTHERS])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=HARD[0])
@example(text=HARD[1])
@example(text=HARD[2])
@example(text=HARD[3])
@example(text=HARD[4])
@example(text=HARD[5])
def test_places_hold_what_the_pieces_say(tokenizer_of, name, text):
    tokenizer = tokenizer_of(name)
    found = check(tokenizer, text)
    unknown = tokenizer.unk_token_id
    shared = [place for place in found.places if found.places.count(place) > 1]
    for token, id, place in zip(tokenizer.convert_ids_to_tokens(found.ids), found.ids, found.places, strict=True):
        if id == unknown or place in shared or name.startswith("byte"):
            continue
        surface = text[slice(*place)]
        said = token if name == "letters" else re.sub("^##(?=.)|^▁", "", token)
        assert bare(surface) in (bare(said), bare(token)), (token, surface)


@pytest.mark.parametrize("name", [*JAPANESE, "bert", *OTHERS])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=HARD[2])
@example(text=HARD[5])
def test_every_character_that_is_not_dropped_lies_in_a_piece(tokenizer_of, name, text):
    if name.startswith("mecab"):
        text = text.replace("\0", "")  # reads no further
    found = check(tokenizer_of(name), text)
    held = {at for start, end in found.places for at in range(start, end)}
    for at, one in enumerate(text):
        assert at in held or one.isspace() or not bare(one), (text, at)


@given(text=TEXTS)
def test_normal_units_make_the_normal_form(text):
    units = normal([(one, at, at + 1) for at, one in enumerate(text)])
    assert "".join(one for one, *_ in units) == unicodedata.normalize("NFKC", text)
    for one, start, end in units:
        assert one in unicodedata.normalize("NFKC", text[start:end])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_places_of_every_architecture(tokenizer_of, name):
    for text in HARD:
        check(tokenizer_of(name), text)


def test_given_words_own_their_pieces(tokenizer_of):
    text, ranges = join_words(["Alice", "zz", "\u200d", "lives"])
    assert text == "Alice zz \u200d lives"
    found = pieces(tokenizer_of("bert"), [text])[0]
    assert owners(found.places, ranges) == [0, 1, 1, 3]


def test_a_piece_over_two_words_is_the_firsts_and_empty_ones_are_nobodys():
    assert owners([(0, 3), (3, 3), (3, 5), (6, 7)], [(0, 2), (2, 3), (4, 5)]) == [0, -1, 2, -1]


def test_spans_go_to_pieces_and_back(tokenizer_of):
    text = " 東京大学へ行く㍿ "
    places = pieces(tokenizer_of("mecab-character"), [text])[0].places
    for start, end in [(1, 3), (3, 5), (8, 9), (1, 9)]:
        assert pieces_to_span(places, *span_to_pieces(places, start, end)) == (start, end)
    assert span_to_pieces(places, 0, 1) is None
    assert pieces_to_span(places, 2, 2) is None


@pytest.mark.parametrize("name", ["mecab-wordpiece", "sudachi-wordpiece", "bert"])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS, data=st.data())
def test_characters_alone_never_cross_a_boundary(tokenizer_of, name, text, data):
    tokenizer = tokenizer_of(name)
    places = pieces(tokenizer, [text], by="character")[0].places
    letters = [at for at, one in enumerate(text) if pieces(tokenizer, [one])[0].places]
    if letters:
        start, last = sorted((data.draw(st.sampled_from(letters)), data.draw(st.sampled_from(letters))))
        first, stop = span_to_pieces(places, start, last + 1)
        found = pieces_to_span(places, first, stop)
        assert found[0] == start
        assert bare(text[last + 1 : found[1]]) == "", "only what the tokenizer drops may be added"
