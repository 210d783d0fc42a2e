"""Searching a file of documents from the command line: the best for each query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def search(
    run: str, predictor: Any, documents: str, queries: Sequence[str], file: str | None, top: int, said: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The best documents of a file for each query, a row each, with its rank.

    Args:
        queries: Texts, or none where they are in a file.
        file: A file of queries, with the columns `id` and `text`, as has that of the documents.
        said: What was said of how files are read.
    """
    from warmstart.data.findings import Findings
    from warmstart.data.joins import TEXTS, gather
    from warmstart.data.read import read
    from warmstart.inference.search import CHUNK, Index

    def texts(path: str) -> dict[str, str]:
        source = _source(run, path, said)
        return gather(read(source, TEXTS, Findings()), source)

    known = texts(documents)
    asked: dict[str, str] = texts(file) if file else {str(place): text for place, text in enumerate(queries, 1)}
    index = Index.of(predictor, list(known.values()), list(known))
    keys = list(asked)
    for start in range(0, len(keys), CHUNK):
        some = keys[start : start + CHUNK]
        for key, found in zip(some, index.search([asked[key] for key in some], top), strict=True):
            for rank, one in enumerate(found, 1):
                yield {"query_id": key, "query": asked[key], "rank": rank, "document_id": one.pop("id"), **one}


def _source(run: str, file: str, said: dict[str, Any]) -> Any:
    """How a file of texts is read: as the run's own documents, where nothing else was said."""
    from warmstart.data.source import Source
    from warmstart.evaluation.run import RunFolder
    from warmstart.recipe import make_recipe

    own: dict[str, Any] = {}
    if (Path(run) / "recipe.yaml").is_file():
        data = RunFolder(run).recipe.data
        own = {f"data.{name}": getattr(data, name) for name in ("header", "quotes", "encoding", "extra_columns")}
    recipe = make_recipe({"model": run, **own, **said, "data.train": file, "data.documents": file})
    texts = (recipe.data.reading("train") or {})["documents"]
    columns = {**texts["columns"], **recipe.data.columns}
    return Source(**{**texts, "columns": columns, "format": recipe.data.format})
