"""Searching a file of documents from the command line: the best for each query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def search(
    run: str, predictor: Any, documents: str, queries: Sequence[str], file: str | None, top: int, fields: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The best documents of a file for each query, a row each, with its rank.

    Args:
        queries: Texts, or none where they are in a file.
        file: A file of queries, with the columns `id` and `text`, as has that of the documents.
        fields: Recipe fields for reading the files.
    """
    from warmstart.data.findings import Findings
    from warmstart.data.joins import TEXT_SCHEMA, texts_by_id
    from warmstart.data.read import iter_rows
    from warmstart.inference.search import Index
    from warmstart.inference.searchers import CHUNK

    def texts(path: str) -> dict[str, str]:
        source = _source(run, path, fields)
        return texts_by_id(iter_rows(source, TEXT_SCHEMA, Findings()), source)

    document_texts = texts(documents)
    query_texts: dict[str, str] = texts(file) if file else {str(number): text for number, text in enumerate(queries, 1)}
    index = Index.of(predictor, list(document_texts.values()), list(document_texts))
    keys = list(query_texts)
    for start in range(0, len(keys), CHUNK):
        some = keys[start : start + CHUNK]
        for key, hits in zip(some, index.search([query_texts[key] for key in some], top), strict=True):
            for rank, hit in enumerate(hits, 1):
                retrieved = {"document_id": hit["id"], "document": hit["document"], "score": hit["score"]}
                yield {"query_id": key, "query": query_texts[key], "rank": rank, **retrieved}


def _source(run: str, file: str, fields: dict[str, Any]) -> Any:
    """How a file of texts is read: by default as the run's own documents."""
    from warmstart.data.source import Source
    from warmstart.evaluation.run import RunFolder
    from warmstart.recipe import make_recipe

    own: dict[str, Any] = {}
    if (Path(run) / "recipe.yaml").is_file():
        data = RunFolder(run).recipe.data
        own = {
            f"data.{name}": getattr(data, name)
            for name in ("header", "delimiter", "quotes", "encoding", "extra_columns")
        }
    recipe = make_recipe({"model": run, **own, **fields, "data.train": file, "data.documents": file})
    texts = (recipe.data.reading("train") or {})["documents"]
    columns = {**texts["columns"], **recipe.data.columns}
    return Source(**{**texts, "columns": columns, "format": recipe.data.format})
