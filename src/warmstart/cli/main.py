"""The `warmstart` command: its verbs, its error messages and its exit codes."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from warmstart.cli import synonyms
from warmstart.cli.system_faults import system_fault
from warmstart.errors import RecipeError, WarmstartError, nearest, redact

INTERRUPTED = 130
UNEXPECTED = 70
URI = re.compile(r"[A-Za-z][\w+.-]+:/")
"""How a URI begins: with a scheme of two letters at least, since one is a drive of Windows."""

VERBS = {
    "fit": "Train a model from a recipe or on a data file, and evaluate it on held-out rows.",
    "plan": "Estimate the time, memory and cost of a recipe before running it.",
    "check": "Check data for problems, and report each with its file and line.",
    "predict": "Predict on texts, on a file of texts or, with Ray, on a whole corpus.",
    "serve": "Serve models over HTTP.",
    "evaluate": "Evaluate a run on a labelled file, or again on its own test rows.",
    "compare": "Compare runs: whether and by how much they differ, and how certain that is.",
    "diagnose": "Analyse the errors of a run: confusions, slices, calibration, thresholds and label errors.",
    "ask": "Choose which unlabelled rows to label next, or simulate whether choosing them pays.",
    "shrink": "Make a smaller model from a run, of fewer blocks and tokens, kept only if it passes a gate.",
    "inspect": "Look inside a model: heads and layers off, attention, probes, and explanations that are tested.",
    "export": "Export a run's model to ONNX, checked on the run's test rows.",
    "features": "Extract an embedding of each text in a file, from any layer of an encoder.",
    "stages": "List the cached stages, explain why those of a recipe are not cached, or remove some.",
    "sweep": "Search the hyperparameters of a recipe by the score on its dev rows, or show a search.",
    "scout": "Compare encoders on your data, each by a linear probe that takes seconds.",
    "study": "Measure methods beside each other, over sets, sizes and seeds, and write a page about it.",
    "report": "Write the report of a run, as one HTML file, and its model card.",
    "show": "Show a run, or the layers of a model.",
    "verify": "Read a finished run, stage or labelled corpus again, and name every file that is not as it was written.",
    "import": "Turn a checkpoint of BERT that TensorFlow wrote into a folder that opens in transformers.",
    "doctor": "Show versions, hardware and missing packages, and warn of known problems.",
}
"""Each verb is the file of its name in this folder; its help is here, so that `--help` need not import it."""


MARKUP: Literal["markdown"] = "markdown"
"""In rich's own markup, the field in brackets behind an option's help would be a style, and vanish."""


class _Verbs(TyperGroup):
    """The verbs, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, name: str) -> Any:
        return TyperCommand(name, help=VERBS[name]) if name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in synonyms.VERBS:
            ctx.fail(f"No such command {args[0]!r}; it is called {synonyms.VERBS[args[0]]} here.")
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}; {nearest(args[0], VERBS)}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_verb(name) if name and command else None, rest


class _Verb(TyperCommand):
    """A verb, which answers an option of another library with the name it has here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)  # what click's `NoSuchOption` has
            here = synonyms.option_here(self, option) if option else None
            if here:
                ctx.fail(f"No such option: {option}; it is called {here} here.")
            raise
        out = ctx.params.get("out")
        if self.name != "verify" and out and URI.match(str(out)) and not ctx.params.get("ray"):
            # Else a folder of that name would be made here, credentials included.
            raise RecipeError(f"--out {out}: is a URI, which only `predict --ray` writes to; give a path")
        return rest


def load_verb(name: str) -> Any:
    """The command of a verb, with its options."""
    verb = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=MARKUP)
    command = importlib.import_module(f"warmstart.cli.{name}").command
    verb.command(name, cls=_Verb, help=VERBS[name], epilog=_plugins())(command)
    return typer.main.get_command(verb)


def _plugins() -> str | None:
    """What installed packages add, for the end of a verb's help."""
    from warmstart.runtime import plugins

    names = ", ".join(f"{plugin.kind} {plugin.name}" for plugin in plugins.added())
    return f"Added by other packages: {names}; `warmstart show --plugins` says by which." if names else None


app = typer.Typer(
    name="warmstart",
    cls=_Verbs,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from warmstart import __version__

        typer.echo(f"warmstart {__version__}")
        raise typer.Exit


@app.callback(
    no_args_is_help=True,
    epilog=(
        "Exit codes: 0 success, 2 wrong usage, 3 recipe, 4 data, 5 model, 6 run folder, 7 missing package, "
        "8 training, 9 disk, 10 plugin, 11 Ray, 12 locale, 70 a bug in warmstart, "
        "74 outage (the same command resumes), 75 stopped and saved (the same command resumes), 130 interrupted."
    ),
)
def _about(
    version: Annotated[  # its callback prints it
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turn a pretrained language encoder and labelled text into a small, fast, well-measured model."""


def main() -> None:
    """Run the command line; our own errors are printed without a traceback."""
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
            typer.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)
            sys.exit(UNEXPECTED)
        if (fault := system_fault(error)) is not None:
            _complain(str(fault))
            sys.exit(fault.exit_code)
        reason = " ".join(redact(str(error)).split())[:400]
        _complain(
            f"{type(error).__name__}: {reason}\nThis is a bug in warmstart. "
            "Set WARMSTART_TRACEBACK=1 and run the command again for the traceback, and please report it."
        )
        sys.exit(UNEXPECTED)


def _complain(message: str) -> None:
    # A name in someone else's file may contain escape sequences, or characters that the terminal cannot show.
    plain = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in message)
    typer.secho("warmstart: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(plain, err=True)


def _no_noise() -> None:
    """Before any library is imported: no telemetry, no progress bars but ours, no chatter."""
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
