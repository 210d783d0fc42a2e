"""What a search scores that costs nothing, before training, and how documents are searched after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.evaluation.records.files import read_record
from warmstart.tasks.shared.fusion import Fusion

BASELINE_FOLDER, BASELINE_FILE = "search-baseline", "baseline.json"
FUSION_FOLDER, FUSION_FILE = "fusion", "fusion.json"
_NAMES = {"encoder": "the encoder {encoder}", "bm25": "BM25", "fused": "both fused"}
_CHOSEN: dict[Fusion, str] = {
    "auto": "the encoder alone",
    "none": "the encoder alone",
    "bm25": "the encoder and BM25, their ranks fused",
    "bm25-only": "BM25 alone",
}


@dataclass(frozen=True)
class SearchScores:
    """The headline of several ways to rank the same documents; None where it is undefined."""

    encoder: float | None
    bm25: float | None
    fused: float | None = None
    """Of a search with the ranks of both fused; None where there is no search."""

    @property
    def best(self) -> Fusion:
        """The best way to search; of equal ones that of the encoder first, then that of both."""
        ways: list[tuple[Fusion, float | None]] = [("none", self.encoder), ("bm25", self.fused)]
        ways.append(("bm25-only", self.bm25))
        known = {way: score for way, score in ways if score is not None}
        return max(known, key=lambda way: known[way]) if len(known) == len(ways) else "none"

    def sentence(self, metric: str, encoder: str) -> str:
        """What a user is told; `encoder` says which it is, as `as it is`."""
        known = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        if not known:
            return f"{metric} undefined"
        parts = [f"{_NAMES[name].format(encoder=encoder)} {value:.3f}" for name, value in known.items()]
        return f"{metric} of {', '.join(parts)}"


@dataclass(frozen=True)
class HeldOutRecord:
    """The queries that ways to search are compared on."""

    part: str
    """Where they are from: `dev`, `train`, or `held out` of the training queries."""
    queries: int
    documents: int
    """Documents that were ranked for them."""
    of_documents: int
    """All documents that could have been."""

    @property
    def phrase(self) -> str:
        """Them in words."""
        name = {"dev": "dev", "train": "training"}.get(self.part, "held-out training")
        among = "" if self.documents == self.of_documents else f" among {self.documents:,} of {self.of_documents:,}"
        return f"on {self.queries:,} {name} queries{among}{' documents' if among else ''}"


@dataclass(frozen=True)
class SearchBaselineRecord:
    """`search-baseline/baseline.json`: the encoder as it is and BM25, before training."""

    metric: str
    held_out: HeldOutRecord
    counts: str
    """What BM25 counted: `words` or `characters`."""
    scores: SearchScores
    seconds: float

    @property
    def sentence(self) -> str:
        """What a user is told."""
        return f"before training, {self.held_out.phrase}: {self.scores.sentence(self.metric, 'as it is')}"

    @property
    def score(self) -> str:
        """The scores, and the queries they are of."""
        return f"{self.scores.sentence(self.metric, 'as it is')}, {self.held_out.phrase}"


@dataclass(frozen=True)
class FusionRecord:
    """`fusion/fusion.json`: how documents are searched, chosen after training."""

    chosen: Fusion
    metric: str
    held_out: HeldOutRecord | None
    """The queries it was chosen on; None where there were too few."""
    scores: SearchScores | None
    """Those of the trained encoder."""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        return f"documents are searched by {_CHOSEN[self.chosen]} (task.fusion: {self.chosen}): {self._reason}"

    @property
    def score(self) -> str:
        """The choice with its reason."""
        return f"{self.chosen}: {self._reason}"

    @property
    def _reason(self) -> str:
        if self.scores is None or self.held_out is None:
            return (
                "there are no dev rows, and too few training queries to hold any out; dev rows (data.dev, "
                "data.split.dev) would allow the choice of BM25"
            )
        return f"{self.held_out.phrase}, {self.scores.sentence(self.metric, 'after training')}"


def read_search_baseline(folder: Path) -> SearchBaselineRecord | None:
    """What a run measured before training; None for a task that searches nothing."""
    path = folder / BASELINE_FOLDER / BASELINE_FILE
    return read_record(SearchBaselineRecord, path) if path.is_file() else None


def read_fusion(folder: Path) -> FusionRecord | None:
    """What a run chose after training; None where there was nothing to choose."""
    path = folder / FUSION_FOLDER / FUSION_FILE
    return read_record(FusionRecord, path) if path.is_file() else None


def search_records(folder: Path) -> dict[str, SearchBaselineRecord | FusionRecord]:
    """Both records of a run, by name, where it has them."""
    records = {"search_baseline": read_search_baseline(folder), "fusion": read_fusion(folder)}
    return {name: record for name, record in records.items() if record is not None}


def search_sentences(folder: Path) -> list[str]:
    """What a user is told of them."""
    return [record.sentence for record in search_records(folder).values()]
