"""SQuAD files as rows: questions stand under paragraphs under articles (Rajpurkar et al. 2016; 2018 for 2.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from warmstart.data.findings import Findings
from warmstart.errors import DataError

Row = dict[str, Any]
Where = Callable[[], str]


def is_squad(found: object) -> bool:
    """Whether a parsed JSON file is nested as SQuAD's are."""
    return isinstance(found, dict) and "data" in found


def rows(file: str, found: Any, findings: Findings) -> Iterator[Row]:
    """Give a row a question, in the file's order: `question`, `context`, `answers`, `id` and `title`.

    Answers that are merely plausible are left out, and counted in a note.
    """
    known: dict[str, int] = {}
    number = plausible = 0

    def where() -> str:
        """The row that comes next, as a place."""
        return f"{file}:row {number + 1}"

    for at, article in _items(where, "", found, "data"):
        for place, paragraph in _items(where, at, article, "paragraphs"):
            if "context" not in paragraph:
                raise _lacks(where, place, paragraph, "context")
            for path, item in _items(where, place, paragraph, "qas"):
                row = {"title": article.get("title"), "context": paragraph["context"], **_question(where, path, item)}
                number += 1
                earlier = known.setdefault(str(row["id"]), number)
                if earlier != number:
                    what = f"the id {row['id']!r} stands at row {earlier} already"
                    findings.add("id-repeated", "warning", what, file, number, unit="row ")
                plausible += bool(item.get("plausible_answers"))
                yield row
    if plausible:
        what = f"{plausible:,} questions have plausible answers, which are no answers and are not read"
        findings.add("plausible", "note", what, file, count=plausible)


def _question(where: Where, path: str, item: dict[str, Any]) -> Row:
    for key in ("question", "id"):
        if key not in item:
            raise _lacks(where, path, item, key)
    name = f"question {item['id']!r}"
    impossible, answers = item.get("is_impossible"), item.get("answers")
    if impossible is not None and not isinstance(impossible, bool):
        raise DataError(f"{where()}: {name}: is_impossible is {impossible!r}. Expected true or false.", "squad")
    if impossible and answers is None:
        answers = []
    if impossible is not None and answers is not None and impossible == bool(answers):
        said = "has answers, and is_impossible is true" if impossible else "has none, and is_impossible is false"
        raise DataError(f"{where()}: {name}: {said}. Correct the one or the other.", "answer-impossible")
    return {"question": item["question"], "id": item["id"], "answers": answers}


def _items(where: Where, path: str, parent: dict[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in the list under a key, each with its path in the file."""
    if key not in parent:
        raise _lacks(where, path, parent, key)
    path = f"{path}.{key}" if path else key
    if not isinstance(parent[key], list):
        raise DataError(
            f"{where()}: {path} is a {type(parent[key]).__name__}. Expected a list, as SQuAD has it.", "squad"
        )
    for number, item in enumerate(parent[key]):
        if not isinstance(item, dict):
            found = f"{path}[{number}] is {str(item)[:60]!r}"
            raise DataError(f"{where()}: {found}. Expected an object, as SQuAD has it.", "squad")
        yield f"{path}[{number}]", item


def _lacks(where: Where, path: str, found: dict[str, Any], key: str) -> DataError:
    has = ", ".join(map(repr, list(found)[:10])) or "nothing"
    return DataError(f"{where()}: {path} has no {key!r}, but {has}. Expected it, as SQuAD has it.", "squad")
