"""Sections on how a run was made: its data, truncation, its recipe and how to reproduce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from warmstart.data.findings import Finding
from warmstart.report.blocks import (
    Block,
    CodeBlock,
    Paragraph,
    Section,
    TableBlock,
    first,
    name_of,
    percent,
    without_folders,
)
from warmstart.report.data_sections import profile
from warmstart.report.run_facts import RunFacts

SEVERITIES = ("error", "warning", "note")


def data(facts: RunFacts) -> Section:
    """The rows of each part, and the findings in them."""
    about = facts.run.data
    rows = [
        [name, part.rows, ", ".join(name_of(file) for file in part.files[:10]), part.fingerprint[:16]]
        for name, part in about.parts.items()
    ]
    blocks: list[Block] = [TableBlock("Rows", ["part", "rows", "files", "fingerprint"], rows)]
    if about.findings:
        blocks.append(_findings(about.findings))
    else:
        blocks.append(Paragraph("The data has no findings."))
    blocks += profile(facts)
    return Section("data", "Data", blocks)


def _findings(findings: Sequence[Finding]) -> TableBlock:
    """Each kind once: how often, and its first location."""
    kinds: dict[str, Finding] = {}
    counts: Counter[str] = Counter()
    for finding in findings:
        kinds.setdefault(finding.kind, finding)
        counts[finding.kind] += finding.count
    ordered = sorted(kinds.values(), key=lambda finding: (SEVERITIES.index(finding.severity), -counts[finding.kind]))
    shown, left = first(ordered)
    rows = []
    for finding in shown:
        location = finding.location
        where = str(replace(location, file=name_of(location.file))) if location.file else ""
        message = without_folders(finding.message)
        rows.append([finding.severity, finding.kind, counts[finding.kind], where or "–", message])
    columns = ["severity", "kind", "count", "first at", "message"]
    return TableBlock("Findings", columns, rows, "data.json lists them all; so does `warmstart check`.", left)


def truncation(facts: RunFacts) -> Section | None:
    """What the window truncated, where it did."""
    record = facts.run.training.window
    cut = record.train
    tests: list[list[object]] = [
        [part.part, part.rows, part.metrics["rows_cut"], percent(part.metrics["share_cut"] or 0.0)]
        for part in facts.scores
        if part.metrics.get("rows_cut")
    ]
    if not cut.rows_cut and not tests:
        return None
    rows: list[list[object]] = [["train", cut.rows, cut.rows_cut, percent(cut.share)], *tests]
    caption = f"Rows longer than the window ({record.summary()})"
    return Section(
        "truncation", "Truncation", [TableBlock(caption, ["part", "rows", "truncated", "share of tokens lost"], rows)]
    )


def recipe(facts: RunFacts) -> Section:
    """The recipe: what differs from the defaults, then all of it."""
    recipe = facts.run.recipe
    changes = _without_folders(recipe.model_dump(mode="json", exclude_defaults=True))
    complete = _without_folders(recipe.model_dump(mode="json"))
    return Section(
        "recipe",
        "Recipe",
        [
            CodeBlock("What differs from the defaults", _yaml(changes)),
            CodeBlock("The complete recipe", _yaml(complete), folded=True),
            Paragraph("Absolute paths are shortened to “…”; recipe.yaml in the run's folder has them."),
        ],
    )


def reproduce(facts: RunFacts) -> Section:
    """How to reproduce the run."""
    run = facts.run
    seeds = [f"Seed {run.recipe.seed}"]
    for variant in facts.evidence.variants[:20] if facts.evidence else ():
        seeds.append(f"{variant.variant}: seeds {', '.join(map(str, variant.seeds))}")
    environment = run.environment
    rows = [[name, version] for name, version in run.versions.items()]
    rows += [
        [name, str(environment.get(name))]
        for name in ("python", "system", "processor", "accelerator", "threads")
        if environment.get(name)
    ]
    name = facts.name
    return Section(
        "reproduce",
        "Reproduce this run",
        [
            CodeBlock("The command", f"warmstart fit {name}/recipe.yaml --out {name}-again"),
            Paragraph(f"{'; '.join(seeds)}. The data's fingerprints are under Data."),
            TableBlock("Environment", ["name", "value"], rows),
        ],
    )


def card(text: str) -> Section:
    """The model card, as it is beside the model."""
    about = "This is model/README.md. Edit it there: the licence and the language are not known here."
    return Section("card", "Model card", [Paragraph(about), CodeBlock("The card", text, folded=True)])


def _yaml(values: object) -> str:
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
    return text


def _without_folders(value: object) -> object:
    """Values with absolute paths reduced to their names."""
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return value
