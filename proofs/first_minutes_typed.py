"""What a new user types, in order: a run that is made early is used by what comes after it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Typed:
    """One thing that is typed.

    Attributes:
        expect: What must be in the answer, spaces and line ends alike.
        quick: Whether it is a refusal that needs no torch.
        own: Whether it was found by trying, and not on anybody's list.
    """

    words: tuple[str, ...] = ()
    code: int = 0
    expect: tuple[str, ...] = ()
    quick: bool = False
    own: bool = False
    python: str = ""
    stdin: str = ""

    @property
    def title(self) -> str:
        """What is typed, as one line."""
        return self.python.replace("\n", "; ") or " ".join(("warmstart", *self.words))


def _typed(line: str, code: int, *expect: str, quick: bool = False, own: bool = False, stdin: str = "") -> Typed:
    return Typed(tuple(shlex.split(line)), code, expect, quick, own, stdin=stdin)


def _refused(line: str, code: int, *expect: str, own: bool = False) -> Typed:
    return _typed(line, code, *expect, quick=True, own=own)


def _python(code: str, exit_code: int, *expect: str, own: bool = False) -> Typed:
    return Typed((), exit_code, expect, own=own, python=code)


FIT = "--model encoder --max-steps 2"
CATCH = "import warmstart\ntry:\n    {}\nexcept warmstart.WarmstartError as error:\n    print(error)"

TYPED: tuple[Typed, ...] = (
    _refused("--version", 0, "warmstart"),
    _refused("--help", 0, "fit", "predict"),
    _refused("help", 2, "it is called --help here", own=True),
    _refused("fitt rows.csv", 2, "did you mean 'fit'?", own=True),
    _refused("train rows.csv", 2, "it is called fit here", own=True),
    _refused("fit", 2, "Missing argument", own=True),
    _refused("fit rows.csv", 3, "--model sentence-transformers/all-MiniLM-L6-v2"),
    _refused("fit german.csv --encoding cp1252", 4, "pass --delimiter ';'", own=True),
    _refused("fit .", 4, "is a folder. Expected a file", own=True),
    _refused("fit nowhere.csv --model encoder", 4, "nowhere.csv: no such file"),
    _refused("fit rows.csv --model ./nowhere", 5, "./nowhere: there is no such folder"),
    _refused("fit rows.csv --model bert-base-uncased", 5, "HF_HUB_OFFLINE is set", own=True),
    _refused("fit rows.csv --model encoder --label stars", 4, "no column 'stars'", "The file has 'text', 'label'"),
    _refused("fit rows.csv --model encoder --learning_rate 1e-4", 2, "it is called --learning-rate here", own=True),
    _refused("fit rows.csv --model encoder --epochs ten", 2, "valid number", own=True),
    _refused("fit rows.csv --model encoder --set max_steps=5", 3, "training.max_steps"),
    _refused("fit rows.csv --model encoder --set training.learning_rate=fast", 3, "training.learning_rate", own=True),
    _refused("fit rows.csv --model encoder --task sentiment", 3, "'sentiment' is not a task", own=True),
    _refused("fit rows.csv --model encoder --out full", 6, "full holds files that are no run", own=True),
    _refused("fit rows.csv --model encoder --out rows.csv", 6, "rows.csv is a file, and a run is a folder", own=True),
    _refused("fit bad.yaml", 3, "bad.yaml:3: not YAML", own=True),
    _refused("fit key.yaml", 3, "learning_rate is called training.learning_rate here", own=True),
    _refused("fit old.xls --model encoder", 4, "save it as .xlsx"),
    _refused("fit empty.csv --model encoder", 4, "empty.csv: no rows", own=True),
    _refused("fit header.csv --model encoder", 4, "header.csv: no rows", own=True),
    _refused("fit utf16.csv --model encoder", 4, "Pass --encoding utf-16", own=True),
    _refused("fit packed.csv --model encoder", 4, "holds compressed bytes (gz)", own=True),
    _refused("fit binary.csv --model encoder", 4, "byte 0x80", own=True),
    _refused("fit lines.json --model encoder", 4, "pass --format jsonl", own=True),
    _refused("fit comma.csv --model encoder", 4, "comma.csv:2: found 3 cells, expected 2", own=True),
    _refused("fit german.csv --model encoder", 4, "--encoding cp1252"),
    _refused("fit german.csv --model encoder --encoding cp1252", 4, "--delimiter ';'"),
    _refused(
        "fit german.csv --model encoder --encoding cp1252 --delimiter ';'", 4, "The file has 'Nr', 'Nachricht', 'Thema'"
    ),
    _typed("fit one.csv --model encoder", 4, "hold 1 label ('x')", own=True),
    _typed("fit two.csv --model encoder", 4, "'test' would be empty", own=True),
    _typed("check holes.csv", 4, "holes.csv:66: 'text' is empty", "only whitespace", "no answer", "--drop empty"),
    _typed("check holes.csv --drop empty --drop unlabelled", 0, "warning: empty │ 2".replace("│ ", ""), own=True),
    _typed("check skewed.csv", 0, "88.8% of the rows have the label 'ham'"),
    _typed("check misspelt.csv", 0, "'Kate' (1 rows) is perhaps a misspelling of 'Karte' (40 rows)"),
    _typed(f"fit rows.csv {FIT} --out run", 0, "Next: warmstart predict run", "training in fp32"),
    _typed(f"fit german.csv {FIT} --out g --encoding cp1252 --delimiter ';' --text Nachricht --label Thema", 0, "test"),
    _typed(f"fit rows.xlsx {FIT} --out x", 0, "test accuracy"),
    _typed(f"fit rows.ods {FIT} --out o", 0, "test accuracy"),
    _typed(f"fit rows.csv.zip {FIT} --out z", 0, "test accuracy"),
    _typed(f"fit array.json {FIT} --out j", 0, "test accuracy"),
    _typed(f"fit rows.csv {FIT} --out run", 6, "run holds a finished run", quick=True, own=True),
    _typed(f"fit skewed.csv {FIT} --out s --strict", 8, "every answer is", "88%", "task.class_weight: balanced"),
    _typed("show s", 0, "every answer is"),
    _typed("evaluate s skewed.csv", 0, "every answer is"),
    _refused("predict nowhere hello", 5, "nowhere: no such folder"),
    _refused("predict rows.csv hello", 5, "rows.csv: found a file, expected the folder of a run", own=True),
    _refused("predict run", 3, "give texts, or --file", own=True),
    _typed("predict run 'a good film'", 0, "a good film"),
    _typed("predict run - --json", 3, "standard input is empty", own=True),
    _typed("predict run - --json", 0, '"label"', own=True, stdin="good\nbad\n"),
    _typed("predict run --file other.csv", 4, "no column 'text'", "The file has 'message', 'id'", own=True),
    _typed("predict run --file ids.csv --out answers.csv", 0, "2 predictions in answers.csv"),
    _refused("predict run --file ids.csv --out answers.csv", 3, "answers.csv: the file exists", "--overwrite"),
    _refused("predict run --file ids.csv --out answers.xlsx", 3, "answers.xlsx", own=True),
    _python("print(open('answers.csv').read())", 0, "id,text,label,predicted_label", "007,good film,pos", "008,=1+1"),
    _typed("predict run --file ids.csv --out answers.csv --overwrite --no-formulas", 0, "2 predictions"),
    _python("print(open('answers.csv').read())", 0, "008,'=1+1", own=True),
    _typed("evaluate run new.csv", 4, "new.csv:3: label 'meh' was not seen in training", own=True),
    _python(CATCH.format("warmstart.load('nowhere')"), 0, "nowhere: no such folder", own=True),
    _python(CATCH.format("warmstart.fit('rows.csv', model='encoder')"), 0, "rows.csv", "train=", own=True),
    _python(
        CATCH.format("warmstart.fit(train='rows.csv', model='encoder', max_steps=5)"), 0, 'training={"max_steps": 5}'
    ),
    _python(
        "import pandas as pd, warmstart\nrows = pd.read_csv('rows.csv')\n"
        "run = warmstart.fit(train=rows, model='encoder', out='df', training={'max_steps': 2})\n"
        "print(run.predict(['good'])[0]['label'])",
        0,
    ),
    _python(
        "import pandas as pd, warmstart\nfrom sklearn.model_selection import cross_val_score\n"
        "rows = pd.read_csv('rows.csv')\n"
        "model = warmstart.TextClassifier('encoder', options={'training.max_steps': 2})\n"
        "print(cross_val_score(model, rows['text'], rows['label'], cv=2))",
        0,
        "[",
        own=True,
    ),
)
