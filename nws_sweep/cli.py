"""The command line: a sweep (Hydra's own) or one of ``COMMANDS``; and the exit status."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nws_sweep import __version__
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.system import streams

if TYPE_CHECKING:
    from nws_sweep.analysis.summary import Summary

WRONG_USAGE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE has killed

_WHERE_HELP = "only the configurations with this value, such as batch_size=64; may be given several times"


def main() -> None:
    """Entry point of ``python -m nws_sweep`` and ``nws-sweep``."""
    streams.prepare()
    if Path(sys.argv[0]).name == "__main__.py":
        sys.argv[0] = "nws_sweep"  # the name that argparse shows
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status; an error becomes one line on standard error."""
    command = COMMANDS.get(arguments[0]) if arguments else None
    try:
        status = command(arguments[1:]) if command else sweep(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # piped into head, say
        streams.silence_output()
        return BROKEN_PIPE
    except (NwsSweepError, OSError) as error:
        print(f"nws_sweep: {error}", file=sys.stderr)
        return WRONG_USAGE
    except KeyboardInterrupt as stop:
        return int(getattr(stop, "status", INTERRUPTED))


def sweep(arguments: Sequence[str]) -> int:
    """One configuration or a grid, by Hydra's command line."""
    _find_modules_here()
    from nws_sweep.config.schema import explain, with_quoted_overrides
    from nws_sweep.sweep import app

    sys.argv[1:] = map(with_quoted_overrides, arguments)  # which Hydra reads
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    logging.raiseExceptions = False  # a log that cannot be written, on a full disk say, is no matter for the terminal
    # Hydra would print its errors itself, in several lines and with exit status 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        return app.run()
    except SystemExit as stop:
        if not isinstance(stop.code, Exception):
            raise
        error: Exception = stop.code  # put there by the callback
    except Exception as raised:
        error = raised
    if wants_traceback or isinstance(error, NwsSweepError):
        raise error
    raise explain(error, arguments) from error


def _find_modules_here() -> None:
    """`python -m` looks for modules in the current folder first; the console script should find the same datasets."""
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _parser(command: Callable[..., int], *folders: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(f"nws_sweep {command.__name__}", description=command.__doc__)
    for name in folders:
        parser.add_argument(name.lower(), metavar=name, type=Path, help="a folder of outputs/runs or outputs/sweeps")
    return parser


def report(arguments: Sequence[str]) -> int:
    """Rebuilds the report of a run or a grid, also of an interrupted one."""
    options = _parser(report, "DIR").parse_args(arguments)
    from nws_sweep.report.writer import write
    from nws_sweep.sweep.terminal import View

    summary, written = write(options.dir)
    View().conclude(summary, written)
    return 0 if summary.succeeded else 1


def best(arguments: Sequence[str]) -> int:
    """Prints the best setting per configuration, ready to paste; what else there is to say goes to standard error."""
    from nws_sweep.report.snippets import FORMATS

    parser = _parser(best, "DIR")
    parser.add_argument(
        "--format", choices=FORMATS, default="table",
        help="table (the default), overrides (Hydra's, ++num_workers=4), kwargs (of DataLoader), lightning "
        "(LightningCLI's, --data.num_workers=4), transformers (keywords of TrainingArguments), yaml, json; of a grid "
        "table, yaml and json show all configurations, the others need one, by --where",
    )  # fmt: skip
    parser.add_argument(
        "--key",
        help="where the settings belong in the configuration that takes them: data makes the overrides "
        "++data.num_workers=4, of LightningCLI's arguments --data.num_workers=4 (as without it), and of the YAML a "
        "config that Hydra composes under data",
    )
    parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE", help=_WHERE_HELP)
    options = parser.parse_args(arguments)
    from nws_sweep.report.snippets import render

    summary = _summary(options.dir, options.where)
    rendered = render(summary, options.format, options.key)
    print(rendered.text, end="")
    for line in rendered.comments:
        print(f"# {line}", file=sys.stderr)
    return 0 if rendered.text and all(configuration.best for configuration in summary.configurations) else 1


def compare(arguments: Sequence[str]) -> int:
    """Compares two runs or grids: for each configuration the time of its best setting in B / that in A."""
    from nws_sweep.analysis.comparing import ALARMS

    parser = _parser(compare, "A", "B")
    parser.add_argument(
        "--within", metavar="PERCENT", type=_percent, default=5.0,
        help="by how much times may differ and still count as the same, in percent above 0 (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE", help=_WHERE_HELP)
    parser.add_argument(
        "--fail-if", choices=ALARMS,
        help="exit status 1 if any configuration is so in B; slower and changed is also one that could be measured in "
        "A but not in B, and what cannot be told is neither",
    )  # fmt: skip
    parser.add_argument("--html", metavar="FILE", type=Path, help="writes the comparison as a page, too")
    options = parser.parse_args(arguments)
    from nws_sweep.analysis import comparing
    from nws_sweep.report import comparison_text

    a, b = (_summary(folder, options.where, f"{folder}: ") for folder in (options.a, options.b))
    comparison = comparing.compare(a, b, options.within / 100)
    print(comparison_text.render(comparison), end="")
    if options.html:
        from nws_sweep.report import html
        from nws_sweep.results import atomic

        atomic.write_text(options.html, html.comparison(comparison))
        print(f"wrote {options.html}")
    return 1 if options.fail_if and comparison.alarming(options.fail_if) else 0


def _summary(folder: Path, conditions: Sequence[str], where: str = "") -> Summary:
    from nws_sweep.analysis.summary import distinguished, summarise
    from nws_sweep.results import selection, storage

    stored = distinguished(storage.find(folder))
    try:
        return summarise(selection.select(stored, conditions))
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}{error}") from None


def check(arguments: Sequence[str]) -> int:
    """Measures again what was found, and answers 1 if it is no longer so."""
    parser = _parser(check, "DIR")
    parser.add_argument(
        "--within", metavar="PERCENT", type=_percent, default=10.0,
        help="by how much the time of a batch may differ, in percent above 0 (default: %(default)g)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    _find_modules_here()
    from nws_sweep.report import snippets
    from nws_sweep.report.progress import printer_for
    from nws_sweep.sweep import recheck
    from nws_sweep.system import host_lock

    print_line, lock_file = printer_for(True), os.environ.get("NWS_SWEEP_LOCK_FILE", host_lock.DEFAULT)
    summary = _summary(options.dir, ())
    checks = recheck.checks(
        summary, options.within / 100, lambda chosen: recheck.measured(chosen, print_line, lock_file)
    )
    found = list(checks)
    print(snippets.markdown_table(*recheck.table(found)), end="")
    return 0 if all(check.holds for check in found) else 1


def _percent(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: allowed is a number above 0")
    return value


def version(arguments: Sequence[str]) -> int:
    """Prints the version of nws_sweep; Hydra's own --version would print Hydra's."""
    print(f"nws_sweep {__version__}")
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "report": report,
    "best": best,
    "compare": compare,
    "check": check,
    "--version": version,
}
