"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bias import Options, run
from benchmarks.catalogue import NAMES, WORKLOADS

_WORKERS = (0, 1, 2, 4, 8)
_QUICK_WORKERS = (0, 2, 4)
_ROUNDS = 3
_LEAST_S, _QUICK_LEAST_S = 4.0, 1.0


def main(arguments: Sequence[str]) -> int:
    """Runs a benchmark; the exit status is 0, or 2 for a wrong command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        run(_options(given, arguments))
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("interrupted: --resume goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/benchmark", description="Benchmarks of nws_sweep.")
    bias = parser.add_subparsers(dest="benchmark", required=True).add_parser(
        "bias",
        help="compare nws_sweep's figures with those of a plain loop",
        epilog="workloads: " + "; ".join(f"{workload.name} ({workload.about})" for workload in WORKLOADS),
    )
    bias.add_argument("--rounds", type=_positive, help=f"default {_ROUNDS}, with --quick 1")
    bias.add_argument("--only", nargs="+", action="extend", choices=NAMES, metavar="WORKLOAD", help="default all")
    bias.add_argument("--workers", type=_numbers, help="default 0,1,2,4,8, with --quick 0,2,4")
    bias.add_argument("--output", type=Path, default=Path("docs/bias.md"), help="the page (default docs/bias.md)")
    bias.add_argument(
        "--journal", type=Path, default=Path("outputs/benchmarks/bias.jsonl"),
        help="raw figures, written as they are measured (default outputs/benchmarks/bias.jsonl)",
    )  # fmt: skip
    bias.add_argument("--resume", action="store_true", help="keep the rounds that the journal has")
    bias.add_argument("--quick", action="store_true", help="one round, short epochs: a first look")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed is a whole number from 1")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are whole numbers from 0, as in 0,1,2")
    return tuple(sorted({int(part) for part in parts}))


def _options(given: argparse.Namespace, arguments: Sequence[str]) -> Options:
    return Options(
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
