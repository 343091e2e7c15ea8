"""``nws-sweep autotune``, ``explain``, ``search`` and ``watch``: an unchanged program,
with a hook."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nws_sweep import verbosity
from nws_sweep.analysis.summary import summarise_record
from nws_sweep.config.options import (
    OptionParser,
    not_a_program,
    not_empty,
    of_number,
)
from nws_sweep.config.schema import is_seconds
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.programs import script
from nws_sweep.programs.program_hook import ProgramHook, Reporting
from nws_sweep.programs.reports import is_first_rank, report
from nws_sweep.programs.search_hook import SearchHook
from nws_sweep.programs.tuning_hook import TuningHook
from nws_sweep.records import SearchRecord, storage
from nws_sweep.report import command_text, explanation, formats
from nws_sweep.report.progress import printer_for
from nws_sweep.report.search_result import SearchResult

_ABOUT = {
    "autotune": "Runs an unchanged program, and tunes num_workers of its training DataLoader in the first epoch.",
    "explain": "Searches like the command search, and says which functions make a sample expensive.",
    "search": "Runs a program until training begins, searches the settings of its DataLoader, and ends.",
    "watch": "Runs an unchanged program, and says where the time of its training goes.",
}
_WRONG_USAGE = 2
_print = printer_for(True)  # on standard error


def run(arguments: Sequence[str]) -> int:
    """Runs a command of ``programs.COMMANDS``; exceptions and the exit status of the
    program leave it as exceptions.

    A search that has not begun is an error, though the program has ended without one.

    Args:
        arguments: The command, its options, the program and the program's arguments.
    """
    name, *rest = arguments
    parser = parser_of(name)
    try:
        options = parser.parse_args(rest)
        verbosity.check()
        if not options.program:
            raise ConfigurationError(
                f"{name}: name a program, as in nws-sweep {name} train.py ARGUMENTS"
            )
        if not options.module and (wrong := not_a_program(options.program)):
            raise ConfigurationError(wrong)
        program_of = script.of_module if options.module else script.of_file
        program = program_of(options.program[0])
        hook = _hook(name, options)
    except NwsSweepError as error:
        _print(str(error))
        return _WRONG_USAGE
    script.after_torch(hook.start)
    try:
        program.run(options.program[1:])
    except BaseException as error:
        status = error.code if isinstance(error, SystemExit) else 1
        if status:
            hook.reason_for_none = _failure(error)
        if status == _WRONG_USAGE:
            _blame_order(hook, parser, options.program[1:])
        has_failed_search = hook.ending is not None or (not status and hook.status)
        if not has_failed_search:
            raise
    finally:
        hook.end(program.name)
    return hook.status


def _failure(error: BaseException) -> str:
    """Says how a program failed; its own lines say why."""
    if not isinstance(error, SystemExit):
        return f"it raised {type(error).__name__}"
    return f"its exit status was {error.code if isinstance(error.code, int) else 1}"


def _blame_order(
    hook: ProgramHook, parser: OptionParser, arguments: Sequence[str]
) -> None:
    """Has the hook say that options of ours stand before a program, which has refused
    its arguments."""
    for argument in arguments:
        if parser.has(argument.partition("=")[0]):
            hook.reason_for_none = (
                f"options of nws-sweep, such as {argument}, stand before the program"
            )


def parser_of(command: str) -> OptionParser:
    """Makes the parser of a command of ``programs.COMMANDS``."""
    parser = OptionParser(
        f"nws-sweep {command}",
        unknown="--help lists the options; options of a program stand behind the program",
        description=_ABOUT[command],
        allow_abbrev=False,
    )
    parser.add_argument(
        "--loader",
        type=_loader,
        metavar="NUMBER|CLASS",
        help="which DataLoader: its number in the order of first iteration, or the class of its dataset (default: the "
        "training DataLoader, with random order and gradients enabled)",
    )
    for name, keywords in _OPTIONS[command].items():
        parser.add_argument(
            f"--{name.removesuffix('_s').replace('_', '-')}", dest=name, **keywords
        )
    parser.add_argument(
        "-m",
        dest="module",
        action="store_true",
        help="the program is a module, as for python -m",
    )
    usage = "train.py or, after -m, a module; then its arguments"
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help=usage
    )
    return parser


def _loader(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else not_empty(text)


def _numbers(text: str) -> list[int]:
    try:
        return command_text.numbers("num_workers", text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


_SECONDS = of_number(float, "seconds of at least 0, without a unit", is_seconds)
_MOST: Mapping[str, Any] = {
    "type": of_number(int, "an integer, such as 8"),
    "metavar": "N",
    "help": "maximum number of workers",
}
_OF_SEARCH: Mapping[str, Mapping[str, Any]] = {
    "num_workers": {
        "type": _numbers,
        "metavar": "LIST",
        "help": "the numbers to measure, such as 0,4,8 or 0..16",
    },
    "max_workers": _MOST,
    "training_step": {
        "type": _SECONDS,
        "metavar": "SECONDS",
        "help": "of a step, per batch (default: none)",
    },
    "time_limit_s": {
        "type": of_number(
            float,
            "seconds above 0, without a unit",
            lambda limit_s: limit_s > 0 and is_seconds(limit_s),
        ),
        "metavar": "SECONDS",
        "help": "of the search (default: 60)",
    },
}
_OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "autotune": {
        "max_workers": _MOST,
        "reuse": {
            "type": not_empty,
            "help": "begin with an earlier answer: fresh (default), always or never",
        },
        "once": {
            "action": "store_true",
            "help": "decide once, even if the settings no longer fit later",
        },
    },
    "explain": _OF_SEARCH,
    "search": _OF_SEARCH,
    "watch": {},
}


def _hook(command: str, options: argparse.Namespace) -> ProgramHook:
    keywords = {}
    for name in _OPTIONS[command]:
        value = getattr(options, name)
        if value is not None:
            keywords[name] = value
    reporting = Reporting(
        announce=_announce, warn=_announce, progress=None, option="--loader "
    )
    if command not in {"explain", "search"}:
        return TuningHook(
            reporting, options.loader, watches=command == "watch", **keywords
        )
    program = options.program[0]
    name = program.rpartition(".")[2] if options.module else Path(program).stem
    # the program may change the working folder
    output = storage.output_folder().absolute()
    explains = command == "explain"
    keep = partial(_keep, output=output, name=name, explains=explains)
    return SearchHook(
        replace(reporting, keep=keep, is_printed=not explains),
        options.loader,
        reuse="never",
        **keywords,
    )


def _announce(line: str) -> None:
    if is_first_rank():
        _print(line)


def _keep(record: SearchRecord, output: Path, name: str, *, explains: bool) -> int:
    """Writes the files of a search and its report, and prints its table or, if it
    ``explains``, the table of stages.

    Returns the exit status: 1 if a candidate failed, or no calls were timed.
    """
    if not is_first_rank():
        return 0
    folder = storage.new_folder("runs", f"_{name}", output)
    storage.save(folder, record)
    status = report(folder, prints=not explains)
    if explains:
        try:
            print(explanation.of_record(record))
        except NwsSweepError as error:
            _print(str(error))
            status = 1
        if not verbosity.is_quiet():
            _print(f"report {folder / 'report.html'}")
    if formats.is_too_early(summarise_record(record).configurations[0]):
        _print(formats.TOO_EARLY)
    elif not verbosity.is_quiet():
        kwargs = formats.kwargs(SearchResult(record).loader_kwargs)
        _print(f"DataLoader(..., {kwargs})")
    return status
