"""The results of ``scripts/benchmark predictions``: ratios of predicted to measured
epochs. Pure."""

from collections.abc import Sequence

import numpy as np

from benchmarks.catalogue import Workload
from benchmarks.journal import Forecast
from benchmarks.results import Results, Table, bullets
from benchmarks.targets import percent, verdict

MOST_MEDIAN, MOST_HIGH, MOST_REPLAY_S = 0.05, 0.12, 0.1
_WORST = 15

_ABOUT = """\
Epochs predicted by replaying a short recording of the loader, compared with the same epochs in a plain loop.

- Recorded: per workload and repeat, one exhaustive search by nws_sweep with 2, 8 and 0 workers, prefetch_factor 2, in
  order, three windows of 0.12 s each. Trials are used in this order until their windows, with warm-up and start-up,
  have lasted 2 s together. If the first trial alone takes longer, only its first 2 s are used.
- Predicted: epochs with 0, 1, 2, 4, 8, 16, 32 and 64 workers, prefetch_factor 1, 2, 4 and 8, in order and not. From
  these, settings are drawn at random for each workload, each num_workers once before one is drawn again.
  Left out: num_workers below 4 or 8 where an epoch sleeps for 30 s or more, and queues of more than 4 GB.
- Measured: the whole loop, with start and end of the workers, after a first batch that is not counted, in a fresh
  process for each setting; epochs shorter than 1 s are repeated. One workload is done after the other.
- Measured again: the first epoch of each workload and repeat, after the others. What differs then is the machine.
- predicted / measured: 1 is right. error: its distance from 1. inside: share of measured epochs within the predicted
  interval, nominally 95 %. recorded: the longest of all repeats."""

_COLUMNS = (
    "epochs", "recorded (s)", "predicted / measured: median", "10 %", "90 %", "error: median", "error: 90 %", "inside",
)  # fmt: skip


def results_of(
    forecasts: Sequence[Forecast], workloads: Sequence[Workload], replayed_s: float
) -> Results:
    """Errors by workload and setting; ``replayed_s`` is the time of a replay of 10,000
    batches, s."""
    worst = sorted(forecasts, key=lambda forecast: -forecast.error)[:_WORST]
    median, high = _errors(forecasts)
    inside = sum(forecast.is_inside for forecast in forecasts) / len(forecasts)
    parts = [
        _ABOUT,
        "Largest errors:\n\n" + bullets(forecast.line for forecast in worst),
        "Workloads:\n\n" + "\n".join(workload.line for workload in workloads),
        "Targets:\n\n" + bullets(verdicts(forecasts, replayed_s)),
    ]
    names = ("workload", "workers", "prefetch_factor", "in_order")
    return Results(
        title="Predicted and measured epochs",
        headline=f"The error is {percent(median)} in the median of {len(forecasts)} epochs, and at most "
        f"{percent(high)} in 90 % of them; {percent(inside)} are within their 95 % interval. {_noise(forecasts)}",
        about="\n\n".join(parts),
        tables=[table(forecasts, name) for name in names],
    )


def _noise(forecasts: Sequence[Forecast]) -> str:
    """How much an epoch differs from itself; empty if none was measured again, as in
    journals of earlier versions."""
    differences = [
        abs(forecast.again_s / forecast.measured_s - 1)
        for forecast in forecasts
        if forecast.again_s is not None
    ]
    if not differences:
        return ""
    median, high = _median_and_high(differences)
    return (
        f"An epoch that is measured again, up to a minute later, differs by {percent(median)} in the median of "
        f"{len(differences)} epochs, and by at most {percent(high)} in 90 % of them. "
    )


def verdicts(forecasts: Sequence[Forecast], replayed_s: float) -> list[str]:
    """One sentence per target: met or missed."""
    median, high = _errors(forecasts)
    return [
        verdict(f"error, median at most {percent(MOST_MEDIAN)}", [("all", median)], MOST_MEDIAN, percent),
        verdict(f"error, 90th percentile at most {percent(MOST_HIGH)}", [("all", high)], MOST_HIGH, percent),
        verdict(f"replay of 10,000 batches with 64 workers in at most {MOST_REPLAY_S:g} s, took {replayed_s:.3f} s",
                [("all", replayed_s)], MOST_REPLAY_S, "{:.3f} s".format),
    ]  # fmt: skip


def _errors(forecasts: Sequence[Forecast]) -> tuple[float, float]:
    return _median_and_high([forecast.error for forecast in forecasts])


def _median_and_high(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 90th percentile."""
    median, high = np.quantile(values, [0.5, 0.9])
    return float(median), float(high)


def table(forecasts: Sequence[Forecast], name: str) -> Table:
    """A row per value of the attribute ``name``, and one for all."""
    values = dict.fromkeys(getattr(forecast, name) for forecast in forecasts)
    groups = {
        value: [forecast for forecast in forecasts if getattr(forecast, name) == value]
        for value in (values if name == "workload" else sorted(values))
    }
    rows = [_row(value, group) for value, group in groups.items()]
    return Table(f"by_{name}", (name, *_COLUMNS), [*rows, _row("all", forecasts)])


def _row(value: object, group: Sequence[Forecast]) -> tuple[str, ...]:
    low, median, high = np.quantile(
        [forecast.ratio for forecast in group], [0.1, 0.5, 0.9]
    )
    error, high_error = _errors(group)
    return (
        str(value),
        str(len(group)),
        f"{max(forecast.recorded_s for forecast in group):.1f}",
        f"{median:.3f}",
        f"{low:.3f}",
        f"{high:.3f}",
        percent(error),
        percent(high_error),
        percent(sum(forecast.is_inside for forecast in group) / len(group)),
    )
