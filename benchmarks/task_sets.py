"""The data of `tasks.py`: public sets in the forms that `warmstart fit` reads, written once into .cache/tasks/data/.

Each set has a part small enough to be trained with several seeds, and the whole. Test rows are the set's own, or, where
they would take longer than the training, a fixed draw of them.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import KEPT_WORK, weights
from set_files import MEASURE, OPEN, candidates, scored_pairs

CACHE = KEPT_WORK / "tasks"


@dataclass(frozen=True)
class Set:
    """One set: its files, its recipe, and what it is to be held against."""

    about: str
    task: str
    files: Callable[[str], dict[str, Any]]
    """Recipe fields of the data, given `part` or `full`; writes the files that are missing."""
    metrics: tuple[str, ...]
    """Metrics that are shown, the first one compared."""
    published: str
    """What others report, with the encoder it is from."""
    recipe: dict[str, Any] = field(default_factory=dict)
    peer: str = "plain"
    """The other side: a function of `task_peers.py`."""
    model: str = "e5-small"
    sizes: tuple[str, ...] = ("part", "full")
    whole: dict[str, Any] = field(default_factory=dict)
    """What the recipe changes at full size."""


def conll(size: str) -> dict[str, Any]:
    """CoNLL-2003 English, IOB1 as it is handed around."""
    folder = MEASURE / "conll2003_en"
    train = _some_sentences(folder / "eng.train", "conll2003", size, 500)
    return {"data.train": train, "data.test": str(folder / "eng.testb"), "data.format": "conll"}


def wnut(size: str) -> dict[str, Any]:
    """WNUT-17, emerging entities."""
    folder = OPEN / "wnut17"
    train = _some_sentences(folder / "wnut17train.conll", "wnut17", size, 1000)
    return {"data.train": train, "data.test": str(folder / "emerging.test.annotated"), "data.format": "conll"}


def quac(size: str) -> dict[str, Any]:
    """First questions of QuAC, which stand alone, some without an answer; 150 others to test on.

    A passage fills two windows or three, which makes all 11,567 too many to learn from here.

    All from the training file: the answers of the validation file stand in one line with nothing between them.
    """

    def drawn() -> list[dict[str, Any]]:
        # More than are used: another number would draw others, and the kept figures are of these.
        return _draw(_first_questions(), 650)

    train = _jsonl(f"quac-{size}", lambda: drawn()[150:250])
    test = _jsonl("quac-test", lambda: drawn()[:150])
    return {"data.train": train, "data.test": test}


def xquad(size: str) -> dict[str, Any]:
    """One third of the articles of XQuAD in English to learn from, at full size two; one to test on."""
    some = {"part": slice(0, 16), "full": slice(0, 32)}[size]
    test = _jsonl("xquad-test", lambda: _squad(OPEN / "xquad" / "xquad.en.json", slice(32, None)))
    train = [_jsonl(f"xquad-{size}", lambda: _squad(OPEN / "xquad" / "xquad.en.json", some))]
    return {"data.train": train, "data.test": test}


def stsb(size: str) -> dict[str, Any]:
    """STS-B: pairs of sentences and how alike they are."""
    folder = MEASURE / "stsb"
    train = _jsonl(f"stsb-{size}", lambda: _part(_pairs(folder / "sts-train.csv"), size, 1000))
    test = _jsonl("stsb-test", lambda: _pairs(folder / "sts-test.csv"))
    return {"data.train": train, "data.test": test, "data.columns.pair": "pair"}


def semeval(size: str) -> dict[str, Any]:
    """SemEval-2010 task 8: nine directed relations and Other."""
    folder = OPEN / "semeval2010_task8"

    def rows() -> list[dict[str, Any]]:
        every = _relations(folder / "TRAIN_FILE.TXT")
        some = _part(every, size, 1000)
        # One relation has a single training row, and the test has it too: a part without it could not be measured.
        missing = {row["label"]: row for row in every if row["label"] not in {one["label"] for one in some}}
        return [*some, *missing.values()]

    train = _jsonl(f"semeval-{size}", rows)
    return {"data.train": train, "data.test": _jsonl("semeval-test", lambda: _relations(folder / "TEST_FILE_FULL.TXT"))}


def wikiqa(size: str) -> dict[str, Any]:
    """WikiQA: sentences that may answer a question; to learn from, the right ones as pairs."""
    folder = MEASURE / "wikiqa"

    def pairs() -> list[dict[str, Any]]:
        rows = candidates(folder / "train.txt")
        return [row for row in rows if row["label"]]

    def answered() -> list[dict[str, Any]]:
        rows = candidates(folder / "test.txt")
        some = {row["query"] for row in rows if row["label"]}
        return [row for row in rows if row["query"] in some]

    return {
        "data.train": _jsonl(f"wikiqa-{size}", pairs),
        "data.test": _jsonl("wikiqa-test", answered),
    }


def jcqa(size: str) -> dict[str, Any]:
    """JCommonsenseQA: which of five answers."""
    folder = OPEN / "jglue" / "datasets" / "jcommonsenseqa-v1.3"
    endings = [f"choice{number}" for number in range(5)]

    def rows(path: Path) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [
            {"text": row["question"], "endings": [row[name] for name in endings], "label": row["label"]}
            for row in found
        ]

    train = _jsonl(f"jcqa-{size}", lambda: _part(rows(folder / "train-v1.3.json"), size, 1000))
    return {"data.train": train, "data.test": _jsonl("jcqa-test", lambda: rows(folder / "valid-v1.3.json"))}


def patient(size: str) -> dict[str, Any]:
    """Words of patients and the names of diseases, in Japanese, words set apart."""
    return _collection("patient", MEASURE / "patient", size)


def cranfield(size: str) -> dict[str, Any]:
    """Abstracts about aerodynamics; half of the queries to learn from, half to test on."""
    folder = CACHE / "data" / "cranfield"
    if not (folder / "test.qrel").is_file():
        _write_cranfield(folder)
    return _collection("cranfield", folder, size)


# Small batches: a part of a set gives too few steps to learn anything otherwise. At 3e-4, e5-small learns nothing.
TAG = {"training.learning_rate": 1e-4, "training.batch_size": 8, "training.epochs": 4}
SENTENCES = {"training.learning_rate": 1e-4, "training.batch_size": 16, "training.epochs": 4}
SPAN = {
    "training.learning_rate": 1e-4,
    "training.batch_size": 8,
    "training.epochs": 3,
    "window.max_tokens": 384,
    "window.overlap": 128,
}
LARGE = {"training.batch_size": 32, "training.epochs": 3}
STILL = "e5-small without attention dropout"
RANK = {"training.epochs": 2, "task.negatives": 0}

SETS = {
    "conll2003": Set(
        "CoNLL-2003 English, testb", "tag", conll, ("f1", "precision", "recall"),
        "BERT-base cased 92.4 (its paper), uncased 90.5 to 90.9", TAG, "tagger",
        whole={"training.batch_size": 32, "training.epochs": 2},
    ),
    "wnut17": Set(
        "WNUT-17", "tag", wnut, ("f1", "precision", "recall"), "BERTweet 56.5 (its paper)", TAG, "tagger",
        whole={"training.batch_size": 16},
    ),
    "quac": Set("QuAC, first questions", "span", quac, ("f1", "exact_match"), "–", SPAN, "answerer", STILL, ("part",)),
    "xquad": Set(
        "XQuAD English", "span", xquad, ("f1", "exact_match"),
        "multilingual BERT 83.5, exact match 72.2, from SQuAD (its page)",
        SPAN, "answerer", STILL, whole={"training.epochs": 2},
    ),
    "stsb": Set(
        "STS-B", "score", stsb, ("spearman", "pearson"), "BERT-base 85.8 (GLUE test)", SENTENCES, "scorer",
        whole=LARGE,
    ),
    "semeval": Set(
        "SemEval-2010 task 8", "relate", semeval, ("macro_f1", "accuracy"), "BERT-base 89.3 (R-BERT)",
        SENTENCES, "relater", whole=LARGE,
    ),
    # Its part is the whole: 1,040 pairs.
    "wikiqa": Set("WikiQA", "rank", wikiqa, ("ndcg_20", "map"), "–", RANK, "ranker", sizes=("part",)),
    "patient": Set(
        "patient, Japanese", "rank", patient, ("ndcg_20", "map"),
        "nDCG@20 60.5, MAP@20 53.4 (triplets, Japanese BERT-base)", RANK, "ranker",
    ),
    "cranfield": Set(
        "Cranfield, 128 tokens of each", "rank", cranfield, ("ndcg_20", "map"), "–",
        {**RANK, "window.max_tokens": 128}, "ranker",
    ),
    "jcqa": Set(
        "JCommonsenseQA, validation", "choose", jcqa, ("accuracy",), "Japanese BERT-base 80.8 (JGLUE)",
        {"training.learning_rate": 3e-4}, "chooser", model="small-ja", whole={"training.epochs": 2},
    ),
}  # fmt: skip


def folder_of(model: str) -> str:
    """The encoder of a set."""
    made = {"small-ja": small_ja, STILL: still}
    return made[model]() if model in made else weights(model)


def still() -> str:
    """e5-small without dropout of attention, which on a CPU takes two thirds of the time in windows of 384 tokens."""
    source, folder = Path(weights("e5-small")), CACHE / "e5-small-still"
    if not folder.is_dir():
        staging = folder.with_suffix(".staging")
        shutil.copytree(source, staging, dirs_exist_ok=True, copy_function=shutil.copyfile)
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        (staging / "config.json").write_text(json.dumps({**config, "attention_probs_dropout_prob": 0.0}) + "\n")
        staging.replace(folder)
    return str(folder)


def small_ja() -> str:
    """A small Japanese encoder of random numbers, with the characters of the JCommonsenseQA training file."""
    import torch
    import transformers

    folder = CACHE / "small-ja"
    if not (folder / "model.safetensors").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        text = Path(jcqa("full")["data.train"]).read_text(encoding="utf-8")
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({one for one in text if not one.isspace()})]
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        tokenizer = transformers.BertJapaneseTokenizer(
            str(folder / "vocab.txt"),
            word_tokenizer_type="mecab",
            subword_tokenizer_type="character",
            mecab_kwargs={"mecab_dic": "unidic_lite"},
            model_max_length=128,
        )
        torch.manual_seed(0)
        sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
        config = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=128, **sizes)
        tokenizer.save_pretrained(folder)
        transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


def _jsonl(name: str, rows: Callable[[], Iterable[dict[str, Any]]]) -> str:
    path = CACHE / "data" / f"{name}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = path.with_suffix(".staging")
        staging.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows()), encoding="utf-8")
        staging.replace(path)
    return str(path)


def _draw(rows: list[Any], count: int) -> list[Any]:
    return random.Random(0).sample(rows, min(count, len(rows)))


def _part(rows: list[Any], size: str, count: int) -> list[Any]:
    return _draw(rows, count) if size == "part" else rows


def _some_sentences(path: Path, name: str, size: str, count: int) -> str:
    """The file itself, or so many of its sentences."""
    if size == "full":
        return str(path)
    part = CACHE / "data" / f"{name}-part.conll"
    if not part.is_file():
        sentences = [one for one in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")) if one.strip()]
        sentences = [one.strip("\n") for one in sentences if not one.lstrip().startswith("-DOCSTART-")]
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text("\n\n".join(_draw(sentences, count)) + "\n", encoding="utf-8")
    return str(part)


def _first_questions() -> list[dict[str, Any]]:
    """The first question of each dialogue: its answer, or none."""
    with gzip.open(OPEN / "quac" / "Quac-train.jsonl.gz", "rt", encoding="utf-8") as file:
        return [row for line in file for row in _first(json.loads(line))]


def _squad(path: Path, articles: slice) -> list[dict[str, Any]]:
    paragraphs = [one for article in json.loads(path.read_text())["data"][articles] for one in article["paragraphs"]]
    return [
        {"question": asked["question"], "context": one["context"], "answers": asked["answers"]}
        for one in paragraphs
        for asked in one["qas"]
    ]


def _first(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Its question and answers; nothing where an answer does not stand in the passage to the letter."""
    question = re.match(r"question1: (.*)\n", row["question"])
    answers = re.match(
        r"(?s)possible answers for question1:\n(.*?)(?:\npossible answers for question2:|$)", row["answer"]
    )
    if question is None or answers is None:
        return []
    texts = [text for text in dict.fromkeys(answers[1].split("\n")) if text and text != "CANNOTANSWER"]
    starts = [row["passage"].find(text) for text in texts]
    if any(start < 0 for start in starts):
        return []
    found = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    return [{"question": question[1].strip(), "context": row["passage"], "answers": found}]


def _pairs(path: Path) -> list[dict[str, Any]]:
    return [{"text": text, "pair": pair, "label": score} for text, pair, score in scored_pairs(path)]


def _relations(path: Path) -> list[dict[str, Any]]:
    blocks = path.read_text(encoding="utf-8").replace("\r", "").strip().split("\n\n")
    found = []
    for block in blocks:
        sentence, label, *_ = block.strip().split("\n")
        found.append({"text": sentence.partition("\t")[2].strip()[1:-1], "label": label.strip()})
    return found


def _collection(name: str, folder: Path, size: str) -> dict[str, Any]:
    """Judgements with their queries and documents; as a part, those of some queries to learn from."""
    train = folder / "train.qrel"
    if size == "part":
        train = CACHE / "data" / f"{name}-part.qrel"
        if not train.is_file():
            lines = (folder / "train.qrel").read_text(encoding="utf-8").splitlines()
            some = set(_draw(sorted({line.split()[0] for line in lines}), PART_QUERIES[name]))
            train.parent.mkdir(parents=True, exist_ok=True)
            train.write_text("".join(f"{line}\n" for line in lines if line.split()[0] in some), encoding="utf-8")
    parts = {"train": train, "test": folder / "test.qrel"}
    return {
        f"data.{part}": {
            "file": str(path),
            "queries": {"file": str(folder / f"{part}.queries.tsv"), "header": False},
            "documents": {"file": str(folder / f"{part}.docs.tsv"), "header": False},
        }
        for part, path in parts.items()
    }


PART_QUERIES = {"patient": 2000, "cranfield": 40}


def _write_cranfield(folder: Path) -> None:
    """Documents, queries and judgements as TREC has them; queries are numbered by their place, as the judgements do."""
    source = MEASURE / "cranfield"
    folder.mkdir(parents=True, exist_ok=True)
    documents = {number: f"{part['T']} {part['W']}".strip() for number, part in _smart(source / "cran.all.1400")}
    queries = {place: part["W"] for place, (_, part) in enumerate(_smart(source / "cran.qry"), 1)}
    judged: dict[int, list[str]] = {}
    for line in (source / "cranqrel").read_text(encoding="utf-8").split("\n"):
        if line.strip():
            query, document, code = map(int, line.split())
            # Code 1 is a complete answer and 4 of the least interest; -1 stands for none.
            judged.setdefault(query, []).append(f"{query} 0 {document} {5 - code if code > 0 else 0}")
    order = _draw(sorted(judged), len(judged))
    for part, chosen in (("train", order[::2]), ("test", order[1::2])):
        (folder / f"{part}.qrel").write_text("".join(f"{line}\n" for query in sorted(chosen) for line in judged[query]))
    for file, texts in (("docs.tsv", documents), ("queries.tsv", queries)):
        lines = "".join(f"{number}\t{' '.join(text.split()) or '-'}\n" for number, text in texts.items())
        for part in ("train", "test"):
            (folder / f"{part}.{file}").write_text(lines)


def _smart(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Entries of a file in SMART's form: `.I number`, then `.T`, `.W` and others, each with its text."""
    found = []
    for entry in re.split(r"(?m)^\.I +", path.read_text(encoding="utf-8"))[1:]:
        number, *parts = re.split(r"(?m)^\.([A-Z]) *\n", entry)
        found.append((int(number), dict(zip(parts[::2], parts[1::2], strict=True))))
    return found
