"""Measure studies and write their pages and the summary: `python studies/run.py [NAME ...] [--no-train] [OPTIONS]`.

Without a name, all studies. Options are those of `warmstart study`, such as `--seeds 1` or `--methods plain`. The sets
are prepared first, and the encoder that a study names is looked for beside the checkout. The pages of these studies and
the summary of all are then written from the figures that are kept; with `--no-train`, nothing else is done.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import prepare
from common import ROOT, weights
from warmstart.recipe.study import Study, load_study
from warmstart.recipe.study_base import FILE
from warmstart.storage.files import write_text
from warmstart.studies.cells import Cell, StudyPart
from warmstart.studies.claims import WORDS, Verdict, judge
from warmstart.studies.figures import KeptResult
from warmstart.studies.measure import StudyRunner
from warmstart.studies.page import write_study_page

ENCODERS = {"sentence-transformers/all-MiniLM-L6-v2": "minilm", "intfloat/e5-small": "e5-small"}
"""Folders of the encoders that studies name."""
RESULTS = ROOT / "docs" / "results"
INTRO = """
Every published table and figure that is measured here, claim by claim. Each study is a file, a command
(`make results-study STUDY=NAME`) and a page with the published figures beside ours, what is unlike the paper, and what
its full size would cost. *Holds* and *contradicted* mean that the difference shows both over seeds and over test rows,
with p values corrected for the number of comparisons of the study; *does not show* means that nothing can be said
either way with these sizes. A verdict is about the encoder and the sizes of its page.
""".strip()
SCRIPTS = """
## Measured by scripts of their own

- [What each piece of the craft is worth](craft.md): only the means of its runs were kept, so a study could not work out
  their intervals again.
- [What a rate makes an encoder forget](forgetting.md): curves over one training, which a study, whose figures are of
  ended runs, has no place for.
- [Every task beside a peer](tasks.md): kept without the scores of test rows, with a peer for each task.
""".strip()


def names() -> list[str]:
    """All studies of the repository."""
    return sorted(path.parent.name for path in (ROOT / "studies").glob(f"*/{FILE}"))


def encoder(study: Study) -> str:
    """The folder of the encoder that a study names."""
    model = str(study.recipe.get("model", next(iter(ENCODERS))))
    return weights(ENCODERS[model]) if model in ENCODERS else model


def sets_of(name: str) -> list[str]:
    """The sets and corpora that the files of a study name."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "studies" / name).rglob("*.yaml")))
    return sorted({*re.findall(r"([\w-]+)-train\.(?:csv|jsonl)", text), *re.findall(r"(corpus-\w+)\.jsonl", text)})


def measure(name: str, options: list[str]) -> None:
    """Measure a study, or what the options leave of it."""
    command = [sys.executable, "-m", "warmstart.cli.main", "study", name, "--model", encoder(load_study(name)[0])]
    subprocess.run([*command, *options], check=True)


def kept(study: Study, folder: Path, model: str) -> dict[Cell, list[KeptResult]]:
    """The figures that are there of a study with an encoder."""
    return StudyRunner(study, folder, model, Path(".cache") / "studies" / folder.name).results(StudyPart())


def verdicts(name: str, write: bool) -> tuple[Study, list[Verdict]]:
    """What became of the claims of a study, from the figures that are kept; writes its page where that is asked for."""
    study, folder = load_study(name)
    results: dict[Cell, list[KeptResult]] = {}
    others: dict[str, dict[Cell, list[KeptResult]]] = {}
    if (folder / "figures").is_dir():
        prepare.main(sets_of(name))
        own = encoder(study)
        results = kept(study, folder, own)
        measured = {path.name for path in (folder / "figures").iterdir()} - {Path(own).name}
        others = {other: kept(study, folder, weights(other)) for other in sorted(measured) if write}
    if write:
        page, command = RESULTS / f"{name}.md", f"make results-study STUDY={name}"
        write_study_page(study, folder, results, page, command, others)
    return study, judge(study, results)


def summary(judged: dict[str, tuple[Study, list[Verdict]]]) -> str:
    """One row a claim."""
    words = [verdict.word for _, each in judged.values() for verdict in each]
    counts = ", ".join(f"{words.count(word)} {word}" for word in WORDS)
    lines = ["# What held up", "", INTRO, "", f"{len(words)} claims: {counts}.", "", "| study | claim | verdict |"]
    lines.append("| --- | --- | --- |")
    for name, (_, each) in judged.items():
        lines += [f"| [{name}]({name}.md) | {verdict.claim.says} | {verdict.word} |" for verdict in each]
    return "\n".join([*lines, "", SCRIPTS, ""])


def main() -> None:
    """Measure the studies that are named, or all; then write the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="studies (default all)")
    args, options = parser.parse_known_args()
    os.chdir(ROOT)  # studies are known by their name there
    if unknown := sorted(set(args.names) - set(names())):
        sys.exit(f"no study is called {unknown[0]!r}; there are: {', '.join(names())}")
    asked = args.names or names()
    if "--no-train" not in options:
        for name in asked:
            prepare.main(sets_of(name))
            measure(name, options)
    write_text(RESULTS / "studies.md", summary({name: verdicts(name, name in asked) for name in names()}))


if __name__ == "__main__":
    main()
