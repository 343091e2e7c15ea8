"""The command line of the benchmarks."""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    ablation,
    accelerator,
    curves,
    demo,
    loop,
    loop_cases,
    neighbours,
    numbers,
    online,
    oracle,
    predictions,
    results,
    samples,
    search,
    simulated,
    stages,
    why,
)  # fmt: skip
from benchmarks.catalogue import (
    NUMBERS_WORKLOADS,
    PREDICTED_WORKLOADS,
    QUICK_NUMBERS_NAMES,
    QUICK_SEARCH_NAMES,
    SEARCH_WORKLOADS,
)  # fmt: skip
from benchmarks.causes import CASES
from benchmarks.methods import METHODS

# Defaults, without and with --quick.
_DEFAULTS: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    "numbers": {
        "repeats": (3, 1), "only": ((), QUICK_NUMBERS_NAMES), "least_s": (1.0, 0.3), "limit_s": (2.0, 1.0),
        "beside": ((*neighbours.KINDS,), ("quiet",)),
    },
    "search": {
        "repeats": (5, 1), "only": ((), QUICK_SEARCH_NAMES), "methods": (METHODS, METHODS), "least_s": (2.0, 1.0),
        "limit_s": (8.0, 3.0),
    },
    "predictions": {"only": ((), QUICK_SEARCH_NAMES), "settings": (10, 3), "least_s": (1.0, 0.0)},
    "online": {"only": ((), ("waits",)), "repeats": (3, 1)},
}  # fmt: skip


_WITHOUT_RESULTS = ("ablation",)
_RUNS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "numbers": lambda options: numbers.run(numbers.Options(**options)),
    "search": lambda options: search.run(search.Options(**options)),
    "predictions": lambda options: predictions.run(predictions.Options(**options)),
    "online": lambda options: online.run(online.Options(**options)),
}


_OTHERS: Mapping[str, Callable[..., None]] = {
    "ablation": ablation.run,
    "accelerator": accelerator.run,
    "stages": stages.run,
    "why": why.run,
    "samples": samples.run,
    "demo": demo.run,
    "loop": loop.run,
    "simulated": simulated.run,
}


def main(arguments: Sequence[str]) -> int:
    """Runs a benchmark; exit status 0, 2 for an invalid command line, 130 if
    interrupted."""
    parser = _parser()
    options = vars(parser.parse_args(arguments)) | {
        "command": shlex.join(["scripts/benchmark", *arguments])
    }
    name = options.pop("benchmark")
    for key, by_quick in _DEFAULTS.get(name, {}).items():
        options[key] = options.get(key) or by_quick[options["quick"]]
    try:
        if name in _RUNS:
            del options["quick"]
            _RUNS[name](options)
        else:
            _OTHERS[name](**options)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("interrupted: --resume continues", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark", description="Benchmarks of nws_sweep."
    )
    benchmarks = parser.add_subparsers(dest="benchmark", required=True)

    def add(
        name: str, about: str, epilog: str | None = None
    ) -> argparse.ArgumentParser:
        command = benchmarks.add_parser(name, help=about, epilog=epilog)
        if name not in _WITHOUT_RESULTS:
            folder = results.FOLDER / name
            about = f"folder of the results (default {folder})"
            _add(command, "--output", about, type=Path, default=folder)
        if name in _DEFAULTS:
            path = Path(f"outputs/benchmarks/{name}.jsonl")
            _add(
                command,
                "--journal",
                f"raw figures, written while measuring (default {path})",
                type=Path,
                default=path,
            )
            command.add_argument(
                "--resume",
                action="store_true",
                help="keep the journal's figures and add missing ones",
            )
            command.add_argument(
                "--quick",
                action="store_true",
                help="one repeat of few workloads or short epochs",
            )
        return command

    command = add(
        "numbers",
        "compare rows, answers and costs of searches with bare loops",
        _epilog("workloads", NUMBERS_WORKLOADS),
    )
    _add(command, "--repeats", "default 3, with --quick 1", type=_positive)
    _add_names(
        command, "--only", [workload.name for workload in NUMBERS_WORKLOADS],
        f"all, with --quick {' '.join(QUICK_NUMBERS_NAMES)}",
    )  # fmt: skip
    _add_names(
        command,
        "--beside",
        neighbours.KINDS,
        f"all, with --quick quiet: {' '.join(neighbours.KINDS)}",
    )

    command = add(
        "search",
        "compare search methods for num_workers",
        _epilog("workloads", SEARCH_WORKLOADS),
    )
    _add(command, "--repeats", "default 5, with --quick 1", type=_positive)
    few = f"all, with --quick {' '.join(QUICK_SEARCH_NAMES)}"
    _add_names(command, "--only", [workload.name for workload in SEARCH_WORKLOADS], few)
    _add_names(command, "--methods", METHODS, f"all: {' '.join(METHODS)}")
    usual = ",".join(map(str, oracle.CANDIDATES))
    about = f"num_workers of the oracle besides the picks; above 32 only where loading waits (default {usual})"
    _add(command, "--candidates", about, type=_numbers, default=oracle.CANDIDATES)
    about = "folder with the source tree of another version, as made by git worktree add; named after the folder"
    _add(command, "--against", about, type=Path, metavar="DIR")
    about = "of the oracle in each repeat (default 2); 0 compares costs only"
    _add(
        command, "--passes", about, type=int, choices=range(100), metavar="N", default=2
    )

    command = add(
        "predictions",
        "compare predicted epochs with those of a plain loop",
        _epilog("workloads", PREDICTED_WORKLOADS),
    )
    _add(command, "--repeats", "default 1", type=_positive, default=1)
    _add(
        command,
        "--settings",
        "of each workload, default 10, with --quick 3",
        type=_positive,
    )
    _add_names(
        command, "--only", [workload.name for workload in PREDICTED_WORKLOADS], few
    )

    command = add(
        "online",
        "training runs whose loader tunes itself",
        _epilog("training runs", online.CASES),
    )
    _add(command, "--repeats", "default 3, with --quick 1", type=_positive)
    _add_names(
        command,
        "--only",
        [case.name for case in online.CASES],
        "all, with --quick waits",
    )

    command = add(
        "why", "diagnose workloads whose bottleneck is known", _epilog("cases", CASES)
    )
    _add(command, "--repeats", "default 1", type=_positive, default=1)
    _add_names(command, "--only", [case.name for case in CASES], "all")

    command = add("accelerator", "search, watch and tune training on a CUDA device")
    _add(command, "--repeats", "default 3", type=_positive, default=3)
    _add_names(command, "--only", accelerator.CASES, "all")

    _add_planted(add)
    _add_simulated(add)

    command = add("demo", "run scripts/demo, and keep its tables, picture and report")
    _add(command, "--repeats", "default 3", type=_positive, default=3)

    command = add("samples", "cost of comparing the samples of workers during a search")
    _add(
        command,
        "--rounds",
        "pairs of searches of each workload (default 7)",
        type=_positive,
        default=7,
    )
    _add_names(command, "--only", samples.NAMES, f"all: {' '.join(samples.NAMES)}")
    return parser


def _add_planted(add: Callable[..., argparse.ArgumentParser]) -> None:
    stages_parser = add("stages", "explain datasets with a planted stage")
    _add(stages_parser, "--repeats", "default 3", type=_positive, default=3)
    _add_names(stages_parser, "--only", stages.STAGES, "all")
    loop_parser = add(
        "loop",
        "watch programs with known causes of slow training, beside TraceML",
        _epilog("programs", loop_cases.CASES),
    )
    _add(loop_parser, "--repeats", "default 1", type=_positive, default=1)
    _add(
        loop_parser,
        "--rounds",
        "pairs of runs for the overhead (default 5)",
        type=_positive,
        default=5,
    )
    quick = f"all, with --quick {' '.join(loop_cases.QUICK)}"
    _add_names(loop_parser, "--only", [case.name for case in loop_cases.CASES], quick)
    loop_parser.add_argument(
        "--quick",
        action="store_true",
        help="few programs, and one pair of runs for the overhead",
    )


def _add_simulated(add: Callable[..., argparse.ArgumentParser]) -> None:
    simulated_parser = add(
        "simulated",
        "whole searches on simulated machines",
        _epilog("curves", curves.CURVES),
    )
    about = "searches of each curve and machine (default 20)"
    _add(simulated_parser, "--repeats", about, type=_positive, default=20)
    _add_names(
        simulated_parser, "--only", [curve.name for curve in curves.CURVES], "all"
    )
    _add(
        simulated_parser,
        "--jobs",
        "processes that simulate (default 1)",
        type=_positive,
        default=1,
    )
    about = "print what gets worse in simulated searches without each named number"
    ablation_parser = add("ablation", about, _epilog("curves", curves.CURVES))
    _add(
        ablation_parser,
        "--repeats",
        "searches of each curve and machine (default 2)",
        type=_positive,
        default=2,
    )
    quick = ", ".join(ablation.QUICK)
    _add_names(
        ablation_parser,
        "--only",
        [curve.name for curve in curves.CURVES],
        quick.replace("%", "%%"),
    )
    _add(
        ablation_parser,
        "--names",
        "of the numbers (default all)",
        nargs="+",
        action="extend",
        default=[],
    )
    _add(
        ablation_parser,
        "--jobs",
        "processes that simulate (default 1)",
        type=_positive,
        default=1,
    )


def _add(parser: argparse.ArgumentParser, name: str, about: str, **how: Any) -> None:
    parser.add_argument(name, help=about, **how)


def _add_names(
    parser: argparse.ArgumentParser, name: str, names: Iterable[str], default: str
) -> None:
    metavar = {"--methods": "METHOD", "--beside": "NEIGHBOUR"}.get(name, "NAME")
    parser.add_argument(
        name,
        nargs="+",
        action="extend",
        choices=names,
        metavar=metavar,
        default=[],
        help=f"default {default}",
    )


def _epilog(what: str, named: Iterable[Any]) -> str:
    return f"{what}: " + "; ".join(f"{item.name} ({item.about})" for item in named)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be an integer of at least 1")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be integers of at least 0, as in 0,1,2"
        )
    return tuple(sorted({int(part) for part in parts}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
