"""What ``nws_sweep.explain`` returns: the stages of a sample, and the epoch without
each of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nws_sweep import units
from nws_sweep.analysis import accounts, advice
from nws_sweep.analysis.advice import Advice
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.limits import COLLATE
from nws_sweep.analysis.stage_savings import NO_TIME
from nws_sweep.analysis.summary import ConfigurationSummary, summarise_record
from nws_sweep.errors import NwsSweepError, printable
from nws_sweep.model.stages import Stage, nested
from nws_sweep.records import SearchRecord, Trial
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

    Returned by :func:`nws_sweep.explain`. Prints as the answer and a table, in a
    notebook too.

    Attributes:
        answer: The function to make cheaper, and what that saves.
        stages: The most expensive first.
        num_workers: Workers of the epoch, the recommended ones.
        epoch_s: Seconds of the epoch; None if its length is unknown.
        advice: Lines about the whole sample: whole batches that are faster, threads
            beside the worker's own.
    """

    answer: Answer
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
            "answer": self.answer.lines,
            "num_workers": self.num_workers,
            "epoch_s": self.epoch_s,
            "stages": [_flat(stage) for stage in self.stages],
            "advice": [*self.advice],
        }

    def __repr__(self) -> str:
        lines = [*self.answer.lines, "", snippets.markdown_table(table(self.stages))]
        return printable("\n".join([*lines, *self.advice]).rstrip())

    _repr_html_ = snippets.preformatted


def of(configuration: ConfigurationSummary) -> Explanation:
    """Explains a configuration; NwsSweepError if no calls were timed."""
    best, stages = configuration.best, configuration.stages
    if best is None or not stages:
        raise NwsSweepError(f"{configuration.label}: {_without_calls(configuration)}")
    epoch_s = best.measurement.epoch_s if best.measurement else None
    diagnosis = configuration.diagnosis
    indexing = advice.indexing(diagnosis) if diagnosis else None
    return Explanation(
        answer_of(stages, best, configuration.conclusion.cost, indexing),
        stages,
        best.num_workers,
        epoch_s,
        advice.on_samples(configuration.run.recorded),
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
    for suffix, name in (("", "value"), ("_low", "low"), ("_high", "high")):
        values[f"epoch_without_s{suffix}"] = epoch.get(name)
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
        units.seconds(stage.seconds, units.ROUGHLY),
        units.share(stage.cpu_share),
        units.interval(stage.epoch_without_s),
        units.NOTHING if workers is None else str(workers),
        stage.place or units.NOTHING,
    ]


def answer_of(
    stages: Sequence[Stage],
    best: Trial,
    cost: str = "",
    indexing: Advice | None = None,
) -> Answer:
    """The function that saves most if it takes no time, at these settings; or to index
    whole batches, if it saves more.

    Args:
        stages: Of a sample, the most expensive first; at least one.
        best: The recommended trial.
        cost: Of the search.
        indexing: Of whole batches, if it is worth it.
    """
    replayed = []
    for s in stages:
        if s.saved is not None and s.depth == 0:
            replayed.append(s)
    replayed.sort(key=_saved, reverse=True)
    if not replayed:
        unknown = "takes most of a sample; what it costs an epoch is unknown"
        answer = f"{_named(stages[0])} {unknown}"
        return Answer(answer=answer, why=_evidence(stages, stages[0]), cost=cost)
    if indexing:
        replayed = [stage for stage in replayed if stage.name != COLLATE]
        (indexed,) = indexing.remedies
        if indexed.saved >= max(map(_saved, replayed), default=0.0):
            return Answer(
                answer=f"{indexed} with num_workers={best.num_workers}",
                why=indexing.cause,
                remedies=_beside(replayed, indexed.saved),
                cost=cost,
            )
    dearest, workers = replayed[0], best.num_workers
    if _saved(dearest) < NO_TIME:
        account = accounts.account_of(best)
        return Answer(
            answer="no function is worth making cheaper: without any an epoch takes as long",
            why=accounts.cause(account, next(iter(account.seconds))) if account else "",
            remedies=_fewer_workers(replayed, workers),
            cost=cost,
        )
    remedies = _fewer_workers([dearest], workers)
    return Answer(
        answer=f"{_cheaper(dearest)} of an epoch with num_workers={workers}",
        why=_evidence(stages, dearest),
        remedies=_beside(replayed[1:], _saved(dearest)) or remedies,
        cost=cost,
    )


def _beside(stages: Sequence[Stage], saved: float) -> tuple[str, ...]:
    """The first of these stages, if it saves more than half as much as the answer."""
    if stages and _saved(stages[0]) > saved / 2:
        return (_cheaper(stages[0]),)
    return ()


def _cheaper(stage: Stage) -> str:
    return f"a cheaper {_named(stage)} saves up to {units.share(_saved(stage))}"


def _named(stage: Stage) -> str:
    if stage.place:
        return f"{stage.short_name} ({stage.place})"
    return stage.short_name


def _evidence(stages: Sequence[Stage], stage: Stage) -> str:
    """The share of a sample's time that a stage takes."""
    sample_s = stages[0].seconds / stages[0].share
    times = [
        units.seconds(time_s, units.ROUGHLY) for time_s in (stage.seconds, sample_s)
    ]
    takes = f"{stage.short_name} takes {units.share(stage.share)} of a sample"
    return (
        f"{takes} ({' of '.join(times)}), {units.share(stage.cpu_share)} of it on a CPU"
    )


def _fewer_workers(stages: Sequence[Stage], num_workers: int) -> tuple[str, ...]:
    """How many workers are enough without the stage that needs most of them; empty if
    none needs more."""
    needed = [
        (stage.workers_without, stage.short_name)
        for stage in stages
        if stage.workers_without is not None
    ]
    fewest, name = min(needed, default=(num_workers, ""))
    if fewest >= num_workers:
        return ()
    enough = f"num_workers={fewest} is enough instead of {num_workers}"
    return (f"without {name} {enough}",)


def _saved(stage: Stage) -> float:
    """The share of the epoch that is saved without the stage; 0 if it was not
    replayed."""
    return stage.saved or 0.0
