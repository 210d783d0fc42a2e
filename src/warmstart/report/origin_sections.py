"""Sections on where a run comes from: its data, what the window cut, its recipe and how to have it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from warmstart.report.blocks import Block, Code, Prose, Section, Table, first, name_of, percent, without_folders
from warmstart.report.run_facts import Facts
from warmstart.text.windows import Cut, Window

SEVERITIES = ("error", "warning", "note")


def data(facts: Facts) -> Section:
    """The rows of each part, and what was found in them."""
    about = facts.run.data
    rows = [
        [part, found["rows"], ", ".join(name_of(file) for file in found["files"][:10]), str(found["fingerprint"])[:16]]
        for part, found in about["parts"].items()
    ]
    blocks: list[Block] = [Table("Rows", ["part", "rows", "files", "fingerprint"], rows)]
    if about["findings"]:
        blocks.append(_findings(about["findings"]))
    else:
        blocks.append(Prose("Nothing odd was found in the data."))
    return Section("data", "Data", blocks)


def _findings(found: list[Mapping[str, Any]]) -> Table:
    """Each kind once: how often, and its first place."""
    kinds: dict[str, dict[str, Any]] = {}
    for one in found:
        kept = kinds.setdefault(one["kind"], {**one, "count": 0})
        kept["count"] += one["count"]
    ordered = sorted(kinds.values(), key=lambda one: (SEVERITIES.index(one["severity"]), -one["count"]))
    shown, left = first(ordered)
    rows = []
    for one in shown:
        file = name_of(one["file"]) if one.get("file") else ""
        line = f":{one.get('unit', '')}{one['line']}" if file and one["line"] else ""
        rows.append(
            [one["severity"], one["kind"], one["count"], f"{file}{line}" or "–", without_folders(one["message"])]
        )
    columns = ["severity", "kind", "times", "first at", "what"]
    return Table("Findings", columns, rows, "data.json has them all; `warmstart check` explains.", left)


def window(facts: Facts) -> Section | None:
    """What the window cut, where it cut something."""
    said = facts.run.training["window"]
    cut = Cut(**said["train"])
    tests = [
        [one.part, one.rows, one.metrics["rows_cut"], percent(one.metrics["share_cut"])]
        for one in facts.measured
        if one.metrics.get("rows_cut")
    ]
    if not cut.rows_cut and not tests:
        return None
    rule = Window(**{name: value for name, value in said.items() if name != "train"}).rule()
    rows = [["train", cut.rows, cut.rows_cut, percent(cut.share)], *tests]
    caption = f"Rows longer than the window ({rule})"
    return Section("window", "What the window cut", [Table(caption, ["part", "rows", "cut", "tokens not seen"], rows)])


def recipe(facts: Facts) -> Section:
    """The recipe: what differs from the defaults, then all of it."""
    found = facts.run.recipe
    said = _without_folders(found.model_dump(mode="json", exclude_defaults=True))
    whole = _without_folders(found.model_dump(mode="json"))
    return Section(
        "recipe",
        "Recipe",
        [
            Code("What differs from the defaults", _yaml(said)),
            Code("The complete recipe", _yaml(whole), folded=True),
            Prose("Folders of the machine it ran on are written as “…”; recipe.yaml in the run's folder has them."),
        ],
    )


def again(facts: Facts) -> Section:
    """How to have the same run again."""
    run = facts.run
    seeds = [f"seed {run.recipe.seed}"]
    for one in facts.evidence.get("variants", ())[:20]:
        seeds.append(f"{one['variant']}: seeds {', '.join(map(str, one.get('seeds', ())))}")
    environment = run.environment
    rows = [[name, version] for name, version in environment["versions"].items()]
    rows += [
        [name, str(environment.get(name))]
        for name in ("python", "system", "processor", "accelerator", "threads")
        if environment.get(name)
    ]
    name = facts.name
    return Section(
        "again",
        "The same again",
        [
            Code("By this command", f"warmstart fit {name}/recipe.yaml --out {name}-again"),
            Prose(f"Seeds: {'; '.join(seeds)}. The data's fingerprints are under Data."),
            Table("Made with", ["what", "version"], rows),
        ],
    )


def card(text: str) -> Section:
    """The model card, as it stands beside the model."""
    about = "model/README.md, which stands beside the model; edit it there: licence and language are not known here."
    return Section("card", "Model card", [Prose(about), Code("The text of the card", text, folded=True)])


def _yaml(values: Any) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)


def _without_folders(value: Any) -> Any:
    """Values with absolute paths cut down to their names."""
    if isinstance(value, dict):
        return {key: _without_folders(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_folders(one) for one in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return value
