"""Which layer of an encoder knows part of speech, entities and question types: linear probes with control tasks.

make results-probes [N=words, or texts, to fit to]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kept
from common import ROOT, TINY, arguments, finish, write_page
from inspect_sets import encoder, read
from set_files import MEASURE, OPEN
from tables import Lines

CONLL, WNUT = MEASURE / "conll2003_en", OPEN / "wnut17"
WORDS: dict[str, tuple[Path, Path, int]] = {
    "CoNLL-2003 part of speech": (CONLL / "eng.train", CONLL / "eng.testb", 1),
    "CoNLL-2003 entities": (CONLL / "eng.train", CONLL / "eng.testb", 3),
    "WNUT-17 entities": (WNUT / "wnut17train.conll", WNUT / "emerging.test.annotated", 1),
}
"""The files of each task, and the column with a word's label."""
TREC = "TREC question type"


def sentences(path: Path, column: int) -> Iterator[dict[str, Any]]:
    """Sentences with their words, and the label of each as an entity of one word; those that are outside have none."""
    words: list[tuple[str, str]] = []
    for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
        cells = line.split()
        if cells and cells[0] != "-DOCSTART-":
            words.append((cells[0], cells[column]))
            continue
        if words:
            yield _sentence(words)
        words = []


def _sentence(words: list[tuple[str, str]]) -> dict[str, Any]:
    from warmstart.text.alignment import join_words

    text, spans = join_words(word for word, _ in words)
    places = [{"start": start, "end": end} for start, end in spans]
    labels = [label.partition("-")[2] if label[:2] in {"B-", "I-"} else label for _, label in words]
    entities = [{**place, "label": label} for place, label in zip(places, labels, strict=True) if label != "O"]
    return {"text": text, "words": places, "entities": entities}


def measure(name: str, count: int) -> dict[str, Any]:
    """The profile of all layers."""
    from warmstart.evaluation.records.files import as_json
    from warmstart.inference.features import Extractor
    from warmstart.inspection.probe_examples import text_examples, word_examples
    from warmstart.inspection.probes import probe_layers

    extractor, lines = Extractor.load(encoder(), layers="all"), Lines(f"probes {name}")
    if name == TREC:
        train, test = (text_examples(extractor, read("trec", part)[:count], lines) for part in ("train", "test"))
    else:
        *files, column = WORDS[name]
        train, test = (
            word_examples(extractor, list(sentences(path, column))[:count], size, lines)
            for path, size in zip(files, (count, count // 2), strict=True)
        )
    return as_json(probe_layers(train, test, progress=lines))


ABOUT = """
An encoder knows parts of speech best in its lower layers, entities in the middle and question types at the top: the
best layer is {best}.

![Accuracy of linear probes over the layers, and of the control task, a panel for each task](probes.svg)

That is the order that Tenney et al. 2019 found in BERT, by accuracy as by description length. The shaded band is a 95%
interval over test rows. The control task is a warning: where few words decide, as with question words and the words of
WNUT-17, a probe learns labels that were drawn at random about as well, so its accuracy alone says little about what the
encoder knows there.
"""


def best_layers(figures: dict[str, Any]) -> str:
    """The best layer of each task, in words."""
    best = {name: max(profile["layers"], key=lambda one: one["accuracy"]) for name, profile in figures.items()}
    return ", ".join(f"{one['layer']} for {name} ({one['accuracy']:.1%})" for name, one in best.items())


def plot(figures: dict[str, Any], path: Path) -> None:
    """The accuracy of each layer and of its control, a panel for each task."""
    from warmstart.inspection.plots import draw

    def values(profile: dict[str, Any], key: str) -> list[float]:
        return [100 * one[key] for one in profile["layers"]]

    panels = {}
    for name, profile in figures.items():
        layers = [one["layer"] for one in profile["layers"]]
        probe = (layers, values(profile, "accuracy"), values(profile, "low"), values(profile, "high"))
        panels[name] = {"probe": probe, "control": (layers, values(profile, "control"))}
    draw(panels, path, "", "layer (0: embeddings); accuracy, %")


def page(figures: dict[str, Any]) -> str:
    """The page about all tasks."""
    parts = [
        ABOUT.format(best=best_layers(figures)).strip(),
        "",
        "Linear probes of every layer of e5-small, before any fine-tuning. *Control*: accuracy where every word (of a "
        "question: its first word) has a label at random. *Compression*: the uniform code of the labels, divided by "
        "their description length (online code).",
    ]
    for name, profile in figures.items():
        about = (
            f"{profile['train']:,} examples to fit to, {profile['test']:,} to measure on, {profile['labels']} labels"
        )
        parts += ["", f"## {name}", "", f"{about}; the most frequent label has {profile['majority']:.1%}.", ""]
        parts += ["| layer | accuracy | 95% interval | control | selectivity | compression |"]
        parts += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
        for one in profile["layers"]:
            layer = "embeddings" if one["layer"] == 0 else str(one["layer"])
            shares = f"{one['accuracy']:.1%} | {one['low']:.1%} to {one['high']:.1%} | {one['control']:.1%}"
            parts.append(f"| {layer} | {shares} | {one['selectivity']:+.1%} | {one['compression']:.2f} |")
    return "\n".join(parts)


def main() -> None:
    """Measure what is missing, then report on all."""
    args = arguments(__doc__ or "", 5000, "words, or texts, to fit to")
    figures = kept.read("probes") if args.write else {}
    for name in [TREC] if TINY else [*WORDS, TREC]:
        if name not in figures:
            figures[name] = measure(name, args.n)
            if args.write:
                kept.write("probes", figures)
    if args.write:
        plot(figures, ROOT / "docs" / "results" / "probes.svg")
        write_page("probes", "What a layer knows", "make results-probes", page(figures))
    finish({name: [round(one["accuracy"], 4) for one in profile["layers"]] for name, profile in figures.items()})


if __name__ == "__main__":
    main()
