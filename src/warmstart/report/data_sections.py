"""Pictures of a run's rows, from `diagnosis.json`: class balance, lengths, and a map of their embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from warmstart.evaluation.records.data_profile import ClassBalance, EmbeddingMap, LengthHistogram
from warmstart.report.blocks import Block, ChartBlock, Section, TableBlock, first, percent
from warmstart.report.charts import ChartTexts
from warmstart.report.data_charts import grouped_bars, histogram, scatter
from warmstart.report.run_facts import RunFacts
from warmstart.report.svg import SERIES

LABELS = 20
"""The most labels of the chart of class balance."""


def profile(facts: RunFacts) -> Iterator[Block]:
    """Class balance and lengths, where they are known."""
    diagnosis = facts.diagnosis
    if diagnosis and diagnosis.class_balance:
        yield _balance(diagnosis.class_balance)
    if diagnosis and diagnosis.lengths:
        yield _lengths(diagnosis.lengths)


def _balance(balance: ClassBalance) -> ChartBlock:
    totals = {part: sum(counts) or 1 for part, counts in balance.counts.items()}
    shown, left = first(range(len(balance.labels)))
    rows: list[list[object]] = []
    for index in shown:
        cells = [cell for part, counts in balance.counts.items() for cell in _share(counts[index], totals[part])]
        rows.append([balance.labels[index], *cells])
    columns = ["label", *(name for part in balance.counts for name in (f"{part} {balance.unit}", "share"))]
    table = TableBlock("Labels", columns, rows, left_out=left)
    count = len(balance.labels)
    which = f"{count:,} labels" if count <= LABELS else f"the {LABELS} most frequent of {count:,} labels"
    about = f"The share of {balance.unit} with each of {which}, by part."
    series = {part: [n / totals[part] for n in counts[:LABELS]] for part, counts in balance.counts.items()}
    texts = ChartTexts("class-balance", "Class balance", about, table)
    return grouped_bars(texts, balance.labels[:LABELS], series, f"share of the {balance.unit} of a part")


def _share(count: int, total: int) -> tuple[object, object]:
    return count, percent(count / total)


def _lengths(lengths: LengthHistogram) -> ChartBlock:
    bins = list(zip(lengths.edges, lengths.edges[1:], strict=False))
    names = [f"{low:,} to {high - 1:,}" if high - low > 1 else f"{low:,}" for low, high in bins]
    names[-1] = f"{bins[-1][0]:,} or more"
    rows = [[name, *(counts[index] for counts in lengths.counts.values())] for index, name in enumerate(names)]
    table = TableBlock("Rows by length", ["tokens", *lengths.counts], rows)
    of = " of a sample of the rows" if lengths.sampled else ""
    about = (
        f"Tokens of a row{of}; the longest has {lengths.longest:,}, and the model sees {lengths.window:,}. "
        "The last bin has the longer rows, too."
    )
    series = {part: [n / (sum(counts) or 1) for n in counts] for part, counts in lengths.counts.items()}
    texts = ChartTexts("lengths", "Lengths in tokens", about, table)
    return histogram(texts, lengths.edges, series, lengths.window, "tokens of a row")


def embeddings(facts: RunFacts) -> Section | None:
    """The map of the evaluated rows."""
    points = facts.diagnosis.embedding_map if facts.diagnosis else None
    return Section("embeddings", "Embeddings", [_map(points)]) if points and points.x else None


def _map(points: EmbeddingMap) -> ChartBlock:
    counts = Counter(label for label in points.labels if label)
    named = [label for label, _ in counts.most_common(len(SERIES) if len(counts) <= len(SERIES) else len(SERIES) - 1)]
    other = "other labels" if named else "rows"
    wrong = Counter(label for label, is_wrong in zip(points.labels, points.wrong, strict=True) if is_wrong)
    listed, left = first(counts.most_common())
    rows: list[list[object]] = [[label, count, wrong[label], percent(wrong[label] / count)] for label, count in listed]
    if not rows:
        rows = [["all", len(points.x), sum(wrong.values()), percent(sum(wrong.values()) / len(points.x))]]
    table = TableBlock("Rows on the map", ["true label", "rows", "wrong", "share wrong"], rows, left_out=left)
    which = f"{len(points.x):,} {points.part} rows"
    which = (
        which if len(points.x) == points.available else f"{len(points.x):,} of {points.available:,} {points.part} rows"
    )
    about = (
        f"The embeddings of {which} after fine-tuning, in two dimensions by principal component analysis (PCA). "
        "Colour and form are the true label; a ring marks a wrong answer."
    )
    return scatter(ChartTexts("map", "Map of the rows", about, table), points, named, other)
