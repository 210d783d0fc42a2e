"""What both sides of the proof that nothing changed learn from: tiny encoders and small files, written once."""

from __future__ import annotations

import csv
import json
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
    the an and or not is was it this that film book food movie story actor plot very good bad great terrible
    boring loved hated who where when paris london tokyo lives in alice bob
"""
VOCABULARY = [
    *SPECIAL,
    *string.ascii_lowercase,
    *string.digits,
    *string.punctuation,
    *(f"##{character}" for character in string.ascii_lowercase + string.digits),
    *WORDS.split(),
]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 520,
    # Four times the usual first weights: so small a network learns something in a dozen steps with them.
    "initializer_range": 0.08,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "cls_token_id": 2,
    "eos_token_id": 3,
    "sep_token_id": 3,
    "mask_token_id": 4,
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {"num_hidden_layers": 4},
    "roberta": {"num_hidden_layers": 2, "type_vocab_size": 1},
    "deberta-v2": {"num_hidden_layers": 2, **DEBERTA, "position_buckets": 8, "norm_rel_ebd": "layer_norm"},
    "modernbert": {"num_hidden_layers": 2, "local_attention": 16, "global_attn_every_n_layers": 2},
    "gpt2": {"num_hidden_layers": 2, "n_inner": 37},
}
"""The encoders by architecture: what differs from the common sizes."""

GOOD = ["good", "great", "loved"]
BAD = ["bad", "terrible", "boring"]
FILLER = [word for word in WORDS.split() if word not in (*GOOD, *BAD, "hated", "not")]
PEOPLE, PLACES = ("alice", "bob", "alice bob"), ("paris", "london", "tokyo")
CONTEXTS = (
    "alice was in the film and it was not good",
    "the story was that bob hated the food in london",
    "it is a very boring book, and the actor was great",
    "alice lives in paris, and bob lives in tokyo",
)
QUESTIONS = (("who", "alice"), ("where", "london"), ("who", "the actor"), ("where", "tokyo"))
TOPICS = ["film", "book", "food", "paris", "london", "tokyo", "alice", "bob"]


def write_inputs(folder: Path) -> None:
    """Write all encoders and files into a folder that is not there yet."""
    staging = folder.with_name(f"{folder.name}.part")
    staging.mkdir(parents=True)
    for name, changes in ENCODERS.items():
        _write_encoder(staging / name, name, changes)
    _write_reviews(staging)
    _write_others(staging)
    staging.rename(folder)


def reviews(count: int, start: int = 0, filler: int = 0) -> list[tuple[str, str]]:
    """Texts with a good or a bad word, of different lengths if words that say nothing are put behind them."""
    rows = []
    for number in range(start, start + count):
        words, label = ((GOOD, "pos"), (BAD, "neg"))[number % 2]
        behind = "".join(f" {FILLER[(number + place) % len(FILLER)]}" for place in range(number * filler % 25))
        rows.append(
            (f"the film {number} was {words[number // 2 % 3]} and very {words[number // 6 % 3]}{behind}", label)
        )
    return rows


def _write_encoder(folder: Path, name: str, changes: Mapping[str, Any]) -> None:
    """A tiny encoder without a head and its tokenizer, as a pretrained model's folder holds them."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**SIZES, **changes})
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=10_000))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=512,
        model_input_names=["input_ids", *(["token_type_ids"] if name == "bert" else []), "attention_mask"],
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL},
    ).save_pretrained(folder)


def _write_reviews(folder: Path) -> None:
    """Files of reviews: plain, long, with dev rows, in pairs, with numbers, with several labels, and faulty ones."""
    train, test = reviews(28, filler=7), reviews(10, 1000, 3)
    header = ("text", "label")
    _csv(folder / "train.csv", [header, *train])
    _csv(folder / "dev.csv", [header, *reviews(8, 500, 5)])
    _csv(folder / "test.csv", [header, *test])
    _csv(folder / "dev-more.csv", [header, *reviews(48, 4000, 5)])
    _csv(folder / "test-more.csv", [header, *reviews(48, 5000, 3)])
    _csv(folder / "uneven.csv", [header, *(row for n, row in enumerate(train) if row[1] == "pos" or n % 3 == 0)])
    for name, rows in (("pairs", train), ("pairs-test", test)):
        pairs = [(text, f"it was {label}", "yes" if n % 3 else "no") for n, (text, label) in enumerate(rows)]
        _csv(folder / f"{name}.csv", [("text", "other", "label"), *pairs])
    for name, rows in (("scores", train), ("scores-test", test)):
        numbers = [(text, str(n % 5 / 4 if label == "pos" else -1.25)) for n, (text, label) in enumerate(rows)]
        _csv(folder / f"{name}.csv", [header, *numbers])
    for name, rows in (("many", train), ("many-test", test)):
        _csv(folder / f"{name}.csv", [header, *((a, f"{b}|film" if n % 3 else b) for n, (a, b) in enumerate(rows))])
    # What is wrong with data is told too: a row without a label, one twice, and one that is among the test rows.
    faulty = [*train, ("no label at all", ""), train[0], test[0]]
    lines = [f"{label}\t{text}" for text, label in faulty]
    (folder / "faulty.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "test.tsv").write_text("".join(f"{label}\t{text}\n" for text, label in test), encoding="utf-8")
    corpus = folder / "corpus"
    corpus.mkdir()
    for part in range(2):
        _csv(corpus / f"part-{part}.csv", [("text",), *((text,) for text, _ in reviews(12, 2000 + 50 * part, 7))])


def _write_others(folder: Path) -> None:
    """Files of the tasks that read something else than reviews."""
    tags = [_tagged(number) for number in range(14)]
    _jsonl(folder / "tags.jsonl", tags)
    _jsonl(folder / "tags-test.jsonl", [_tagged(number) for number in (3, 8, 11, 19)])
    _jsonl(folder / "spans.jsonl", [*_spans(""), *_spans("the story is that ")])
    _jsonl(folder / "spans-test.jsonl", _spans("not this: "))
    pairs = [{"query": f"the {word}", "document": f"{word} {word}"} for word in TOPICS]
    _jsonl(folder / "pairs.jsonl", pairs)
    triplets = [{**row, "negative": f"a {pairs[n - 1]['document']}"} for n, row in enumerate(pairs)]
    _jsonl(folder / "triplets.jsonl", triplets)
    kinds = ("good", "bad", "boring")
    judged = [
        {"query": f"where is {word}", "document": f"the {word} is {kind}", "label": int(kind == "good")}
        for word in TOPICS
        for kind in kinds
    ]
    _jsonl(folder / "judged.jsonl", judged[:18])
    _jsonl(folder / "judged-test.jsonl", judged[12:])
    _csv(folder / "documents.csv", [("id", "text"), *((str(n), row["document"]) for n, row in enumerate(judged))])
    _jsonl(folder / "riddles.jsonl", [_riddle(number) for number in range(16)])
    _jsonl(folder / "riddles-test.jsonl", [_riddle(number) for number in range(30, 38)])
    _jsonl(folder / "relations.jsonl", [_relation(number) for number in range(18)])
    _jsonl(folder / "relations-test.jsonl", [_relation(number) for number in range(40, 49)])
    texts = [f"{'A good film. ' * (n % 4 + 1)}Bob loved {n}. It was {FILLER[n]} in Paris." for n in range(20)]
    (folder / "texts.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (folder / "general.txt").write_text("\n\n".join(text for text, _ in reviews(40, 3000, 7)), encoding="utf-8")


def _tagged(number: int) -> dict[str, Any]:
    """A text in which a person and a place stand, in one order or the other, or neither."""
    person, place = PEOPLE[number % 3], PLACES[(number + 1) % 3]
    shapes = (f"{person} lives in {place}.", f"in {place}, {person} was good {number}", f"this is a good film {number}")
    text = shapes[number // 2 % 3]
    names = () if number // 2 % 3 == 2 else ((person, "PER"), (place, "LOC"))
    found = [{"start": text.index(name), "end": text.index(name) + len(name), "label": kind} for name, kind in names]
    return {"text": text, "entities": sorted(found, key=lambda one: one["start"])}


def _spans(before: str) -> list[dict[str, Any]]:
    """Questions with an answer in their context, and two without."""
    rows: list[dict[str, Any]] = []
    for context, (question, answer) in zip(CONTEXTS, QUESTIONS, strict=True):
        text = before + context
        rows.append({"question": question, "context": text, "answers": [{"text": answer, "start": text.index(answer)}]})
    return rows + [{"question": "when", "context": before + context, "answers": []} for context in CONTEXTS[:2]]


def _riddle(number: int) -> dict[str, Any]:
    """A text with two or three endings, one of which is good."""
    endings = [f"it was {BAD[number % 3]}", f"the plot was {BAD[number // 2 % 3]}"][: 1 + number % 2]
    label = number // 2 % (len(endings) + 1)
    endings.insert(label, f"it was {GOOD[number % 3]}")
    return {"text": f"the film {number}", "endings": endings, "label": label}


def _relation(number: int) -> dict[str, Any]:
    """A text with two marked entities: who loved whom is in the marks alone."""
    marks = ("e1", "e2") if number % 3 == 1 else ("e2", "e1")
    verb = "loved" if number % 3 else "and"
    text = "film {0} : <{1}>alice</{1}> {3} <{2}>bob</{2}> in paris".format(number, *marks, verb)
    return {"text": text, "label": f"Love({marks[0]},{marks[1]})" if number % 3 else "Other"}


def _csv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
