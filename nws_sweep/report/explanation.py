"""What ``nws_sweep.explain`` returns: the stages of a sample, and the epoch without
each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nws_sweep import units
from nws_sweep.analysis import accounts, advice
from nws_sweep.analysis.stage_savings import NO_TIME
from nws_sweep.analysis.summary import ConfigurationSummary, summarise_record
from nws_sweep.errors import NwsSweepError, printable
from nws_sweep.model.stages import Stage, nested
from nws_sweep.records import SearchRecord
from nws_sweep.report import snippets
from nws_sweep.report.attributes import SuggestsAttributes
from nws_sweep.report.tables import Rows

if TYPE_CHECKING:
    import pandas as pd

_HEADER = (
    "stage",
    "share of a sample",
    "per sample",
    "on a CPU",
    "epoch without it",
    "workers without it",
    "code",
)
_OF_REPLAYS = ("spread", "cpu", "wait", "copy")
_LEAST_SHARE, _MOST_ROWS = 0.01, 12


@dataclass(frozen=True, repr=False)
class Explanation(SuggestsAttributes):
    """What makes a sample expensive, and what the epoch would be without it.

    Returned by :func:`nws_sweep.explain`. Prints as a table, in a notebook too.

    Attributes:
        stages: The most expensive first.
        num_workers: Workers of the epoch, the recommended ones.
        epoch_s: Seconds of the epoch; None if its length is unknown.
        advice: Lines about the epoch and the whole sample: where the time goes, whole
            batches that are faster.
    """

    stages: tuple[Stage, ...]
    num_workers: int
    epoch_s: float | None
    advice: tuple[str, ...] = ()

    @property
    def sample_s(self) -> float:
        """Seconds that a sample takes a worker."""
        return self.stages[0].seconds / self.stages[0].share

    def to_frame(self) -> "pd.DataFrame":
        """Makes a row for each stage, with the columns of ``to_dict``."""
        rows = self.to_dict()["stages"]
        return Rows(columns=tuple(rows[0]), rows=tuple(rows)).frame()

    def to_dict(self) -> dict[str, Any]:
        """Gives plain values, for JSON; ``epoch_without_s`` is in three columns."""
        return {
            "num_workers": self.num_workers,
            "epoch_s": self.epoch_s,
            "stages": [_flat(stage) for stage in self.stages],
            "advice": [*self.advice],
        }

    def __repr__(self) -> str:
        first = f"a worker takes {units.seconds(self.sample_s)} for a sample"
        if self.epoch_s:
            first += f"; the epoch takes {units.seconds(self.epoch_s)}"
        first += f" with num_workers={self.num_workers}"
        lines = [
            snippets.markdown_table(table(self.stages)),
            first,
            *sentences(self.stages, self.num_workers),
            *self.advice,
        ]
        return printable("\n".join(lines))

    _repr_html_ = snippets.preformatted


def of(configuration: ConfigurationSummary) -> Explanation:
    """Explains a configuration; NwsSweepError if no calls were timed."""
    best, stages = configuration.best, configuration.stages
    if best is None or not stages:
        raise NwsSweepError(f"{configuration.label}: {_without_calls(configuration)}")
    epoch_s = best.measurement.epoch_s if best.measurement else None
    lines = [accounts.line(best), *advice.on_samples(configuration.run.recorded)]
    return Explanation(
        stages, best.num_workers, epoch_s, tuple(line for line in lines if line)
    )


def _without_calls(configuration: ConfigurationSummary) -> str:
    """Says why no calls were timed, and what to type."""
    if any(configuration.run.result.measured_numbers):
        return (
            "no calls were timed: another tool, such as a profiler or a debugger, watched the workers, or an earlier "
            "version searched; search again without it"
        )
    return (
        "no calls were timed: only workers are timed, and none were measured; type nws-sweep explain --num-workers 1 "
        "train.py, or explain(loader, num_workers=[1])"
    )


def of_record(record: SearchRecord) -> Explanation:
    """Explains a search; NwsSweepError if no calls were timed."""
    return of(summarise_record(record).configurations[0])


def _flat(stage: Stage) -> dict[str, Any]:
    values = asdict(stage)
    for name in _OF_REPLAYS:
        del values[name]
    epoch = values.pop("epoch_without_s") or {}
    values["epoch_without_s"] = epoch.get("value")
    values["epoch_without_s_low"] = epoch.get("low")
    values["epoch_without_s_high"] = epoch.get("high")
    return values


def table(stages: Sequence[Stage]) -> list[list[str]]:
    """Lists the header, and the cells of stages that take a hundredth of a sample's
    time, at most twelve."""
    expensive = [
        stage for stage in stages if stage.share >= _LEAST_SHARE and stage.depth <= 1
    ]
    return [list(_HEADER), *map(_cells, nested(expensive[:_MOST_ROWS]))]


def _cells(stage: Stage) -> list[str]:
    workers = stage.workers_without
    return [
        stage.label,
        units.share(stage.share),
        units.seconds(stage.seconds),
        units.share(stage.cpu_share),
        units.interval(stage.epoch_without_s),
        units.NOTHING if workers is None else str(workers),
        stage.place or units.NOTHING,
    ]


def sentences(stages: Sequence[Stage], num_workers: int) -> Iterator[str]:
    """Says what is saved without the most expensive stage, and which stages cost
    workers but no time."""
    replayed = [
        stage for stage in stages if stage.saved is not None and stage.depth == 0
    ]
    dearest = max(replayed, key=_saved, default=None)
    if dearest and _saved(dearest) >= NO_TIME:
        yield sentence(dearest, num_workers)
    for stage in replayed:
        fewer = _fewer(stage, num_workers)
        if fewer and _saved(stage) < NO_TIME:
            yield f"{stage.name} costs workers but no time: without it {fewer}"


def sentence(stage: Stage, num_workers: int) -> str:
    """Says what is saved if this stage takes no time."""
    saved = f"if {stage.name} took no time the epoch would take {units.share(_saved(stage))} less"
    fewer = _fewer(stage, num_workers)
    return f"{saved}, and {fewer}" if fewer else saved


def _saved(stage: Stage) -> float:
    """The share of the epoch that is saved without the stage; 0 if it was not
    replayed."""
    return stage.saved or 0.0


def _fewer(stage: Stage, num_workers: int) -> str:
    """Says how many workers would do without the stage; empty if it is unknown, or no
    fewer."""
    if stage.workers_without is None or stage.workers_without >= num_workers:
        return ""
    return f"{units.counted(stage.workers_without, 'worker')} would do instead of {num_workers}"
