"""SQuAD files as rows: questions under paragraphs under articles (Rajpurkar et al. 2016; 2018 for 2.0)."""

from __future__ import annotations

from collections.abc import Iterator

from warmstart.data.findings import Findings
from warmstart.errors import DataError, Location
from warmstart.storage.json_files import Json

Object = dict[str, Json]


def is_squad(value: Object) -> bool:
    """Whether a parsed JSON file is nested as SQuAD is."""
    return "data" in value


def rows(file: str, value: Object, findings: Findings) -> Iterator[Object]:
    """Yield a row per question, in the file's order: `question`, `context`, `answers`, `id` and `title`.

    Answers that are merely plausible are left out, and counted in a note.
    """
    known: dict[str, int] = {}
    number, plausible = 1, 0
    reader = _Reader(file)
    for article_path, article in reader.items("", value, "data"):
        for path, paragraph in reader.items(article_path, article, "paragraphs"):
            if "context" not in paragraph:
                raise reader.missing_key(path, paragraph, "context")
            for question_path, question in reader.items(path, paragraph, "qas"):
                row = {
                    "title": article.get("title"),
                    "context": paragraph["context"],
                    **reader.question(question_path, question),
                }
                earlier = known.setdefault(str(row["id"]), number)
                if earlier != number:
                    message = f"the id {row['id']!r} is already that of row {earlier}"
                    findings.add("id-repeated", "warning", message, reader.location)
                plausible += bool(question.get("plausible_answers"))
                number = reader.row = number + 1
                yield row
    if plausible:
        message = f"{plausible:,} questions have plausible answers, which are not answers and are not read"
        findings.add("plausible", "note", message, Location(file), plausible)


class _Reader:
    """Checks the nesting of one file; knows the row that is being read, for messages."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.row = 1

    @property
    def location(self) -> Location:
        return Location(self.file, self.row, "row ")

    def items(self, path: str, parent: Object, key: str) -> Iterator[tuple[str, Object]]:
        """The objects in the list under a key, each with its path in the file."""
        if key not in parent:
            raise self.missing_key(path, parent, key)
        path = f"{path}.{key}" if path else key
        children = parent[key]
        if not isinstance(children, list):
            raise self._error(f"{path} is a {type(children).__name__}. Expected a list, as in SQuAD.")
        for number, item in enumerate(children):
            if not isinstance(item, dict):
                raise self._error(f"{path}[{number}] is {str(item)[:60]!r}. Expected an object, as in SQuAD.")
            yield f"{path}[{number}]", item

    def question(self, path: str, item: Object) -> Object:
        """The values of a question."""
        for key in ("question", "id"):
            if key not in item:
                raise self.missing_key(path, item, key)
        impossible, answers = item.get("is_impossible"), item.get("answers")
        row_id = str(item["id"])
        if impossible is not None and not isinstance(impossible, bool):
            problem = f"question {item['id']!r}: is_impossible is {impossible!r}. Expected true or false."
            raise self._error(problem, row_id=row_id)
        if impossible and answers is None:
            answers = []
        if impossible is not None and answers is not None and impossible == bool(answers):
            state = "has answers, but is_impossible is true" if impossible else "has none, but is_impossible is false"
            problem = f"question {item['id']!r}: {state}. Correct one or the other."
            raise self._error(problem, "answer-impossible", row_id=row_id)
        return {"question": item["question"], "id": item["id"], "answers": answers}

    def missing_key(self, path: str, item: Object, key: str) -> DataError:
        """The error of an object that lacks a key."""
        keys = ", ".join(map(repr, list(item)[:10])) or "nothing"
        return self._error(f"{path} has no {key!r}, but {keys}. Expected it, as in SQuAD.")

    def _error(self, problem: str, kind: str = "squad", row_id: str | None = None) -> DataError:
        return DataError(problem, kind, location=self.location, row_id=row_id)
