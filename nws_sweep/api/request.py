"""The keywords of ``search`` and ``tune`` that are not DataLoader's, and how to search
by them."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep.config import schema, search_options
from nws_sweep.config.search_options import SearchOptions
from nws_sweep.dataloading import pickling
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import NO_STEP, MeasureRules, SearchRules
from nws_sweep.report.progress import Progress
from nws_sweep.system.host import usable_cpus

TrainingStep = float | Callable[[Any], object] | None
_RULES = (
    "strategy",
    "patience",
    "num_workers",
    "max_workers",
    "settings",
    "tolerance",
    "time_limit_s",
    "ranks",
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The keywords of ``search`` and ``tune``, which explain them. ConfigurationError
    if one is out of range."""

    patience: int
    strategy: str
    num_workers: Sequence[int] | None
    max_workers: int | None
    settings: str | Sequence[str] | None
    training_step: TrainingStep
    tolerance: float
    time_limit_s: float | None
    measure: str | MeasureRules | None
    check_samples: bool | None
    ranks: int
    reuse: bool | str
    config: Any
    progress: Progress

    def __post_init__(self) -> None:
        # a wrong value is an error before anything is made or measured
        _ = self.options

    @functools.cached_property
    def options(self) -> SearchOptions:
        """How to search: as ``config`` says, or the other keywords."""
        training_step = _step_node(self.training_step)
        if self.config is not None:
            options = search_options.embedded(self.config)
            return (
                options
                if self.training_step is None
                else replace(options, training_step=training_step)
            )
        return SearchOptions(
            search=self._search_rules(),
            measure=search_options.measure_rules(self.measure),
            training_step=training_step,
            check_samples=self.check_samples,
            reuse=search_options.reuse_of(self.reuse),
            ranks=self.ranks,
        )

    def _search_rules(self) -> SearchRules:
        settings = (
            None if self.settings is None else search_options.names(self.settings)
        )
        values = {**vars(self), "settings": settings}
        for name in _RULES:
            schema.require(name, values[name])
        return schema.search_rules({**values, "reference": usable_cpus(self.ranks)})


def _step_node(training_step: TrainingStep) -> dict[str, Any]:
    if training_step is None:
        return {"_target_": NO_STEP}
    if callable(training_step):
        name = getattr(training_step, "__name__", type(training_step).__name__)
        return pickling.placeholder(name, fingerprint(training_step))
    if schema.is_seconds(training_step):
        return schema.sleeping(training_step)
    raise ConfigurationError(
        f"training_step={training_step!r}: must be None, seconds of at least 0, or a function"
    )
