"""SQuAD's nested files: read as rows, and what is wrong in them is named by row and question."""

import copy
import json

import pytest

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.source import Source
from warmstart.errors import DataError
from warmstart.tasks.span import Span, SpanOptions

CONTEXT = "Alice lives in Paris. Bob lives in London."
FILE = {
    "version": "2.0",
    "data": [
        {
            "title": "Who lives where",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "a", "question": "Who?", "answers": [{"text": "Alice", "answer_start": 0}]},
                        {"id": "b", "question": "Where?", "answers": [{"text": "London", "answer_start": 35}]},
                    ],
                }
            ],
        },
        {
            "title": "Again",
            "paragraphs": [
                {"context": "Nobody.", "qas": []},
                {
                    "context": "Carol reads.",
                    "qas": [
                        {
                            "id": "c",
                            "question": "Who writes?",
                            "answers": [],
                            "is_impossible": True,
                            "plausible_answers": [{"text": "Carol", "answer_start": 0}],
                        }
                    ],
                },
            ],
        },
    ],
}
SCHEMA = Span.schema(SpanOptions())


def rows_of(file, schema=SCHEMA, **options):
    findings = Findings()
    return list(iter_rows(Source((file,), **options), schema, findings)), findings


def changed(change):
    file = copy.deepcopy(FILE)
    change(file["data"])
    return json.dumps(file, ensure_ascii=False)


def test_a_row_a_question(put):
    rows, findings = rows_of(put("squad.json", json.dumps(FILE)))
    assert [(row["id"], row["line"], row["question"], row["context"]) for row in rows] == [
        ("a", 1, "Who?", CONTEXT),
        ("b", 2, "Where?", CONTEXT),
        ("c", 3, "Who writes?", "Carol reads."),
    ]
    assert [row["answers"] for row in rows] == [
        [{"text": "Alice", "start": 0}],
        [{"text": "London", "start": 35}],
        [],
    ]
    assert [(one.kind, one.severity, one.count) for one in findings] == [("plausible", "note", 1)]


def test_asked_only_a_file_needs_no_answers(put):
    def without(data):
        for article in data:
            for paragraph in article["paragraphs"]:
                for item in paragraph["qas"]:
                    del item["answers"]

    file = put("asked.json", changed(without))
    rows, _ = rows_of(file, SCHEMA.without_answers())
    assert [row["question"] for row in rows] == ["Who?", "Where?", "Who writes?"]
    with pytest.raises(DataError, match=r"asked\.json:row 1: no answer in 'answers'"):
        rows_of(file)


@pytest.mark.parametrize(
    "answers",
    [
        [{"text": "Alice", "start": 0}],
        [{"text": "Alice", "answer_start": 0}],
        {"text": ["Alice"], "answer_start": [0]},
    ],
)
@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_plain_rows(put, name, answers):
    row = {"question": "Who?", "context": CONTEXT, "answers": answers, "more": 1}
    text = json.dumps([row, {**row, "id": 3}] if name == "rows.json" else row)
    rows, findings = rows_of(put(name, text))
    assert rows[0]["answers"] == [{"text": "Alice", "start": 0}]
    assert [row.get("id") for row in rows] == ([None, "3"] if name == "rows.json" else [None])
    assert not len(findings)


def qas(data):
    return data[0]["paragraphs"][0]["qas"]


FAULTS = {
    "answer-place": (
        lambda data: qas(data)[1]["answers"][0].update(answer_start=34),
        r"row 2: question 'b': the answer 'London' is not at 34, where ' Londo' stands; it is found nearest at 35\. "
        "Correct its start",
    ),
    "answer-place nowhere": (
        lambda data: qas(data)[0]["answers"][0].update(text="Eve"),
        "row 1: question 'a': the answer 'Eve' is not at 0, where 'Ali' stands; it is found nowhere in the context",
    ),
    "answer-blank": (lambda data: qas(data)[0]["answers"][0].update(text=""), "row 1: question 'a': an answer has no"),
    "answers-form": (lambda data: qas(data)[1].update(answers="London"), "row 2: 'answers': found|row 2: 'answers' is"),
    "answers-form start": (lambda data: qas(data)[1]["answers"][0].update(answer_start="35"), "row 2: 'answers'"),
    "answer-impossible": (
        lambda data: qas(data)[0].update(is_impossible=True),
        "row 1: question 'a': has answers, but",
    ),
    "answer-impossible none": (
        lambda data: qas(data)[1].update(is_impossible=False, answers=[]),
        "row 2: question 'b': has none, but is_impossible is false",
    ),
    "squad flag": (lambda data: qas(data)[1].update(is_impossible="no"), "row 2: question 'b': is_impossible is 'no'"),
    "squad id": (lambda data: qas(data)[1].pop("id"), r"row 2: data\[0\].paragraphs\[0\].qas\[1\] has no 'id', but"),
    "squad question": (lambda data: qas(data)[0].pop("question"), r"row 1: .*qas\[0\] has no 'question'"),
    "squad context": (
        lambda data: data[1]["paragraphs"][1].pop("context"),
        r"row 3: data\[1\].paragraphs\[1\] has no 'context', but 'qas'",
    ),
    "squad qas": (
        lambda data: data[0]["paragraphs"][0].update(qas={"a": 1}),
        r"row 1: data\[0\].paragraphs\[0\].qas is a dict. Expected a list",
    ),
    "squad article": (lambda data: data.append("more"), r"row 4: data\[2\] is 'more'. Expected an object"),
    "text-empty": (lambda data: data[0]["paragraphs"][0].update(context=""), "row 1: 'context' is empty"),
    "text-type": (lambda data: qas(data)[1].update(question=5), "row 2: 'question' is int 5"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_row(put, name):
    change, message = FAULTS[name]
    with pytest.raises(DataError, match=message) as error:
        rows_of(put("squad.json", changed(change)))
    assert error.value.kind == name.partition(" ")[0]


def test_an_id_that_occurs_twice_is_reported(put):
    _, findings = rows_of(put("squad.json", changed(lambda data: qas(data)[1].update(id="a"))))
    [finding] = [one for one in findings if one.kind == "id-repeated"]
    assert str(finding.location).endswith("squad.json:row 2")
    assert finding.message == "the id 'a' is already that of row 1"


def test_an_object_that_is_no_squad_file_is_refused(put):
    with pytest.raises(DataError, match=r"a JSON dict, expected a list of objects, .* or SQuAD's `data`"):
        rows_of(put("other.json", '{"rows": []}'))


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("xquad/xquad.en.json", 1190),
        ("xquad/xquad.zh.json", 1190),
        ("jglue/datasets/jsquad-v1.3/valid-v1.3.json", 4442),
        ("covidqa_early/data/question-answering/200423_covidQA.json", 1380),
    ],
)
def test_real_files(shared_data, name, count):
    """covidqa_early has 234 answers that are off by white space, which are moved to where they stand."""
    schema = Span.schema(SpanOptions(misplaced_answers="nearest" if "covid" in name else "refuse"))
    rows, _ = rows_of(str(shared_data / "open" / name), schema)
    assert len(rows) == count
