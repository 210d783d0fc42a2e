"""Tag schemes: entities as seqeval finds them, tags that say them again, and the scheme of a file."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval import scheme as seqeval

from warmstart.text import tag_schemes as schemes

THEIRS = {"BIO": seqeval.IOB2, "IOBES": seqeval.IOBES, "BILOU": seqeval.BILOU}


@pytest.mark.parametrize("scheme", THEIRS)
def test_every_short_row_of_tags_says_what_seqeval_finds_in_strict_mode(scheme):
    names = schemes.tags_of(scheme, ["x", "y"])
    for length in (1, 2, 3):
        for tags in itertools.product(names, repeat=length):
            [found] = seqeval.Entities([list(tags)], THEIRS[scheme]).entities
            assert set(schemes.spans(tags, scheme)) == {(one.start, one.end, one.tag) for one in found}, tags


@st.composite
def said(draw):
    """Entities in a row of words, none overlapping another."""
    found, place = [], 0
    for gap, length, kind in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from("xy")))):
        found.append((place + gap, place + gap + length, kind))
        place += gap + length
    return found, place + draw(st.integers(0, 3))


@given(said())
def test_entities_become_tags_and_entities_again(spans_and_length):
    spans, length = spans_and_length
    for scheme in ("BIO", "IOBES"):
        tags = schemes.tags(spans, length, scheme)
        assert len(tags) == length
        assert schemes.spans(tags, scheme) == spans
        assert detect(tags).faults[scheme] == 0


def iob1(tags):
    """The same entities in IOB1."""
    found = list(tags)
    for place, tag in enumerate(tags):
        if tag.startswith("B") and (place == 0 or tags[place - 1][2:] != tag[2:]):
            found[place] = "I" + tag[1:]
    return found


@given(said())
def test_iob1_says_the_same_entities(spans_and_length):
    tags = iob1(schemes.tags(*spans_and_length, "BIO"))
    assert schemes.spans(tags, "IOB1") == spans_and_length[0]


def detect(*sentences):
    found = schemes.Detector()
    start = 1
    for tags in sentences:
        for line, tag in enumerate(tags, start):
            found.look(tag, line)
        found.look(None)
        start += len(tags) + 1
    return found


@given(st.lists(said(), min_size=1), st.sampled_from(["BIO", "IOB1", "IOBES", "BILOU"]))
def test_a_file_is_found_to_be_in_its_scheme(sentences, scheme):
    rows = []
    for spans, length in sentences:
        tags = schemes.tags(spans, length, "BIO" if scheme in {"BIO", "IOB1"} else "IOBES")
        if scheme == "BILOU":
            tags = [tag.replace("E-", "L-").replace("S-", "U-") for tag in tags]
        rows.append(iob1(tags) if scheme == "IOB1" else tags)
    found = detect(*rows)
    assert found.fits
    assert found.faults[scheme] == 0
    if any(tag != "O" for tags in rows for tag in tags) and scheme in {"BIO", "IOB1"}:
        assert found.scheme == scheme


@pytest.mark.parametrize(
    ("sentences", "scheme", "line", "what"),
    [
        ([["B-x", "I-x", "O"]] * 3 + [["O", "I-x"]], "BIO", 14, "I-x after O"),
        ([["B-x", "I-x", "O"], ["B-x", "I-y"], ["O", "B-y"]], "BIO", 6, "I-y after B-x"),
        ([["B-x", "E-x", "O", "S-y"], ["O", "E-x"], ["S-x"]], "IOBES", 7, "E-x after O"),
        ([["S-x", "O", "B-x"], ["S-x", "O", "S-x"]], "IOBES", 3, "B-x at the end of a sentence"),
        ([["S-x", "B-x", "E-x"], ["S-x", "O", "B-x", "O"]], "IOBES", 8, "O after B-x"),
        ([["B-x", "I-x", "O", "B-x"], ["B-y", "E-y"]], "BIO", 7, "E-y is no tag of BIO"),
        ([["I-x", "I-x", "O", "I-x"], ["I-y", "O", "B-y"]], "IOB1", 8, "B-y after O"),
    ],
)
def test_a_file_in_no_scheme_names_the_first_tag_that_contradicts_the_likeliest(sentences, scheme, line, what):
    found = detect(*sentences)
    assert not found.fits
    assert found.scheme == scheme
    assert found.first[scheme] == (line, what)


def test_a_few_needless_b_do_not_make_iob1_something_else():
    found = detect(*[["I-x", "O"]] * 200, ["O", "B-x"])
    assert found.fits
    assert found.scheme == "IOB1"
    assert found.faults["IOB1"] == 1
