"""Faults planted in small files: every kind, in every format it makes sense in, at many rows, is reported where it is.

A fault counts as caught if a finding of its kind names its file, and as located if the finding's line is the planted
row's. The clean files themselves must have no finding at all, and real data sets no error.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import plants_several  # noqa: F401 - it registers its plants
import plants_soft  # noqa: F401 - likewise
import plants_tags  # noqa: F401 - likewise
from clean import real_findings
from common import arguments, finish, write_page
from plants import PLANTS, Plant
from sheets import ENDINGS, SEPARATOR, Sheet, clean_rows, encode, parquet, spreadsheet, texts_by_id
from warmstart import tasks
from warmstart.data.findings import Finding
from warmstart.pipeline.check_data import check_data
from warmstart.recipe import make_recipe
from warmstart.runtime.progress import silent

FORMATS = ("csv", "tsv", "jsonl", "parquet", "xlsx", "ods")
TASKS = {
    "classify": {"task": "classify"},
    "many": {"task": {"name": "classify", "multi_label": True}},
    "score": {"task": "score"},
    "span": {"task": "span"},
    "tag": {"task": "tag"},
    "rank": {"task": "rank"},
    "choose": {"task": "choose"},
    "relate": {"task": "relate"},
}
OWN_FORMATS = {
    "span": ("jsonl", "json"),
    "tag": ("conll", "jsonl"),
    "rank": (*FORMATS, "qrels"),
    "choose": FORMATS,
    "relate": FORMATS,
}
"""Tasks whose rows are in other formats than the usual ones, or have no pairs."""
ALWAYS = {"tag-read"}
"""Kinds that report how a file was read, whatever it holds."""


def write(sheet: Sheet, planted: Plant | None, folder: Path) -> dict[str, list[int]]:
    """Write the sheet's files, the fault included; give the line of every row, by file."""
    lines = {}
    for name, texts in sheet.texts.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in texts))
        lines[name] = list(range(1, len(texts) + 1))
    for name, rows in (("train", sheet.rows), ("test", sheet.test)):
        if rows is None:
            continue
        path = folder / f"{name}.{sheet.format}"
        if sheet.format == "parquet":
            lines[name] = parquet(sheet, rows, path)
            continue
        if sheet.format in {"xlsx", "ods"}:
            lines[name] = spreadsheet(sheet, rows, path)
            continue
        sheet.chunks, lines[name] = encode(sheet, rows)
        if name == "train" and planted is not None and planted.bytes is not None:
            planted.bytes(sheet)
        path.write_bytes(b"".join(sheet.chunks))
    return lines


def findings_of(sheet: Sheet, folder: Path) -> list[Finding]:
    """Check the sheet's files as the command does."""
    values: dict[str, Any] = {"model": "none", **TASKS[sheet.task], "data.train": str(folder / f"train.{sheet.format}")}
    if sheet.test is not None:
        values["data.test"] = str(folder / f"test.{sheet.format}")
    values |= {f"data.{name}": str(folder / f"{name}.jsonl") for name in sheet.texts}
    if sheet.task == "choose" and sheet.format not in {"jsonl", "parquet"}:
        values["data.columns.endings"] = ENDINGS
    if sheet.pair:
        values["data.columns.pair"] = "pair"
    if sheet.task == "many":
        values["data.label_separator"] = SEPARATOR
    recipe = make_recipe({**values, **sheet.options})
    schema = tasks.find(recipe.task.name).schema(tasks.options_of(recipe.task.name, recipe.task.options))
    return list(check_data(recipe, schema, folder / "cache", silent, sheet.id).findings)


def prove(planted: Plant, format: str, seed: int, folder: Path) -> tuple[bool, bool]:
    """Plant one fault; gives whether it was caught, and whether its line was right."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    chance = random.Random(f"{planted.kind} {format} {seed}")
    sheet = Sheet(
        format, planted.task, chance, clean_rows(planted.task), planted_row=chance.randrange(planted.low, planted.high)
    )
    if format == "qrels":
        sheet.texts = texts_by_id(sheet.rows)
    if planted.rows is not None:
        planted.rows(sheet)
    lines = write(sheet, planted, folder)
    file, row = sheet.expected
    if file == "line":
        file, line = "train", row
    else:
        row = sheet.planted_row if row is None else row
        line = 0 if row < 0 else lines[file][row]
    path = str(folder / f"{file}.{'jsonl' if file in sheet.texts else format}")
    locations = [finding.location for finding in findings_of(sheet, folder) if finding.kind == planted.kind]
    locations = [location for location in locations if location.file == path]
    return bool(locations), any(location.line == line for location in locations)


def clean(folder: Path) -> int:
    """Findings in files that nothing was planted in."""
    count = 0
    for task in TASKS:
        for format in OWN_FORMATS.get(task, FORMATS):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            sheet = Sheet(format, task, random.Random(0), clean_rows(task), clean_rows(task, 100))
            sheet.pair, sheet.id = task not in OWN_FORMATS, None if format in {"conll", "qrels"} else "id"
            if format == "qrels":
                sheet.texts = texts_by_id([*sheet.rows, *sheet.test])
            write(sheet, None, folder)
            count += sum(finding.kind not in ALWAYS for finding in findings_of(sheet, folder))
    return count


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 25, "placements of each kind in each format")
    planted: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    right: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sheet"
        in_clean_files = clean(folder)
        for plant in PLANTS:
            for format in plant.formats:
                for seed in range(args.n):
                    was_caught, was_right = prove(plant, format, seed, folder)
                    planted[plant.kind] += 1
                    caught[plant.kind] += was_caught
                    right[plant.kind] += was_right
                    if not was_right:
                        print(f"missed: {plant.kind} in {format}, placement {seed}", flush=True)
        real = real_findings(Path(name) / "cache")
    figures = {
        "kinds": len(planted),
        "planted": planted.total(),
        "caught": caught.total(),
        "right_line": right.total(),
        "findings_in_clean_files": in_clean_files,
        "real_files": len(real),
        "errors_in_real_files": sum(finding.severity == "error" for findings in real.values() for finding in findings),
        "misspelt_in_real_files": sum(
            finding.kind == "label-misspelt" for findings in real.values() for finding in findings
        ),
    }
    if args.write:
        write_page("faults", "Planted faults", "make proof-faults", _page(figures, planted, caught, right, real))
    finish(figures)


def _page(
    figures: dict[str, Any],
    planted: Counter[str],
    caught: Counter[str],
    right: Counter[str],
    real: dict[str, list[Finding]],
) -> str:
    formats: dict[str, list[str]] = {}
    for plant in PLANTS:
        formats.setdefault(plant.kind, []).extend(plant.formats)
    rows = "\n".join(
        f"| `{kind}` | {', '.join(dict.fromkeys(formats[kind]))} | {planted[kind]} | {caught[kind]} | {right[kind]} |"
        for kind in sorted(planted)
    )
    seen = "\n".join(f"| {name} | {_counted(findings) or 'nothing'} |" for name, findings in real.items())
    return (
        f"**{figures['caught']:,} of {figures['planted']:,}** planted faults of {figures['kinds']} kinds were caught, "
        f"**{figures['right_line']:,}** of them at the right line. The clean files they were planted in have "
        f"{figures['findings_in_clean_files']} findings.\n\n"
        f"| kind | formats | planted | caught | right line |\n| --- | --- | ---: | ---: | ---: |\n{rows}\n\n"
        f"## Real data\n\nIn {figures['real_files']} files of public datasets, {figures['errors_in_real_files']} "
        f"errors and {figures['misspelt_in_real_files']} labels that look misspelt were found. "
        "These are the warnings and notes, and how often each occurs:\n\n"
        f"| files | found |\n| --- | --- |\n{seen}"
    )


def _counted(findings: list[Finding]) -> str:
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.kind] += finding.count
    return ", ".join(f"`{kind}` {count:,}" for kind, count in counts.items())


if __name__ == "__main__":
    main()
