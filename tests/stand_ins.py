"""Rows of our own that stand for the public datasets of the tutorials, in the same files, formats and columns.

The tutorials fetch the datasets by `curl` or from the Hub, which tests cannot. What runs on these rows shows that the
commands of a page work; the scores on a page are those of the real rows.
"""

import csv
import json
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

from tiny import VOCABULARY, save_japanese, save_tiny

ROOT = Path(__file__).parent.parent

ENCODERS = {"sentence-transformers/all-MiniLM-L6-v2": "bert", "google-bert/bert-base-uncased": "bert"}
"""Encoders in the pages, and the tiny architecture that replaces each."""
JAPANESE = "tohoku-nlp/bert-base-japanese-char-v3"
"""The Japanese encoder in the pages."""

DATA_SETS = {
    "cornell-movie-review-data/rotten_tomatoes": {
        "train.csv": "text,label\n" + "a good film,pos\na bad film,neg\n" * 8,
        "test.csv": "text,label\na great story,pos\na boring story,neg\n",
    }
}
"""Data sets in the pages, and the files that replace each."""

NOT_RUN = ("git clone", "make ", "pip ", "bash .ci/run", "pre-commit ", "curl -f")
"""A bash block with a line that starts like this is not run: it installs or fetches something, or runs the tests."""

INTENTS = {"card_arrival": "card", "exchange_rate": "exchange", "lost_phone": "lost", "top_up_failed": "money"}
"""A tiny encoder with random weights can tell messages apart by one word that is most of the text."""
MESSAGES = ["{0} {0} {0}", "my {0} {0}", "{0} , where is {0} {0}", "please {0} {0} {0}"]
ENDINGS = ["", " now", " today", " again", " please", " ?", " !", " thanks", " help", " up"]

PEOPLE = ["Alice", "Bob Smith", "Mary"]
PLACES = ["Paris", "New York", "Leeds"]

ARTICLES = {
    "Bridge": ("The old bridge was built in {} by {} .", "When was the bridge built?", "Who built the bridge?"),
    "Book": ("The book about birds came out in {} . It was written by {} .", "When did it come out?", "Who wrote it?"),
    "School": (
        "In {} the school was opened . Its teacher was {} .",
        "When was it opened?",
        "Who was the teacher?",
    ),
}

REQUESTS = {"weather": "rain", "timer": "minutes", "balance": "money"}

JAPANESE_PEOPLE = ["山田花子", "佐藤一郎", "鈴木次郎", "田中京子"]
JAPANESE_PLACES = ["東京都", "大阪市", "京都", "北海道", "名古屋"]


def stand_in_folder(folder: Path) -> Path:
    """Fill a folder with all that a page reads: the examples, tiny encoders, and rows for each dataset."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    # Whole words are in the vocabulary: spelt out, texts would be five times as long, and training as much slower.
    texts = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.csv")))
    words = sorted(set(re.findall(r"[a-z]{2,}", texts.lower())) - set(VOCABULARY))
    for name, architecture in ENCODERS.items():
        save_tiny(folder / name, architecture, words=words, num_hidden_layers=4)
    save_japanese(folder / JAPANESE)
    export = [sys.executable, ROOT / "proofs" / "messy_export.py", folder / "export.csv", "--rows", "1000"]
    subprocess.run(export, check=True)
    for name, files in DATA_SETS.items():
        (folder / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / file).write_text(text)
    write_stand_ins(folder)
    return folder


def write_stand_ins(folder: Path) -> None:
    """Write all files of the tutorials' datasets into a folder."""
    banking77(folder / "banking77")
    wnut17(folder / "wnut17")
    xquad(folder / "xquad")
    boolq(folder / "google" / "boolq")
    clinc150(folder / "clinc150")
    ner_wikipedia_ja(folder / "ner_wikipedia_ja")
    jsquad(folder / "jsquad")


def banking77(folder: Path) -> None:
    """Messages to a bank, and their intents."""
    folder.mkdir(parents=True)
    rows = [
        (message.format(word) + ending, intent)
        for message, ending, (intent, word) in product(MESSAGES, ENDINGS, INTENTS.items())
    ]
    for name, part in {"train": rows[:64], "test": rows[64:]}.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "category"), *part])


def wnut17(folder: Path) -> None:
    """Sentences with people and places, one word and its tag a line."""
    folder.mkdir(parents=True)
    sentences = [
        [*_tagged(person, "person"), ("lives", "O"), ("in", "O"), *_tagged(place, "location"), (".", "O")]
        for person, place in product(PEOPLE, PLACES)
    ]
    parts = {"wnut17train.conll": sentences[:5], "emerging.dev.conll": sentences[5:7]}
    for name, part in {**parts, "emerging.test.annotated": sentences[7:]}.items():
        text = "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in part)
        (folder / name).write_text(text, encoding="utf-8")


def _tagged(name: str, kind: str) -> list[tuple[str, str]]:
    return [(word, f"{'I' if number else 'B'}-{kind}") for number, word in enumerate(name.split())]


def xquad(folder: Path) -> None:
    """Articles with paragraphs and questions, as in SQuAD."""
    folder.mkdir(parents=True)
    articles = []
    for number, (title, (text, *questions)) in enumerate(ARTICLES.items()):
        paragraphs = []
        for part, person in enumerate(PEOPLE):
            year = str(1900 + 10 * number + part)
            context = text.format(year, person)
            asked = [
                {
                    "id": f"{title}-{part}-{question.split()[0]}",
                    "question": question,
                    "answers": [_answer(context, answer)],
                }
                for question, answer in zip(questions, (year, person), strict=True)
            ]
            paragraphs.append({"context": context, "qas": asked})
        articles.append({"title": title, "paragraphs": paragraphs})
    (folder / "xquad.en.json").write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")


def _answer(context: str, text: str) -> dict[str, str | int]:
    return {"text": text, "answer_start": context.index(text)}


def boolq(folder: Path) -> None:
    """Questions that a passage answers by yes or no: enough for the few percent that the tutorial reads."""
    folder.mkdir(parents=True)
    for name, size in {"train": 400, "validation": 200}.items():
        rows = [
            {
                "question": f"is the book {number} good",
                "answer": number % 3 == 0,
                "passage": f"The book {number} is {'good' if number % 3 == 0 else 'bad'} . " * (1 + number % 8),
            }
            for number in range(size)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def clinc150(folder: Path) -> None:
    """Requests to an assistant, and their intents."""
    folder.mkdir(parents=True)
    rows = [
        (message.format(word) + ending, intent)
        for message, ending, (intent, word) in product(MESSAGES, ENDINGS, REQUESTS.items())
    ]
    (folder / "data_full.json").write_text(json.dumps({"train": rows}), encoding="utf-8")


def ner_wikipedia_ja(folder: Path) -> None:
    """Japanese sentences with people and places, whose positions are counted in characters."""
    folder.mkdir(parents=True)
    rows = [
        {
            "text": f"{person}は{place}で生まれた。",
            "entities": [
                {"name": person, "span": [0, len(person)], "type": "人名"},
                {"name": place, "span": [len(person) + 1, len(person) + 1 + len(place)], "type": "地名"},
            ],
        }
        for person, place in product(JAPANESE_PEOPLE, JAPANESE_PLACES)
    ]
    (folder / "ner.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def jsquad(folder: Path) -> None:
    """Japanese paragraphs, each behind the title of its article."""
    folder.mkdir(parents=True)
    for name, people in {"valid": JAPANESE_PEOPLE[:2], "test": JAPANESE_PEOPLE[2:]}.items():
        articles = [
            {"title": place, "paragraphs": [{"context": f"{place} [SEP] {place}には{person}が住んでいる。", "qas": []}]}
            for person, place in product(people, JAPANESE_PLACES)
        ]
        (folder / f"{name}-v1.3.json").write_text(json.dumps({"data": articles}, ensure_ascii=False), encoding="utf-8")
