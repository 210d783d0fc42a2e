"""Compressed files: gzip, zip with one file, Zstandard; what is damaged, or grows beyond reason, is refused."""

import gzip
import io
import zipfile

import pytest
import zstandard

from warmstart.data import compression
from warmstart.errors import DataError

TEXT = b"text,label\nm\xc3\xb6bel,x\nb,y\n"


def zipped(*members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


PACKED = {
    "a.csv.gz": gzip.compress(TEXT),
    "a.csv.zst": zstandard.compress(TEXT[:15]) + zstandard.compress(TEXT[15:]),
    "a.csv.zip": zipped(("__MACOSX/._a.csv", b"x"), ("folder/", b""), ("folder/a.csv", TEXT)),
}


@pytest.mark.parametrize("name", PACKED)
def test_rows_are_those_of_the_file_inside(put, rows_of, name):
    rows, _ = rows_of(put(name, PACKED[name]))
    assert [(row["line"], row["text"], row["label"]) for row in rows] == [(2, "möbel", "x"), (3, "b", "y")]


@pytest.mark.parametrize("name", PACKED)
def test_a_damaged_file_is_refused_by_name(put, rows_of, name):
    data = PACKED[name]
    for damaged in (data[: len(data) // 2], b"nothing of the kind", data[:-30] + bytes(30)):
        with pytest.raises(DataError, match=f"{name}: cannot be unpacked"):
            rows_of(put(name, damaged))


@pytest.mark.parametrize("name", PACKED)
def test_a_bomb_is_refused_before_it_is_unpacked(put, rows_of, name, monkeypatch):
    monkeypatch.setattr(compression, "FREE_BYTES", 1 << 20)
    bomb = b"text,label\n" + b"a,x\n" * 2_000_000
    pack = {"gz": gzip.compress, "zst": zstandard.compress, "zip": lambda data: zipped(("a.csv", data))}
    with pytest.raises(DataError, match="over 250 times its size"):
        rows_of(put(name, pack[name.rpartition(".")[2]](bomb)))


def test_a_zip_holds_one_file(put, rows_of):
    with pytest.raises(DataError, match=r"holds 2 files \(a.csv, b.csv\). Expected one"):
        rows_of(put("a.csv.zip", zipped(("a.csv", TEXT), ("b.csv", TEXT))))
    with pytest.raises(DataError, match="holds 0 files"):
        rows_of(put("a.csv.zip", zipped()))


@pytest.mark.parametrize(("name", "suffix"), [("a.csv.gz", "gz"), ("a.csv.zst", "zst"), ("a.csv.zip", "zip")])
def test_compressed_bytes_under_a_plain_name_are_told(put, rows_of, name, suffix):
    with pytest.raises(DataError, match=rf"holds compressed bytes \({suffix}\). Expected text: rename the file to"):
        rows_of(put("a.csv", PACKED[name]))
