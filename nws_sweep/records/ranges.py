"""Ranges of values: types that reading a result checks, with the text that the
configuration's errors print.

``config.schema`` tests values of a configuration with the same types, so that a result
holds only what a configuration may hold.
"""

import sys
from numbers import Integral, Real
from typing import Annotated, get_args

import msgspec
from msgspec import Meta

# workers, batches ahead of each, and ranks, of one host: what predictions replay in
# seconds
MOST_WORKERS = 4096
MOST_CPUS, FEWEST_CPUS = 100_000, 0.01  # of predictions; a share of a CPU is a quota
STRATEGIES = ("adaptive", "patience", "exhaustive")
SEARCHABLE = (
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "multiprocessing_context",
    "in_order",
)
REUSES = ("never", "fresh", "always")  # earlier results
_LARGEST = sys.float_info.max  # no number is infinite
ONLINE_STRATEGY = "online"  # the candidates are settings of a running training program


def _one_of(*words: str) -> Meta:
    return Meta(pattern=rf"^({'|'.join(words)})\Z", description=" or ".join(words))


Count = Annotated[int, Meta(ge=1, description="an integer of at least 1")]
CountOr0 = Annotated[int, Meta(ge=0, description="an integer of at least 0")]
Workers = Annotated[
    int, Meta(ge=0, le=MOST_WORKERS, description=f"an integer from 0 to {MOST_WORKERS}")
]
Ranks = Annotated[
    int, Meta(ge=1, le=MOST_WORKERS, description=f"an integer from 1 to {MOST_WORKERS}")
]
Candidates = Annotated[tuple[Workers, ...], Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Precision = Annotated[
    float, Meta(gt=0, le=1, description="a number above 0 and up to 1")
]
Seconds = Annotated[
    float, Meta(gt=0, le=_LARGEST, description="seconds, a number above 0")
]
SecondsOr0 = Annotated[
    float, Meta(ge=0, le=_LARGEST, description="seconds, a number of at least 0")
]
StartMethod = Annotated[str, _one_of("fork", "spawn", "forkserver")]
Mode = Annotated[str, _one_of("steady", "epoch")]
Cache = Annotated[str, _one_of("auto", "warm", "cold")]
Strategy = Annotated[str, _one_of(*STRATEGIES)]
AnyStrategy = Annotated[str, _one_of(*STRATEGIES, ONLINE_STRATEGY)]
Switch = Annotated[bool, Meta(description="true or false")]
PredictedCpus = Annotated[
    float,
    Meta(
        ge=FEWEST_CPUS,
        le=MOST_CPUS,
        description=f"a number from {FEWEST_CPUS} to {MOST_CPUS}",
    ),
]
PredictedStep = Annotated[
    float, Meta(ge=0, le=86_400, description="a number from 0 to 86400")
]
Reuse = Annotated[str, _one_of(*REUSES)]
Searchable = Annotated[str, _one_of(*SEARCHABLE)]

# Measured values, and facts of a host.
Cpus = Annotated[int, Meta(ge=1, le=MOST_CPUS)]
Cores = Annotated[float, Meta(gt=0, le=MOST_CPUS)]
Positive = Annotated[float, Meta(ge=1e-12, le=1e18)]
NotNegative = Annotated[float, Meta(ge=0, le=1e18)]
Finite = Annotated[float, Meta(ge=-1e18, le=1e18)]
# seconds of one batch: thirty years are no measurement
Cost = Annotated[float, Meta(ge=0, le=1e9)]
AtLeast1 = Annotated[float, Meta(ge=1, le=1e9)]
# a difference of several clocks, which may be below 0
Duration = Annotated[float, Meta(ge=-1e9, le=1e9)]
Bytes = Annotated[int, Meta(ge=0, le=10**18)]

# Names joined by dots that Hydra's command line takes without quotes, and that are
# not Hydra's own.
_NAME = r"([A-Za-z_][A-Za-z0-9_-]*|0|[1-9][0-9]*)"
DottedKey = Annotated[
    str,
    Meta(
        pattern=rf"^(?!hydra(\.|\Z)){_NAME}(\.{_NAME})*\Z",
        description="names joined by dots",
    ),
]


def fits(value: object, kind: object) -> bool:
    """Whether a value is of a type and in its range; numbers of NumPy count as
    numbers."""
    try:
        msgspec.convert(_plain_number(value), kind)
    except msgspec.ValidationError:
        return False
    return True


def _plain_number(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def text_of(kind: object) -> str:
    """What is allowed, as errors print it; ``X | None`` is ``null or`` the text of
    X."""
    for alternative in get_args(kind):
        if hasattr(alternative, "__metadata__"):
            return f"null or {text_of(alternative)}"
    (meta,) = getattr(kind, "__metadata__")  # noqa: B009 - a type has no such attribute for mypy
    return str(meta.description)
