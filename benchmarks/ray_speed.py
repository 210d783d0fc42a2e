"""How many rows a second `warmstart predict --ray` answers once it is under way, for benchmarks that compare it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SHARDS = 10
"""How many shards each worker gets: the first tells when all began."""


class Watch:
    """Progress that notes when how many rows were done."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    @contextmanager
    def bar(self, name: str, total: float | None) -> Iterator[Watch]:
        yield self

    def advance(self, amount: float = 1, note: str = "") -> None:
        if amount:
            self.seen.append((time.monotonic(), amount))

    def log(self, text: str) -> None:
        pass


def ray_rows_per_second(run: str | Path, texts: Sequence[str], workers: int = 1, **more: str) -> float:
    """Rows a second from the end of the first shards on, so without the start of Ray and of the models.

    Args:
        run: A run that reads one text.
        workers: Models that answer at once.
        more: `engine` and `precision`.
    """
    from warmstart.deploy.label.label_corpus import label

    size = max(1, -(-len(texts) // (SHARDS * workers)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / "texts.jsonl").write_text(lines, encoding="utf-8")
        watch = Watch()
        label(
            run,
            str(folder / "texts.jsonl"),
            folder / "out",
            workers=workers,
            cpus=workers + 1,
            rows_per_shard=size,
            progress=watch,
            **more,
        )
    (began, _), *rest = watch.seen[workers - 1 :]
    return sum(rows for _, rows in rest) / (rest[-1][0] - began)
