"""Tag schemes: entities as seqeval finds them, tags that encode them again, and the scheme of a file."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval import scheme as seqeval

from warmstart.text import tag_schemes as schemes

THEIRS = {"BIO": seqeval.IOB2, "IOBES": seqeval.IOBES, "BILOU": seqeval.BILOU}


@pytest.mark.parametrize("scheme", THEIRS)
def test_every_short_sequence_of_tags_holds_what_seqeval_finds_in_strict_mode(scheme):
    names = schemes.all_tags(scheme, ["x", "y"])
    for length in (1, 2, 3):
        for tags in itertools.product(names, repeat=length):
            [theirs] = seqeval.Entities([list(tags)], THEIRS[scheme]).entities
            assert set(schemes.tags_to_spans(tags, scheme)) == {(one.start, one.end, one.tag) for one in theirs}, tags


@st.composite
def entities_and_length(draw):
    """Entities in a row of words, none overlapping another."""
    spans, position = [], 0
    for gap, length, kind in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from("xy")))):
        spans.append((position + gap, position + gap + length, kind))
        position += gap + length
    return spans, position + draw(st.integers(0, 3))


@given(entities_and_length())
def test_entities_become_tags_and_entities_again(spans_and_length):
    spans, length = spans_and_length
    for scheme in ("BIO", "IOBES"):
        tags = schemes.spans_to_tags(spans, length, scheme)
        assert len(tags) == length
        assert schemes.tags_to_spans(tags, scheme) == spans
        assert detect(tags).faults[scheme] == 0


def iob1(tags):
    """The same entities in IOB1."""
    changed = list(tags)
    for position, tag in enumerate(tags):
        if tag.startswith("B") and (position == 0 or tags[position - 1][2:] != tag[2:]):
            changed[position] = "I" + tag[1:]
    return changed


@given(entities_and_length())
def test_iob1_encodes_the_same_entities(spans_and_length):
    tags = iob1(schemes.spans_to_tags(*spans_and_length, "BIO"))
    assert schemes.tags_to_spans(tags, "IOB1") == spans_and_length[0]


def detect(*sentences):
    detector = schemes.SchemeDetector()
    start = 1
    for tags in sentences:
        for line, tag in enumerate(tags, start):
            detector.observe(tag, line)
        detector.observe(None)
        start += len(tags) + 1
    return detector


@given(st.lists(entities_and_length(), min_size=1), st.sampled_from(["BIO", "IOB1", "IOBES", "BILOU"]))
def test_a_file_is_found_to_be_in_its_scheme(sentences, scheme):
    rows = []
    for spans, length in sentences:
        tags = schemes.spans_to_tags(spans, length, "BIO" if scheme in {"BIO", "IOB1"} else "IOBES")
        if scheme == "BILOU":
            tags = [tag.replace("E-", "L-").replace("S-", "U-") for tag in tags]
        rows.append(iob1(tags) if scheme == "IOB1" else tags)
    detector = detect(*rows)
    assert detector.fits
    assert detector.faults[scheme] == 0
    if any(tag != "O" for tags in rows for tag in tags) and scheme in {"BIO", "IOB1"}:
        assert detector.scheme == scheme


@pytest.mark.parametrize(
    ("sentences", "scheme", "line", "what"),
    [
        ([["B-x", "I-x", "O"]] * 3 + [["O", "I-x"]], "BIO", 14, "I-x after O"),
        ([["B-x", "I-x", "O"], ["B-x", "I-y"], ["O", "B-y"]], "BIO", 6, "I-y after B-x"),
        ([["B-x", "E-x", "O", "S-y"], ["O", "E-x"], ["S-x"]], "IOBES", 7, "E-x after O"),
        ([["S-x", "O", "B-x"], ["S-x", "O", "S-x"]], "IOBES", 3, "B-x at the end of a sentence"),
        ([["S-x", "B-x", "E-x"], ["S-x", "O", "B-x", "O"]], "IOBES", 8, "O after B-x"),
        ([["B-x", "I-x", "O", "B-x"], ["B-y", "E-y"]], "BIO", 7, "E-y is not a tag of BIO"),
        ([["I-x", "I-x", "O", "I-x"], ["I-y", "O", "B-y"]], "IOB1", 8, "B-y after O"),
    ],
)
def test_a_file_in_no_scheme_names_the_first_tag_that_contradicts_the_likeliest(sentences, scheme, line, what):
    detector = detect(*sentences)
    assert not detector.fits
    assert detector.scheme == scheme
    assert detector.first[scheme] == (line, what)


def test_a_few_redundant_b_do_not_make_iob1_something_else():
    detector = detect(*[["I-x", "O"]] * 200, ["O", "B-x"])
    assert detector.fits
    assert detector.scheme == "IOB1"
    assert detector.faults["IOB1"] == 1
