"""The faults planted in soft labels: probabilities as JSON in a cell, and the votes of annotators."""

from __future__ import annotations

import json

from plants import plant
from sheets import LABELS, Sheet


def _soft(kind: str, column: str, *cells: str) -> None:
    """Make every row's label a soft one, and plant one of the cells."""

    def change(sheet: Sheet) -> None:
        sheet.options[f"data.columns.{column}"] = "label"
        for row in sheet.rows:
            second = LABELS[(LABELS.index(row["label"]) + 1) % len(LABELS)]
            soft = {row["label"]: 0.75, second: 0.25}
            row["label"] = json.dumps(soft if column == "probabilities" else [row["label"]] * 2 + [second])
        sheet.row["label"] = sheet.random.choice(cells)

    plant(kind)(change)


_soft("probability-form", "probabilities", "good", '["good"]', '{"good": "much"}', '{"good": 0.5, "good": 0.5}')
_soft("probability-range", "probabilities", '{"good": 1.25, "bad": -0.25}', '{"good": -0.5, "bad": 1.5}')
_soft("probability-sum", "probabilities", '{"good": 0.5, "bad": 0.25}', '{"good": 0.5, "bad": 0.75}', '{"bad": 0}')
_soft("votes-form", "votes", "good", '{"good": 1.5}', '{"good": -1}', '["good", null]', '"good"', '["good", ""]')
_soft("label-tie", "votes", '["good", "bad"]', '{"bad": 2, "fair": 2, "good": 1}')
_soft("answer-missing", "probabilities", "", " ", "{}")


@plant("label-unseen")
def _(sheet: Sheet) -> None:
    sheet.options["data.columns.probabilities"] = "label"
    for row in sheet.rows:
        row["label"] = json.dumps({row["label"]: 1})
    sheet.test = [{**row, "text": f"{row['text']} again"} for row in sheet.rows]
    sheet.test[sheet.planted_row]["label"] = '{"good": 0.75, "other": 0.25}'
    sheet.expected = ("test", None)
