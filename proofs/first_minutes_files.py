"""The files of a new user: clean rows, and rows with one thing wrong with them."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from pathlib import Path

from common import ROOT
from spreadsheets import write_spreadsheet

sys.path.insert(0, str(ROOT / "tests"))

from small import reviews
from tiny import save_tiny


def write_files(folder: Path) -> None:
    """Write an encoder and all files."""
    save_tiny(folder / "encoder")
    rows = [(text, label) for text, label in reviews(64)]
    clean = "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
    german = "Nr;Nachricht;Thema\n" + "".join(f"{at};{text} schön;{label}\n" for at, (text, label) in enumerate(rows))
    files = {
        "rows.csv": clean,
        "two.csv": "text,label\na b,x\nc d,y\n",
        "empty.csv": "",
        "header.csv": "text,label\n",
        "one.csv": "text,label\n" + "".join(f"hello number {at},x\n" for at in range(30)),
        "lines.json": '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n',
        "array.json": json.dumps([{"text": text, "label": label} for text, label in rows]),
        "rows.jsonl": "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows),
        "comma.csv": "text,label\nwell, yes,x\nno,y\n",
        "other.csv": "message,id\ngood film,7\n",
        "new.csv": "text,label\ngood,pos\nbad,meh\n",
        "bad.yaml": "model: m\ndata:\n\ttrain: x\n",
        "key.yaml": "model: encoder\ndata: {train: rows.csv}\nlearning_rate: 1e-4\n",
        "holes.csv": clean + ",pos\n   ,neg\nno label,\n",
        "skewed.csv": "text,label\n" + "".join(f"text {at},{'ham' if at % 9 else 'spam'}\n" for at in range(80)),
        "misspelt.csv": "text,label\n"
        + "".join(f"text {at},Karte\nother {at},Konto\n" for at in range(40))
        + "x y,Kate\n",
        "ids.csv": "id,text,label\n007,good film,pos\n008,=1+1,neg\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "german.csv").write_text(german, encoding="cp1252")
    (folder / "utf16.csv").write_text(files["two.csv"], encoding="utf-16")
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 20)
    (folder / "rows.csv.gz").write_bytes(gzip.compress(clean.encode()))
    (folder / "packed.csv").write_bytes(gzip.compress(clean.encode()))
    with zipfile.ZipFile(folder / "rows.csv.zip", "w") as archive:
        archive.writestr("rows.csv", clean)
    write_spreadsheet([("text", "label"), *rows], folder / "rows.xlsx")
    write_spreadsheet([("text", "label"), *rows], folder / "rows.ods")
    (folder / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512))
    (folder / "full").mkdir()
    (folder / "full" / "thesis.txt").write_text("do not touch")
