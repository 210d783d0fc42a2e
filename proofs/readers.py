"""What was written is what is read: texts of quotes, line ends, marks and scripts of all kinds, through every reader.

Each text is written by another library than the one that reads it (`csv`, `json`, `pyarrow`), as a text and as a label,
and must come back to the letter. NUL and lone surrogates are left out, since every reader refuses them.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from common import arguments, finish, write_page
from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source

SCHEMA = Schema((Column("text", "text", "a text"), Column("label", "label", "a label", answer=True)))
BATCH = 25
"""Texts in a file."""
PIECES = {
    "quotes": ('"', '""', '"""', "'", '","', "\\", '\\"'),
    "line ends": ("\n", "\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"),
    "separators": ("\t", ",", ";", "|", "\x1f"),
    "byte order marks": ("\ufeff", "\ufffe"),
    "forms that NFKC or NFC would change": ("ﬁ", "①", "Ａ", "ｶﾞ", "e\u0301", "Å", "½"),
    "joiners and emoji": ("👩\u200d👩\u200d👧", "\u200d", "\u200c", "😀", "🇯🇵", "👍🏽", "❤\ufe0f"),
    "right-to-left": ("שלום", "مرحبا", "\u202e", "\u2067", "\u200f"),
    "words for missing values": ("NA", "null", "nan", "None", "#N/A", "true", "0", "1e5"),
    "other scripts": ("犬と猫", "한국어", "ไทย", "हिन्दी", "ß", "İ"),
}
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
PIECE = st.one_of(
    st.sampled_from([piece for some in PIECES.values() for piece in some]), st.text(CHARACTERS, max_size=4)
)
TEXT = st.lists(PIECE, min_size=1, max_size=6).map("".join).filter(str.strip)


def _delimited(texts: list[str], separator: str, end: str) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=separator, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("text", "label"), *((text, text) for text in texts)])
    return out.getvalue().encode()


def _back(path: Path, content: bytes, texts: list[str], **options: str) -> int:
    """How many texts come back as they were, in their place, both as text and as label."""
    path.write_bytes(content)
    rows = list(iter_rows(Source((str(path),), **options), SCHEMA, Findings()))  # type: ignore[arg-type]
    assert len(rows) == len(texts), f"{path.suffix}: {len(texts)} rows written, {len(rows)} read"
    return sum(row["text"] == row["label"] == text for row, text in zip(rows, texts, strict=True))


def through_all(
    folder: Path, texts: list[str], end: str, mark: bool, plain: bool, ascii: bool, equal: Counter[str]
) -> None:
    """Write and read the texts in every format; count those that come back."""
    before = b"\xef\xbb\xbf" if mark else b""
    equal["csv"] += _back(folder / "a.csv", before + _delimited(texts, ",", end), texts)
    equal["tsv"] += _back(folder / "a.tsv", before + _delimited(texts, "\t", end), texts, quotes="double")
    if plain:  # without quotes a TSV has no way to hold tabs and line feeds, so they are put otherwise
        bare = [text.replace("\t", "⇥").replace("\n", "⏎").rstrip("\r") + "." for text in texts]
        content = "".join(f"{text}\t{text}{end}" for text in ["text", *bare]).replace("text\ttext", "text\tlabel", 1)
        assert _back(folder / "b.tsv", before + content.encode(), bare) == len(bare)
    lines = "".join(json.dumps({"text": text, "label": text}, ensure_ascii=ascii) + end for text in texts)
    equal["jsonl"] += _back(folder / "a.jsonl", before + lines.encode(), texts)
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "label": texts}), sink)
    equal["parquet"] += _back(folder / "a.parquet", sink.getvalue(), texts)


def prove(count: int) -> tuple[int, Counter[str]]:
    """Send so many texts through every reader."""
    equal: Counter[str] = Counter()
    sent = 0
    with tempfile.TemporaryDirectory() as name:

        @seed(0)
        @settings(
            max_examples=-(-count // BATCH), deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(
            st.lists(TEXT, min_size=BATCH, max_size=BATCH),
            st.sampled_from(["\n", "\r\n"]),
            st.booleans(),
            st.booleans(),
            st.booleans(),
        )
        def each(texts: list[str], end: str, mark: bool, plain: bool, ascii: bool) -> None:
            nonlocal sent
            sent += len(texts)
            through_all(Path(name), texts, end, mark, plain, ascii, equal)

        each()
    return sent, equal


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 100_000, "texts a reader")
    sent, equal = prove(args.n)
    figures = {"texts_a_reader": sent, **{f"{name}_equal": count for name, count in equal.items()}}
    if args.write:
        rows = "\n".join(f"| {name} | {sent:,} | {count:,} |" for name, count in equal.items())
        body = (
            f"**{min(equal.values()):,} of {sent:,}** texts were read back exactly by every reader.\n\n"
            f"| reader | texts written | read back exactly |\n| --- | ---: | ---: |\n{rows}\n\n"
            f"The texts are generated by Hypothesis, from any characters and from {', '.join(PIECES)}. Lines end in "
            "LF or CR LF; files are written with and without a byte order mark, TSV with and without quotes, and "
            "JSON with and without escapes."
        )
        write_page("readers", "What was written is what is read", "make proof-readers", body)
    finish(figures)


if __name__ == "__main__":
    main()
