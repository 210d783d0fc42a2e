"""The `warmstart` command: its verbs, its error messages and its exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from warmstart.errors import WarmstartError

INTERRUPTED = 130
UNEXPECTED = 70

VERBS = {
    "fit": "Train a model on a recipe or a data file, and measure it on held-out rows.",
    "plan": "Say what each stage of a recipe will cost, before it runs.",
    "check": "Say what is wrong with data, with file and line.",
    "predict": "Answer texts given here, or a file of them.",
    "serve": "Answer requests over HTTP.",
    "evaluate": "Measure a run on a labelled file, or once more on its own test rows.",
    "compare": "Say whether runs differ, by how much, and how sure that is.",
    "diagnose": "Say where a run errs, how far its probabilities can be believed, and which labels look wrong.",
    "export": "Write a run's model for another engine, checked on the run's test rows, or say how others serve it.",
    "features": "Write a vector for each text of a file, from any layer of an encoder.",
    "stages": "List the stages kept for all runs, say why a recipe's are not among them, or remove some.",
    "sweep": "Search fields of a recipe for what does best on the dev rows, or show a search.",
    "report": "Write a run's report, one HTML file, and its model card.",
    "show": "Show a run, or the layers of a model.",
    "doctor": "Show versions, hardware and what is missing, and warn of what is known to go wrong.",
}
"""Each verb is the file of its name in this folder; its help stands here, so that `--help` need not import it."""


class _Verbs(TyperGroup):
    """The verbs, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, name: str) -> Any:
        return TyperCommand(name, help=VERBS[name]) if name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        return name, load_verb(name) if name and found else None, rest


def load_verb(name: str) -> Any:
    """The command of a verb, with its options."""
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    one.command(name, help=VERBS[name])(importlib.import_module(f"warmstart.cli.{name}").command)
    return typer.main.get_command(one)


app = typer.Typer(
    name="warmstart",
    cls=_Verbs,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(
    no_args_is_help=True,
    epilog=(
        "Exit codes: 0 done, 2 wrong usage, 3 recipe, 4 data, 5 model, 6 run folder, 7 missing package, "
        "8 training, 9 disk, 70 a fault of ours, 75 stopped and saved: run it again to go on, 130 interrupted."
    ),
)
def _about() -> None:
    """Turn a pretrained language encoder and labelled text into a small, fast, well-measured model."""


def main() -> None:
    """Run the command line; errors of ours are printed without a traceback."""
    _no_noise()
    try:
        app()
    except WarmstartError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get("WARMSTART_TRACEBACK"):
            raise
        reason = " ".join(str(error).split())[:400]
        _complain(
            f"{type(error).__name__}: {reason}\nThis is a fault of warmstart's. "
            "Set WARMSTART_TRACEBACK=1 and run it again to see where, and please report it."
        )
        sys.exit(UNEXPECTED)


def _complain(message: str) -> None:
    # A name in a stranger's file may hold what a terminal obeys, or what no terminal can write.
    plain = "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in message)
    typer.secho("warmstart: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(plain, err=True)


def _no_noise() -> None:
    """Before any library is imported: no telemetry, no bars beside ours, no chatter."""
    for name, value in {
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # else pydantic searches every installed package for plugins
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
    }.items():
        os.environ.setdefault(name, value)


if __name__ == "__main__":
    main()
