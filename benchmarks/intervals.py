"""Coverage of the intervals that are printed, by simulated searches whose true times are known."""

import math
import random
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import support
from nws_sweep import units
from nws_sweep.analysis.time_ratios import times_of
from nws_sweep.replay import choice
from nws_sweep.results import Estimate, LoaderSettings, Measurement, Trial, TrialState
from nws_sweep.searching.adaptive import is_eliminated
from nws_sweep.searching.estimates import Estimates, estimates_of
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.quantities import SEQUENTIAL
from nws_sweep.searching.stats import estimate_mean

_TOLERANCE = 0.03
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 12
NOISES = (0.05, 0.2)  # standard deviation of the logarithm of a time in one round
_DRIFT = 0.5  # that of the machine's drift from round to round / the noise

# True seconds per batch by number of workers, and what they stand for.
CURVES: Mapping[str, Callable[[int], float]] = {
    "equal": lambda n: 1.0,
    "linear": lambda n: 1.0 / max(1, n),
    "plateau at 8": lambda n: max(1 / 8, 1.0 / max(1, n)),
    "slower beyond 8": lambda n: 1.0 / max(1, n) * (1 + (n / 12) ** 2),
    "two CPUs": lambda n: max(1 / 2, 1.0 / max(1, n)),
}
WORKERS = (0, 2, 4, 8, 12, 16)
FEW_WORKERS = (0, 2, 3)  # that a short search measures
_INTERVALS = ("batch", "gain", "closest")  # of a ``Check``


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one simulated search printed, compared with the truth; None where it printed no interval."""

    batch: bool | None  # whether the interval of the answer's time contains the true time
    gain: bool | None  # the same of its speed-up over no workers
    closest: bool | None  # the same of its ratio to the closest alternative
    width: float  # half the interval of the answer's time, as a share
    bias: float  # ratio to the closest alternative / the true ratio


def run(repeats: int, output: Path, command: str) -> None:
    """Simulates ``repeats`` searches of each curve and noise, and writes the page."""
    checks = {(curve, noise): _simulate(curve, noise, repeats) for curve in CURVES for noise in NOISES}
    origin = support.origin(command, repeats, "repeat")
    rows = [_row(*key, found) for key, found in checks.items()]
    output.write_text(
        "\n".join([_TITLE, f"{_found(checks.values())} {origin}", _INTRODUCTION, *_HEAD, *rows, ""]), "utf-8"
    )


def _simulate(curve: str, noise: float, repeats: int) -> list[Check]:
    workers = FEW_WORKERS if curve == "two CPUs" else WORKERS
    return [simulated(CURVES[curve], noise, random.Random(f"{curve}-{noise}-{n}"), workers) for n in range(repeats)]


def _found(checks: Collection[Sequence[Check]]) -> str:
    """The ranges of the rows."""
    shares = ([_share(found, name)[0] for found in checks] for name in _INTERVALS)
    batch, gain, closest = (f"{100 * min(each):.1f} to {100 * max(each):.1f} %" for each in shares)
    bias = max(_median(found, "bias") for found in checks)
    return (
        f"Printed intervals contain the true time of a batch in {batch} of simulated "
        f"searches, the speed-up in {gain}, the ratio to the closest alternative in {closest}. The answer looks at "
        f"most {units.share(bias - 1)} better than it is (median)."
    )


def _row(curve: str, noise: float, checks: Sequence[Check]) -> str:
    cells = [f"{100 * share:.1f} % ({count})" for share, count in (_share(checks, name) for name in _INTERVALS)]
    width, bias = _median(checks, "width"), _median(checks, "bias")
    return f"| {curve} | {units.share(noise)} | {' | '.join(cells)} | {units.percent(width)} | {bias:.3f} |"


def _median(checks: Sequence[Check], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in checks))


def _share(checks: Sequence[Check], name: str) -> tuple[float, int]:
    """Of the printed intervals those that contain the truth, and how many are printed."""
    printed = [found for one in checks if (found := getattr(one, name)) is not None]
    return statistics.fmean(printed), len(printed)


def simulated(
    curve: Callable[[int], float], noise: float, rng: random.Random, workers: Sequence[int] = WORKERS
) -> Check:
    """One search: a round without workers, then rounds of the candidates until the expected loss is small."""
    times_s: dict[int, dict[int, float]] = {n: {} for n in workers}
    drifts: list[float] = []
    active = [0]
    while True:
        drifts.append((drifts[-1] if drifts else 0.0) + rng.gauss(0.0, _DRIFT * noise))
        for n in active:
            times_s[n][len(drifts)] = curve(n) * math.exp(drifts[-1] + rng.gauss(0.0, noise))
        if len(drifts) == 1:
            active = list(workers)
            continue
        found = _estimates(times_s, active)
        is_decided = all(found.loss(one.settings) <= choice.CLOSE for one in found.observations)
        if len(drifts) >= _MOST_ROUNDS or (len(drifts) > _FEWEST_ROUNDS and is_decided):
            return _checked(found, times_s, curve, statistics.fmean(drifts[1:]))
        active = [o.num_workers for o in found.observations if o.num_workers in active and not is_eliminated(o, found)]


def _estimates(times_s: Mapping[int, Mapping[int, float]], active: Sequence[int]) -> Estimates:
    observations = [
        Observation(
            settings=_settings(n), cost_s=statistics.fmean(own.values()), by_round=own, eliminated=n not in active
        )
        for n, own in times_s.items()
    ]  # fmt: skip
    found = estimates_of(observations, _TOLERANCE)
    assert found is not None  # each candidate has a cost
    return found


def _settings(num_workers: int) -> LoaderSettings:
    return LoaderSettings(batch_size=8, num_workers=num_workers).canonical()


def _checked(
    found: Estimates, times_s: Mapping[int, Mapping[int, float]], curve: Callable[[int], float], drift: float
) -> Check:
    trials = {
        one.num_workers: _trial(one.num_workers, [*times_s[one.num_workers].values()]).scaled_to(
            found.costs_s[one.settings], found.half_width(one)
        )
        for one in found.observations
    }
    answer = found.answer.num_workers
    others = [n for n in trials if n != answer]
    closest = min(others, key=lambda n: abs(math.log(found.costs_s[_settings(n)] / found.costs_s[found.answer])))
    measured = trials[answer].measurement
    assert measured
    assert measured.batch_s
    return Check(
        batch=_contains(measured.batch_s, curve(answer) * math.exp(drift)),
        gain=None if answer == 0 else _ratio_contains(trials[answer], trials[0], curve(0) / curve(answer)),
        closest=_ratio_contains(trials[answer], trials[closest], curve(closest) / curve(answer)),
        width=units.uncertainty(measured.batch_s) or 0.0,
        bias=found.costs_s[_settings(closest)] / found.costs_s[found.answer] * curve(answer) / curve(closest),
    )


def _trial(num_workers: int, own_s: list[float]) -> Trial:
    batch_s = estimate_mean(own_s, statistics.fmean(own_s), SEQUENTIAL)
    measured = Measurement(startup_s=0.0, batch_s=batch_s, step_s=0.0, samples_per_s=8 / batch_s.value)
    return Trial(settings=_settings(num_workers), state=TrialState.OK, measurement=measured)


def _contains(found: Estimate, truth: float) -> bool | None:
    return None if found.low is None or found.high is None else found.low <= truth <= found.high


def _ratio_contains(base: Trial, other: Trial, truth: float) -> bool | None:
    times = times_of(base, other)
    ends = times.ratio.ends if times else None
    return None if ends is None else ends[0] <= truth <= ends[1]


_TITLE = "# Coverage of intervals\n"
_INTRODUCTION = """
How often the printed intervals contain the truth, in simulated searches whose true times are known; the target is
95 %. Each search measures 0 workers in a first round, then six candidates, 0 to 16 workers (three, 0 to 3, with the
curve "two CPUs"), in rounds until the expected loss of the answer is at most 1 %, at least three and at most eleven
further rounds; those far behind end earlier, as in a search, many after one round. The time of a round is the true
time, with log-normal noise and a drift of the machine from round to round; estimates, choice and intervals are those of
a search.

- a batch: the interval of the answer's time per batch: Student's t on the logarithms of windows, 1.1 times as wide,
  since a search stops when its intervals are narrow. The truth is the time in the mean state of the machine. A
  candidate with fewer than three windows has the noise of the rounds of all candidates.
- speed-up: that of the answer over no workers; the two half-widths add in quadrature.
- closest: the ratio of the closest alternative to the answer, likewise.
- Each is the share of the printed intervals that contain the truth; in brackets how many searches print one. The
  answer is chosen on the same data, and no interval can have a coverage for each choice (Benjamini and
  Yekutieli, Journal of the American Statistical Association 100, 2005: false coverage-statement rate).
- width: half the interval of the answer's time, median.
- bias: printed / true ratio to the closest alternative, median; above 1 the answer looks better than it is.
"""
_HEAD = (
    "| curve | noise of a round | a batch | speed-up | closest | width | bias |",
    "|---|---|---|---|---|---|---|",
)
