"""The other side of `tasks.py`: what one would write with transformers or sentence-transformers alone.

The same encoder, rows, rate, batch, epochs, schedule and precision; the usual preprocessing of each task; batches in
random order. Each gives its metrics by the names that warmstart uses.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from peer_reading import answers_of, collection, jsonl, sentences

Metrics = dict[str, float]
NUMBERS = {"training.learning_rate": 5e-5, "training.batch_size": 32, "training.epochs": 3}
"""The settings both sides have where a set says nothing else."""


def trained(model: Any, rows: Any, said: dict[str, Any], collate: Any = None, tokenizer: Any = None) -> Any:
    """A plain Trainer, trained."""
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model=model,
            args=settings(folder, said),
            train_dataset=rows,
            data_collator=collate,
            processing_class=tokenizer,
        )
        trainer.train()
    return trainer


def settings(folder: str, said: dict[str, Any], kind: Any = None) -> Any:
    """The Trainer's arguments for the settings of a set."""
    import transformers

    numbers = {**NUMBERS, **said}
    return (kind or transformers.TrainingArguments)(
        output_dir=folder,
        learning_rate=numbers["training.learning_rate"],
        per_device_train_batch_size=numbers["training.batch_size"],
        per_device_eval_batch_size=64,
        num_train_epochs=numbers["training.epochs"],
        warmup_steps=0.1,
        weight_decay=0.01,
        seed=said["seed"],
        bf16=True,
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        report_to="none",
        remove_unused_columns=False,
    )


def opened(said: dict[str, Any], auto_class: str, **config: Any) -> tuple[Any, Any]:
    """Model and tokenizer, the head drawn with the seed."""
    import transformers

    transformers.set_seed(said["seed"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(said["model"])
    model = getattr(transformers, auto_class).from_pretrained(said["model"], dtype="float32", **config)
    return model, tokenizer


def tagger(said: dict[str, Any]) -> Metrics:
    """Token classification: the first piece of a word carries its tag, a long sentence is cut."""
    import numpy as np
    import transformers
    from seqeval.metrics import f1_score, precision_score, recall_score
    from seqeval.scheme import IOB2

    train, test = sentences(said["data.train"]), sentences(said["data.test"])
    names = sorted({tag for _, tags in train for tag in tags})
    ids = {name: number for number, name in enumerate(names)}
    model, tokenizer = opened(said, "AutoModelForTokenClassification", num_labels=len(names))

    def encode(words: Sequence[str], tags: Sequence[str]) -> dict[str, Any]:
        found = tokenizer(list(words), is_split_into_words=True, truncation=True, max_length=512)
        owners = found.word_ids()
        first = [owner is not None and owner != before for owner, before in zip(owners, [None, *owners], strict=False)]
        labels = [ids.get(tags[owner], -100) if new else -100 for owner, new in zip(owners, first, strict=True)]
        return {
            **found,
            "labels": labels,
            "owners": [owner if new else -1 for owner, new in zip(owners, first, strict=True)],
        }

    features = [encode(*one) for one in train]
    asked = [encode(*one) for one in test]
    plain = [{key: value for key, value in one.items() if key != "owners"} for one in features]
    trainer = trained(model, plain, said, transformers.DataCollatorForTokenClassification(tokenizer), tokenizer)
    logits = trainer.predict([{k: v for k, v in one.items() if k != "owners"} for one in asked]).predictions
    given = []
    for one, scores, (words, _) in zip(asked, np.asarray(logits), test, strict=True):
        tags = ["O"] * len(words)
        for place, owner in enumerate(one["owners"]):
            if owner >= 0:
                tags[owner] = names[int(scores[place].argmax())]
        given.append(tags)
    strict = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
    gold = [list(tags) for _, tags in test]
    return {
        "f1": float(f1_score(gold, given, **strict)),
        "precision": float(precision_score(gold, given, **strict)),
        "recall": float(recall_score(gold, given, **strict)),
    }


def answerer(said: dict[str, Any]) -> Metrics:
    """Extractive answers: overlapping windows, the best start and end; no answer where the first token scores best."""
    import numpy as np
    import transformers

    from warmstart.tasks.shared.metrics import answers as measure

    files = said["data.train"] if isinstance(said["data.train"], list) else [said["data.train"]]
    train, test = [row for file in files for row in jsonl(file)], jsonl(said["data.test"])
    model, tokenizer = opened(said, "AutoModelForQuestionAnswering")
    tokens, overlap = said["window.max_tokens"], said["window.overlap"]

    def windows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        found = tokenizer(
            [row["question"] for row in rows],
            [row["context"] for row in rows],
            truncation="only_second",
            max_length=tokens,
            stride=overlap,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        made = []
        for place, row in enumerate(found["overflow_to_sample_mapping"]):
            inside = [part == 1 for part in found.sequence_ids(place)]
            offsets = found["offset_mapping"][place]
            start = end = 0
            for answer in rows[row]["answers"][:1]:
                a, b = answer["answer_start"], answer["answer_start"] + len(answer["text"])
                held = [n for n, ok in enumerate(inside) if ok and offsets[n][0] < b and offsets[n][1] > a]
                known = [offsets[n] for n, ok in enumerate(inside) if ok]
                if held and known[0][0] <= a and known[-1][1] >= b:
                    start, end = held[0], held[-1]
            names = [name for name in ("input_ids", "token_type_ids", "attention_mask") if name in found]
            made.append(
                {
                    **{name: found[name][place] for name in names},
                    "start_positions": start,
                    "end_positions": end,
                    "about": (row, offsets, inside),
                }
            )
        return made

    def bare(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in one.items() if key != "about"} for one in features]

    collate = transformers.DataCollatorWithPadding(tokenizer)
    trainer = trained(model, bare(windows(train)), said, collate, tokenizer)
    asked = windows(test)
    starts, ends = trainer.predict(bare(asked)).predictions[:2]
    best: dict[int, tuple[float, str]] = {}
    none: dict[int, float] = {}
    for one, first, last in zip(asked, np.asarray(starts), np.asarray(ends), strict=True):
        row, offsets, inside = one["about"]
        none[row] = min(none.get(row, np.inf), float(first[0] + last[0]))
        score, text = answers_of(first, last, offsets, inside, test[row]["context"])
        if score > best.get(row, (-np.inf, ""))[0]:
            best[row] = (score, text)
    given = [best[row][1] if best[row][0] > none[row] else "" for row in range(len(test))]
    return measure([[answer["text"] for answer in row["answers"]] for row in test], given)


def scorer(said: dict[str, Any]) -> Metrics:
    """Regression on pairs."""
    from warmstart.tasks.shared.metrics import numbers

    rows, test = jsonl(said["data.train"]), jsonl(said["data.test"])
    model, tokenizer = opened(said, "AutoModelForSequenceClassification", num_labels=1, problem_type="regression")

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        return {**tokenizer(row["text"], row["pair"], truncation=True, max_length=512), "labels": float(row["label"])}

    trainer = trained(model, [encode(row) for row in rows], said, None, tokenizer)
    given = trainer.predict([encode(row) for row in test]).predictions.reshape(-1).tolist()
    return numbers([float(row["label"]) for row in test], given)


def relater(said: dict[str, Any]) -> Metrics:
    """Classification of the sentence, its marks as new tokens."""
    import re

    from sklearn.metrics import accuracy_score

    from warmstart.tasks.shared.metrics import relations

    rows, test = jsonl(said["data.train"]), jsonl(said["data.test"])
    names = sorted({row["label"] for row in rows})
    ids = {name: number for number, name in enumerate(names)}
    model, tokenizer = opened(said, "AutoModelForSequenceClassification", num_labels=len(names))
    tokenizer.add_special_tokens({"additional_special_tokens": ["[E1]", "[/E1]", "[E2]", "[/E2]"]})
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        text = re.sub(r"<(/?)e([12])>", r"[\1E\2]", row["text"])
        return {**tokenizer(text, truncation=True, max_length=512), "labels": ids.get(row["label"], 0)}

    trainer = trained(model, [encode(row) for row in rows], said, None, tokenizer)
    given = [names[number] for number in trainer.predict([encode(row) for row in test]).predictions.argmax(-1)]
    gold = [row["label"] for row in test]
    return {**relations(gold, given, "Other"), "accuracy": float(accuracy_score(gold, given))}


def chooser(said: dict[str, Any]) -> Metrics:
    """Multiple choice."""
    import torch

    rows, test = jsonl(said["data.train"]), jsonl(said["data.test"])
    model, tokenizer = opened(said, "AutoModelForMultipleChoice")

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        pairs = [(row["text"], ending) for row in rows for ending in row["endings"]]
        found = tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True, padding=True, return_tensors="pt")
        shaped = {name: value.view(len(rows), 5, -1) for name, value in found.items()}
        return {**shaped, "labels": torch.tensor([row["label"] for row in rows])}

    trainer = trained(model, rows, said, collate)
    found = trainer.predict(test)
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def ranker(said: dict[str, Any]) -> Metrics:
    """sentence-transformers' own trainer with its loss of in-batch negatives, mean pooling, vectors of length one."""
    import datasets
    import ir_measures
    import transformers
    from ir_measures import AP, nDCG
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        losses,
        models,
    )

    transformers.set_seed(said["seed"])
    body = models.Transformer(said["model"], max_seq_length=said.get("window.max_tokens"))
    parts = [body, models.Pooling(body.get_embedding_dimension(), "mean"), models.Normalize()]
    model = SentenceTransformer(modules=parts, device="cpu")
    pairs, judged, queries, documents = collection(said)
    rows = datasets.Dataset.from_dict({"anchor": [a for a, _ in pairs], "positive": [b for _, b in pairs]})
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(
            model=model,
            args=settings(folder, said, SentenceTransformerTrainingArguments),
            train_dataset=rows,
            loss=losses.MultipleNegativesRankingLoss(model),
        )
        trainer.train()
    vectors = {
        name: dict(zip(texts, model.encode(list(texts.values()), batch_size=64), strict=True))
        for name, texts in (("query", queries), ("document", documents))
    }
    found = [
        ir_measures.ScoredDoc(query, document, float(vectors["query"][query] @ vectors["document"][document]))
        for query, among in judged["among"].items()
        for document in among
    ]
    qrels = [ir_measures.Qrel(*one) for one in judged["qrels"]]
    scores = ir_measures.calc_aggregate([nDCG @ 20, AP], qrels, found)
    return {"ndcg_20": float(scores[nDCG @ 20]), "map": float(scores[AP])}


PEERS: dict[str, Callable[[dict[str, Any]], Metrics]] = {
    one.__name__: one for one in (tagger, answerer, scorer, relater, chooser, ranker)
}
