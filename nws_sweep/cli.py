"""The command line: a sweep (by Hydra) or one of ``COMMANDS``, and the exit status."""

import itertools
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nws_sweep import __version__, programs, verbosity
from nws_sweep.config.options import (
    OptionParser,
    no_such_command,
    not_empty,
    of_number,
)
from nws_sweep.errors import (
    INTERRUPTED,
    ConfigurationError,
    NwsSweepError,
    one_line,
    printable,
)
from nws_sweep.records import shown, storage, varying_columns
from nws_sweep.system import streams

if TYPE_CHECKING:
    from nws_sweep.analysis.summary import ConfigurationSummary, Summary
    from nws_sweep.records.storage import Stored, StoredRun

WRONG_USAGE = 2
BROKEN_PIPE = 141  # as of a program killed by SIGPIPE
# Python's notation: that of the command line
_AS_TYPED = {"True": "true", "False": "false", "None": "null"}


def main() -> None:
    """Entry point of ``python -m nws_sweep`` and ``nws-sweep``."""
    arguments = verbosity.take_leading_flags(sys.argv[1:])
    # the program owns its streams and exceptions
    if programs.are_asked_for(arguments):
        from nws_sweep.programs import command

        sys.exit(command.run(arguments))
    streams.prepare()
    if Path(sys.argv[0]).name == "__main__.py":
        sys.argv[0] = "nws_sweep"  # the name that argparse shows
    sys.exit(run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit status; prints an error as one line on
    standard error."""
    try:
        status = _command(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # such as a pipe into head
        streams.silence_output()
        return BROKEN_PIPE
    except (NwsSweepError, OSError) as error:
        _note(f"nws_sweep: {error}")
        return WRONG_USAGE
    except KeyboardInterrupt as stop:
        return int(getattr(stop, "status", INTERRUPTED))


def _command(arguments: Sequence[str]) -> int:
    verbosity.check()
    if not arguments:
        return help_([])
    if arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    # Hydra's overrides have an equals sign, or begin with ~; its flags with a hyphen.
    if "=" not in arguments[0] and not arguments[0].startswith(("-", "~")):
        wrong = no_such_command(arguments, COMMANDS, programs.COMMANDS)
        raise ConfigurationError(one_line(wrong))
    if arguments in (["-m"], ["--multirun"]):
        raise ConfigurationError(
            f"{arguments[0]}: a grid needs several values, as in nws-sweep -m batch_size=64,256"
        )
    return sweep(arguments)


def _show(text: str) -> None:
    """Prints what was asked for, which may contain names and reasons of others."""
    print(printable(text), end="", flush=True)


def _note(line: str) -> None:
    print(printable(line), file=sys.stderr)


def sweep(arguments: Sequence[str]) -> int:
    """Measures one configuration or a grid, by Hydra's command line."""
    show_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    arguments = verbosity.take_flags(arguments)
    _prepare_for_hydra(arguments)
    from nws_sweep.config.hydra_errors import explain, require_flags
    from nws_sweep.hydra_app import app

    require_flags(arguments, {*COMMANDS, *programs.COMMANDS})
    try:
        return app.run()
    except SystemExit as stop:
        if not isinstance(stop.code, Exception):
            raise
        error: Exception = stop.code  # set by the callback
    except Exception as raised:
        error = raised
    if show_traceback or isinstance(error, NwsSweepError):
        raise error
    raise explain(error, arguments) from error


def _prepare_for_hydra(arguments: Sequence[str]) -> None:
    """Sets what Hydra reads: the command line, where modules are found, and how errors
    are passed on."""
    # a console script; ``python -m`` adds it
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    from nws_sweep.config.schema import hydra_arguments

    sys.argv[1:] = itertools.chain.from_iterable(map(hydra_arguments, arguments))
    # errors of writing a log, such as a full disk, are not printed
    logging.raiseExceptions = False
    # else Hydra prints its errors in several lines, with exit status 1
    os.environ["HYDRA_FULL_ERROR"] = "1"


def _parser(
    command: Callable[..., int], *folders: str, selects: bool = False
) -> OptionParser:
    parser = OptionParser(f"nws_sweep {command.__name__}", description=command.__doc__)
    meaning = "a folder of outputs/runs or outputs/sweeps"
    if folders == ("DIR",):
        meaning += " (default: the newest)"
        parser.add_argument(
            "dir",
            metavar="DIR",
            help=meaning,
            nargs="?",
            type=_folder_or_newest,
            default="",
        )
    else:
        for name in folders:
            parser.add_argument(name.lower(), metavar=name, help=meaning, type=Path)
    if selects:
        meaning = "only configurations with this value, such as batch_size=64; may be repeated"
        parser.add_argument(
            "--where", action="append", default=[], metavar="KEY=VALUE", help=meaning
        )
    return parser


def _folder_or_newest(text: str) -> Path:
    if text:
        return Path(text)
    folder = storage.newest()
    if not verbosity.is_quiet():
        _note(f"nws_sweep: {folder}")
    return folder


def report(arguments: Sequence[str]) -> int:
    """Rebuilds the report of a run or a grid, interrupted or not."""
    options = _parser(report, "DIR").parse_args(arguments)
    from nws_sweep.hydra_app.terminal import View
    from nws_sweep.report.writer import write

    summary, written = write(options.dir)
    View().conclude(summary, written)
    return 0 if summary.succeeded else 1


def best(arguments: Sequence[str]) -> int:
    """Prints the best settings of each configuration, ready to paste; notes go to
    standard error."""
    from nws_sweep.report.formats import FORMATS, render

    parser = _parser(best, "DIR", selects=True)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table (the default), overrides (of Hydra, ++num_workers=4), kwargs (of DataLoader), lightning (arguments "
        "of LightningCLI, --data.num_workers=4), transformers (keywords of TrainingArguments), yaml, json; table, yaml "
        "and json show all configurations of a grid, the others the fastest, or the one chosen by --where",
    )
    parser.add_argument(
        "--key",
        type=not_empty,
        help="the node of the settings in your program's configuration: with --key data the overrides are "
        "++data.num_workers=4, LightningCLI's arguments --data.num_workers=4 (the default), and Hydra composes the "
        "YAML under data",
    )
    options = parser.parse_args(arguments)
    summary = _summary(options.dir, options.where)
    rendered = render(summary, options.format, options.key)
    _show(rendered.text)
    for line in rendered.comments:
        _note(f"# {line}")
    has_all = all(configuration.answer for configuration in summary.configurations)
    return 0 if rendered.text and has_all else 1


def compare(arguments: Sequence[str]) -> int:
    """Compares two runs or grids by the times of each configuration's best settings, B
    / A."""
    from nws_sweep.analysis import comparing

    parser = _parser(compare, "A", "B", selects=True)
    parser.add_argument(
        "--within",
        metavar="PERCENT",
        type=of_number(
            float, "a number above 0, such as 5", lambda n: 0 < n < math.inf
        ),
        default=5.0,
        help="largest difference of times that counts as the same, in percent above 0 (default: %(default)g)",
    )
    parser.add_argument(
        "--fail-if",
        choices=comparing.ALARMS,
        help="exit status 1 if any configuration of B is slower, faster or changed; slower and changed include a "
        "configuration that was measured in A but failed in B; inconclusive is neither",
    )
    options = parser.parse_args(arguments)
    from nws_sweep.report import command_text

    a, b = (
        _summary(folder, options.where, f"{folder}: ")
        for folder in (options.a, options.b)
    )
    comparison = comparing.compare(a, b, options.within / 100)
    _show(command_text.of_comparison(comparison))
    return 1 if options.fail_if and comparison.alarming(options.fail_if) else 0


def _summary(folder: Path, conditions: Sequence[str], where: str = "") -> "Summary":
    from nws_sweep.analysis.summary import summarise

    stored = storage.find(folder)
    try:
        return summarise(select(stored, conditions))
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}{error}") from None


def select(stored: "Stored", conditions: Sequence[str]) -> "Stored":
    """Selects the configurations that meet all conditions ``KEY=VALUE``; a single
    configuration is not a grid.

    ConfigurationError if a condition has another form, or no configuration meets it and
    the conditions before it.
    """
    if not conditions:
        return stored
    runs = list(stored.runs)
    for number, condition in enumerate(conditions, 1):
        key, equals, value = condition.partition("=")
        if not key or not equals:
            wrong = f"--where {condition}: must be KEY=VALUE, such as batch_size=64"
            raise ConfigurationError(one_line(wrong))
        wanted = _AS_TYPED.get(value, value)
        matching = [run for run in runs if _columns(run).get(key) == wanted]
        if not matching:
            raise _no_match(conditions[:number], runs)
        runs = matching
    axes: tuple[str, ...] = ()
    if stored.is_grid:
        axes = varying_columns([run.result.configuration for run in stored.runs])
    is_grid = stored.is_grid and len(runs) > 1
    return replace(stored, runs=tuple(runs), is_grid=is_grid, axes=axes)


def _columns(run: "StoredRun") -> dict[str, str]:
    """Writes the columns of a configuration as typed on the command line."""
    return {
        name: shown(value) for name, value in run.result.configuration.columns.items()
    }


def _no_match(
    conditions: Sequence[str], runs: Sequence["StoredRun"]
) -> ConfigurationError:
    values: dict[str, list[str]] = {}
    for run in runs:
        for name, value in _columns(run).items():
            values.setdefault(name, []).append(value)
    asked = " ".join(f"--where {condition}" for condition in conditions)
    allowed = []
    for name, texts in values.items():
        allowed.append(f"{name} ({', '.join(dict.fromkeys(texts))})")
    text = f"{asked}: no such combination; allowed: {', '.join(allowed)}"
    return ConfigurationError(one_line(text, 1000))


def explain(arguments: Sequence[str]) -> int:
    """Says which functions make a sample expensive, and predicts the epoch without
    each; measures nothing.

    With a program in place of DIR, as in nws-sweep explain train.py ARGUMENTS, it
    searches first.
    """
    options = _parser(explain, "DIR", selects=True).parse_args(arguments)
    from nws_sweep.report import explanation

    return _print_each(
        _summary(options.dir, options.where),
        lambda summary: f"{summary.heading}{explanation.of(summary)}\n",
    )


def predict(arguments: Sequence[str]) -> int:
    """Predicts other settings, CPUs and training steps from the recorded costs of
    batches; measures nothing."""
    parser = _parser(predict, "DIR", selects=True)
    parser.add_argument(
        "--cpus",
        metavar="N",
        type=of_number(float, "a number of CPUs, such as 16"),
        help="CPUs of the loader (default: those of the run, shared by its ranks)",
    )
    parser.add_argument(
        "--training-step",
        metavar="SECONDS",
        type=of_number(float, "seconds, without a unit"),
        help="of a training step, per batch, on an accelerator; 0 for none (default: the training step of the run)",
    )
    parser.add_argument(
        "--num-workers",
        metavar="LIST",
        default="0..64",
        help="such as 2,4,8 or 0..16 (default: %(default)s)",
    )
    parser.add_argument(
        "--prefetch-factor",
        type=not_empty,
        metavar="LIST",
        help="such as 2,4,8 (default: that of the best)",
    )
    help_ = "true, false or true,false (default: that of the best)"
    parser.add_argument("--in-order", type=not_empty, metavar="LIST", help=help_)
    options = parser.parse_args(arguments)
    from nws_sweep.report import command_text

    return _print_each(
        _summary(options.dir, options.where),
        partial(command_text.predictions, options=options),
    )


def _print_each(
    summary: "Summary", text: Callable[["ConfigurationSummary"], str]
) -> int:
    """Prints a text about each configuration as soon as it is there, then the reasons
    of configurations without one.

    The first reason is raised as an error if no configuration has a text.
    """
    printed, errors = 0, []
    for configuration in summary.configurations:
        try:
            paragraph = text(configuration)
        except NwsSweepError as error:
            errors.append(error)
        else:
            _show("\n" * bool(printed) + paragraph)
            printed += 1
    if not printed:
        raise errors[0]
    for missing in errors:
        _note(f"nws_sweep: {missing}")
    return 1 if errors else 0


def help_(arguments: Sequence[str]) -> int:
    """Prints the commands; --help, which is Hydra's, also prints every setting."""
    import yaml

    from nws_sweep.config.embedding import conf_folder

    file = conf_folder() / "hydra" / "help" / "nws_sweep.yaml"
    page = yaml.safe_load(file.read_text("utf-8"))
    commands = page["template"].partition("== Commands ==")[2].partition("== Groups")[0]
    _show(f"{page['header']}{commands}--help lists all settings\n")
    return 0


def version(arguments: Sequence[str]) -> int:
    """Prints the version of nws_sweep; Hydra's --version would print that of Hydra."""
    _show(f"nws_sweep {__version__}\n")
    return 0


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "report": report,
    "best": best,
    "compare": compare,
    "explain": explain,
    "predict": predict,
    "help": help_,
    "--version": version,
}
