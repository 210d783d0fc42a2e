"""The public sets of the studies: where the training and test rows of each come from.

| set | labels | training rows | test rows |
| --- | --- | --- | --- |
| banking77 | 77 intents | its own | 2,000 of its 3,080 |
| clinc150 | 150 intents and out-of-scope (`oos`), as in the full set: `train` + `oos_train` | its own | 2,000 of the 5,500 of `test` + `oos_test` |
| trec | 6 coarse ones | its own | its own |
| rt-polarity | 2 | nine tenths, as split in the file | the other tenth |
| sst5 | 5, of whole sentences | its own | 2,000 of its 2,210 |
| sms_spam | 2 | 80% of each label | 20%; equal texts are on one side |
| mrpc | 2, of pairs | its own (`train` + `val` here) | its own |
| film-reviews | 2, of long texts | 500 of each label | 500 of each label |
| stsb | a number from 0 to 5, of pairs | its own | its own |

Validation rows are in neither part, but for those of MRPC, which were cut from its training rows. Draws and splits are
by seed 0. Texts are as they are in the files, but for whitespace around them, and within film reviews.
"""  # noqa: E501

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable

from set_files import MEASURE, OPEN, Rows, categories, film_reviews, questions, scored_pairs, tabbed

Row = dict[str, str | float]
"""`text`, for pairs `pair`, and `label`."""
Parts = tuple[list[Row], list[Row]]
"""Training rows and test rows."""
MOST_TEST_ROWS = 2000


def banking77() -> Parts:
    """Messages to a bank."""
    return _parts(*(categories(OPEN / "banking77" / "banking_data" / f"{part}.csv") for part in ("train", "test")))


def clinc150() -> Parts:
    """Requests to an assistant, some of them out of its scope."""
    rows = json.loads((OPEN / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    return _parts(*([(label, text) for text, label in rows[part] + rows[f"oos_{part}"]] for part in ("train", "test")))


def trec() -> Parts:
    """Questions and what kind of answer they ask for."""
    return _parts(*(questions(MEASURE / "trec_qc" / name) for name in ("train_5500.label", "TREC_10.label")))


def rt_polarity() -> Parts:
    """Sentences of film reviews."""
    return _parts(*(tabbed(MEASURE / "rt-polarity" / f"{part}.tsv") for part in ("train", "test")))


def sst5() -> Parts:
    """Sentences of film reviews, from very negative (0) to very positive (4)."""
    folder = MEASURE / "sst" / "Fine-Grained"

    def rows(part: str) -> Rows:
        lines = (folder / f"sentiment-{part}").read_text(encoding="utf-8").split("\n")
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line.strip()]

    return _parts(rows("train"), rows("test"))


def sms_spam() -> Parts:
    """Short messages."""
    return _parts(*_split(tabbed(OPEN / "sms_spam" / "SMSSpamCollection"), 0.2))


def mrpc() -> Parts:
    """Pairs of sentences of the news that say the same (1) or not (0)."""

    def rows(part: str) -> list[Row]:
        # One of the three files has no byte order mark; quotes are no quoting.
        with (MEASURE / "mrpc" / f"msr-para-{part}.tsv").open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [
                {"text": line["#1 String"].strip(), "pair": line["#2 String"].strip(), "label": line["Quality"]}
                for line in lines
            ]

    return rows("train") + rows("val"), _at_most(rows("test"))


def whole_film_reviews() -> Parts:
    """Whole film reviews, most past 512 tokens."""
    return _parts(*_split(film_reviews(), 0.5))


def stsb() -> Parts:
    """Pairs of sentences and how alike they are."""

    def rows(part: str) -> list[Row]:
        found = scored_pairs(MEASURE / "stsb" / f"sts-{part}.csv")
        return [{"text": text, "pair": pair, "label": score} for text, pair, score in found]

    return rows("train"), _at_most(rows("test"))


SETS: dict[str, Callable[[], Parts]] = {
    "banking77": banking77,
    "clinc150": clinc150,
    "trec": trec,
    "rt-polarity": rt_polarity,
    "sst5": sst5,
    "sms_spam": sms_spam,
    "mrpc": mrpc,
    "film-reviews": whole_film_reviews,
    "stsb": stsb,
}


def _parts(train: Rows, test: Rows) -> Parts:
    as_rows = [[Row(text=text.strip(), label=label) for label, text in part] for part in (train, test)]
    return as_rows[0], _at_most(as_rows[1])


def _at_most(rows: list[Row]) -> list[Row]:
    return rows if len(rows) <= MOST_TEST_ROWS else random.Random(0).sample(rows, MOST_TEST_ROWS)


def _split(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Training rows, and a share of each label to test on; texts equal but for case and spaces stay together."""
    groups: dict[str, dict[str, Rows]] = {}
    for label, text in rows:
        groups.setdefault(label, {}).setdefault(" ".join(text.casefold().split()), []).append((label, text))
    train, test = Rows(), Rows()
    random_order = random.Random(0)
    for label in sorted(groups):
        of_label = list(groups[label].values())
        random_order.shuffle(of_label)
        count = round(share * len(of_label))
        test += [row for group in of_label[:count] for row in group]
        train += [row for group in of_label[count:] for row in group]
    return train, test
