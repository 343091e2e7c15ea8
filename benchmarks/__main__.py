"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import bias, contest, oracle, samples, why
from benchmarks.catalogue import (
    NAMES,
    QUICK_SEARCH_NAMES,
    SEARCH_NAMES,
    SEARCH_WORKLOADS,
    WORKLOADS,
    Workload,
)
from benchmarks.causes import CASES
from benchmarks.methods import METHODS

_WORKERS = (0, 1, 2, 4, 8)
_QUICK_WORKERS = (0, 2, 4)
_ROUNDS = 3
_LEAST_S, _QUICK_LEAST_S = 4.0, 1.0

_REPEATS = 5
_PASSES = 2
_SEARCH_LEAST_S, _QUICK_SEARCH_LEAST_S = 2.0, 1.0
_LIMIT_S, _QUICK_LIMIT_S = 8.0, 3.0


def main(arguments: Sequence[str]) -> int:
    """Runs a benchmark; the exit status is 0, or 2 for a wrong command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    start: Callable[[argparse.Namespace, Sequence[str]], None] = given.start
    try:
        start(given, arguments)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("interrupted: --resume goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/benchmark", description="Benchmarks of nws_sweep.")
    benchmarks = parser.add_subparsers(dest="benchmark", required=True)
    _add_bias(
        benchmarks.add_parser(
            "bias", help="compare nws_sweep's figures with those of a plain loop", epilog=_epilog(WORKLOADS)
        )
    )
    _add_search(
        benchmarks.add_parser("search", help="compare ways to find num_workers", epilog=_epilog(SEARCH_WORKLOADS))
    )
    _add_why(
        benchmarks.add_parser(
            "why",
            help="search workloads whose cause is known, and see whether it is found",
            epilog="cases: " + "; ".join(f"{case.name} ({case.about})" for case in CASES),
        )
    )
    _add_samples(benchmarks.add_parser("samples", help="what comparing samples of workers costs a search"))
    return parser


def _epilog(workloads: Sequence[Workload]) -> str:
    return "workloads: " + "; ".join(f"{workload.name} ({workload.about})" for workload in workloads)


def _add_bias(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(start=_start_bias)
    parser.add_argument("--rounds", type=_positive, help=f"default {_ROUNDS}, with --quick 1")
    parser.add_argument("--only", nargs="+", action="extend", choices=NAMES, metavar="WORKLOAD", help="default all")
    parser.add_argument("--workers", type=_numbers, help="default 0,1,2,4,8, with --quick 0,2,4")
    _add_files(parser, "bias")
    parser.add_argument("--resume", action="store_true", help="keep the rounds that the journal has")
    parser.add_argument("--quick", action="store_true", help="one round, short epochs: a first look")


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(start=_start_search)
    parser.add_argument("--repeats", type=_positive, help=f"default {_REPEATS}, with --quick 1")
    parser.add_argument(
        "--only", nargs="+", action="extend", choices=SEARCH_NAMES, metavar="WORKLOAD",
        help=f"default all, with --quick {' '.join(QUICK_SEARCH_NAMES)}",
    )  # fmt: skip
    parser.add_argument(
        "--methods", nargs="+", action="extend", choices=METHODS, metavar="METHOD",
        help=f"default all: {' '.join(METHODS)}",
    )  # fmt: skip
    parser.add_argument(
        "--candidates", type=_numbers, default=oracle.CANDIDATES,
        help="numbers of workers that the oracle measures besides all picks "
        f"(default {','.join(map(str, oracle.CANDIDATES))})",
    )  # fmt: skip
    parser.add_argument(
        "--passes", type=_positive, default=_PASSES, help=f"of the oracle in each repeat (default {_PASSES})"
    )
    _add_files(parser, "search")
    parser.add_argument(
        "--resume", action="store_true",
        help="keep what the journal has, and add what is missing: repeats, workloads, methods",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one repeat, few workloads, short runs: a first look")


def _add_why(parser: argparse.ArgumentParser) -> None:
    names = [case.name for case in CASES]
    parser.set_defaults(start=_start_why)
    parser.add_argument("--repeats", type=_positive, default=1, help="default 1")
    parser.add_argument("--only", nargs="+", action="extend", choices=names, metavar="CASE", help="default all")
    parser.add_argument("--output", type=Path, default=Path("docs/causes.md"), help="the page (default docs/causes.md)")


def _add_samples(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(start=_start_samples)
    parser.add_argument("--rounds", type=_positive, default=7, help="pairs of searches of each workload (default 7)")
    parser.add_argument(
        "--only", nargs="+", action="extend", choices=samples.NAMES, metavar="WORKLOAD",
        help=f"default all: {' '.join(samples.NAMES)}",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("docs/samples.md"), help="default docs/samples.md")


def _add_files(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "--output", type=Path, default=Path(f"docs/{name}.md"), help=f"the page (default docs/{name}.md)"
    )
    parser.add_argument(
        "--journal", type=Path, default=Path(f"outputs/benchmarks/{name}.jsonl"),
        help=f"raw figures, written as they are measured (default outputs/benchmarks/{name}.jsonl)",
    )  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed is a whole number from 1")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are whole numbers from 0, as in 0,1,2")
    return tuple(sorted({int(part) for part in parts}))


def _start_bias(given: argparse.Namespace, arguments: Sequence[str]) -> None:
    bias.run(
        bias.Options(
            rounds=given.rounds or (1 if given.quick else _ROUNDS),
            only=tuple(given.only or ()),
            workers=given.workers or (_QUICK_WORKERS if given.quick else _WORKERS),
            output=given.output,
            journal=given.journal,
            least_s=_QUICK_LEAST_S if given.quick else _LEAST_S,
            quick=given.quick,
            resume=given.resume,
            arguments=tuple(arguments),
        )
    )


def _start_search(given: argparse.Namespace, arguments: Sequence[str]) -> None:
    contest.run(
        contest.Options(
            repeats=given.repeats or (1 if given.quick else _REPEATS),
            only=tuple(given.only or ()),
            methods=tuple(dict.fromkeys(given.methods or METHODS)),
            candidates=given.candidates,
            passes=given.passes,
            output=given.output,
            journal=given.journal,
            least_s=_QUICK_SEARCH_LEAST_S if given.quick else _SEARCH_LEAST_S,
            limit_s=_QUICK_LIMIT_S if given.quick else _LIMIT_S,
            quick=given.quick,
            resume=given.resume,
            arguments=tuple(arguments),
        )
    )


def _start_why(given: argparse.Namespace, arguments: Sequence[str]) -> None:
    chosen = tuple(case for case in CASES if not given.only or case.name in given.only)
    why.run(chosen, given.repeats, given.output, tuple(arguments))


def _start_samples(given: argparse.Namespace, arguments: Sequence[str]) -> None:
    samples.run(tuple(given.only or samples.NAMES), given.rounds, given.output, tuple(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
