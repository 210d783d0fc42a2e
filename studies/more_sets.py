"""More public sets of the studies: pairs, relations, entities, draws that every seed shares, and raw text.

| set | task | training rows | test rows |
| --- | --- | --- | --- |
| rte | 2 labels, of pairs | its own | its dev rows: the labels of its test rows are not public |
| sst2 | 2 labels, of whole sentences | phrases of its training part | its own |
| semeval | 9 directed relations and Other | its own | its own |
| fewrel | 16 relations | 500 of each of the validation part | 100 of each |
| conll2003 | entities of 4 kinds | 2,000 sentences of its own | 1,500 sentences of testb |
| wnut17 | entities of 6 kinds | its own | its own |
| wikiann | entities of 3 kinds | 2,000 sentences of its own | 1,500 sentences of its own |
| fixed-rt, fixed-trec, fixed-imdb | as in `benchmarks/stage_sets.py` | 1,000, 500 and 1,000 | 1,066, 500 and 1,000 |

Japanese sets are in `japanese_sets.py`. `corpus-NAME.jsonl` are raw texts: of films, of questions, of intents and in
Japanese, none of them of a test row; and of wikitext-2, paragraphs or whole articles.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import japanese_sets
import stage_sets
from set_files import MEASURE, OPEN, Rows, articles, categories, questions
from task_sets import _relations
from warmstart.text.alignment import join_words
from warmstart.text.tag_schemes import tags_to_spans

Row = dict[str, object]
Parts = tuple[list[Row], list[Row]]


def rte() -> Parts:
    """Pairs of texts, the second of which follows from the first (0) or not (1)."""

    def rows(part: str) -> list[Row]:
        with (MEASURE / "glue_rte" / f"{part}.tsv").open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t")
            return [{"text": line["sentence1"], "pair": line["sentence2"], "label": line["label"]} for line in lines]

    return rows("train"), rows("dev")


def sst2() -> Parts:
    """Phrases of film reviews to learn from, whole sentences to test on."""
    folder = MEASURE / "sst" / "Binary"
    return _classified(*(stage_sets._phrases(folder / f"sentiment-{part}") for part in ("train", "test")))


def semeval() -> Parts:
    """Sentences with two marked nouns, and how they relate."""
    folder = OPEN / "semeval2010_task8"
    train, test = (_relations(folder / name) for name in ("TRAIN_FILE.TXT", "TEST_FILE_FULL.TXT"))
    return train, test


def fewrel() -> Parts:
    """Sentences of Wikipedia with two marked entities, and their relation."""
    relations = json.loads((OPEN / "fewrel" / "val_wiki.json").read_text(encoding="utf-8"))
    train: list[Row] = []
    test: list[Row] = []
    for label, sentences in sorted(relations.items()):
        mixed = random.Random(0).sample(sentences, len(sentences))
        rows: list[Row] = [{"text": _marked(one), "label": label} for one in mixed]
        train += rows[:500]
        test += rows[500:600]
    return train, test


def _marked(sentence: dict[str, list]) -> str:
    """The text with both entities marked, each where it is first."""
    words = list(sentence["tokens"])
    for name, mark in (("h", "e1"), ("t", "e2")):
        places = sentence[name][2][0]
        words[places[0]] = f"<{mark}>{words[places[0]]}"
        words[places[-1]] = f"{words[places[-1]]}</{mark}>"
    return " ".join(words)


def conll2003() -> Parts:
    """Sentences of the news with people, places, organizations and others."""
    folder = MEASURE / "conll2003_en"
    train, test = (_sentences(folder / name) for name in ("eng.train", "eng.testb"))
    return random.Random(0).sample(train, 2000), random.Random(0).sample(test, 1500)


def wnut17() -> Parts:
    """Posts with people, places and things that are new."""
    folder = OPEN / "wnut17"
    return _sentences(folder / "wnut17train.conll"), _sentences(folder / "emerging.test.annotated")


def wikiann() -> Parts:
    """Pieces of Wikipedia with people, places and organizations."""
    train, test = (_sentences(OPEN / "wikiann_en" / part, prefix="en:") for part in ("train", "test"))
    return random.Random(0).sample(train, 2000), random.Random(0).sample(test, 1500)


def _sentences(path: Path, prefix: str = "") -> list[Row]:
    """Sentences with their words and entities, as the tags of IOB1 have them.

    Args:
        prefix: What stands before every word.
    """
    rows: list[Row] = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        cells = [line.split() for line in block.split("\n") if line.strip()]
        if not cells or cells[0][0] == "-DOCSTART-":
            continue
        text, spans = join_words([cell[0].removeprefix(prefix) for cell in cells])
        words = [{"start": start, "end": end} for start, end in spans]
        kinds = tags_to_spans([cell[-1] for cell in cells], "IOB1")
        entities = [{"start": spans[a][0], "end": spans[b - 1][1], "label": kind} for a, b, kind in kinds]
        rows.append({"text": text, "words": words, "entities": entities})
    return rows


def _classified(train: Rows, test: Rows) -> Parts:
    as_rows: list[list[Row]] = [
        [{"text": text.strip(), "label": label} for label, text in part] for part in (train, test)
    ]
    return as_rows[0], as_rows[1]


MORE: dict[str, Callable[[], Parts]] = {
    "rte": rte,
    "sst2": sst2,
    "semeval": semeval,
    "fewrel": fewrel,
    "conll2003": conll2003,
    "wnut17": wnut17,
    "wikiann": wikiann,
    "mlit": lambda: _classified(*japanese_sets.mlit()),
    "patient": japanese_sets.patient,
    **{f"fixed-{name}": (lambda one=one: _classified(*one.rows())) for name, one in stage_sets.SETS.items()},
    "fixed-sst": lambda: _classified(*stage_sets.sst()),
}


def _intents() -> list[str]:
    """Messages to a bank and requests to an assistant, of the training parts."""
    bank = [text for _, text in categories(OPEN / "banking77" / "banking_data" / "train.csv")]
    requests = json.loads((OPEN / "clinc150" / "data_full.json").read_text(encoding="utf-8"))["train"]
    return bank + [text for text, _ in requests]


CORPORA: dict[str, Callable[[], list[str]]] = {
    "corpus-films": lambda: [text for name in stage_sets.FILMS for text in stage_sets.TEXTS[name]()],
    "corpus-questions": lambda: [text for _, text in questions(MEASURE / "trec_qc" / "train_5500.label")],
    "corpus-intents": _intents,
    "corpus-wikitext": lambda: list(stage_sets.TEXTS["wikitext"]()),
    "corpus-japanese": japanese_sets.japanese,
    "corpus-articles": lambda: articles("train"),
}
