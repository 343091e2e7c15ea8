"""``search``, and what it shares with ``tune`` and ``sweep``: the search in rank 0."""

import functools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nws_sweep import units
from nws_sweep.api.request import Progress, Request, TrainingStep
from nws_sweep.config.expected_names import explained
from nws_sweep.config.python_notation import in_python
from nws_sweep.config.schema import SearchOptions
from nws_sweep.dataloading import pickling
from nws_sweep.dataloading.inputs import LoaderInput, loader_input_of
from nws_sweep.errors import OutOfTime, TimeLimitReached, printable
from nws_sweep.executor import forking, rank0
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.executor.environment import Environment, ProcessFactory
from nws_sweep.executor.on_demand import START_LIMIT_S
from nws_sweep.replay.epoch_length import LONGER
from nws_sweep.report import snippets
from nws_sweep.report.progress import ProgressReporter
from nws_sweep.report.search_result import SearchResult
from nws_sweep.results import Configuration, MeasureRules, SearchRecord, Status, TrialState
from nws_sweep.results.result_cache import ResultStore
from nws_sweep.searching.search import limit_s, new_record
from nws_sweep.searching.search import search as run_search
from nws_sweep.searching.session import Session
from nws_sweep.system import host_lock, platforms, processes, temporary


@explained
def search(  # noqa: PLR0913, PLR0917 - the DataLoader's own keywords, then ours
    dataset: Any,
    batch_size: int | None = 1,
    shuffle: bool | None = False,
    sampler: Iterable[Any] | None = None,
    batch_sampler: Iterable[Sequence[Any]] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    pin_memory: bool = False,
    drop_last: bool = False,
    timeout: float = 0,
    worker_init_fn: Callable[[int], Any] | None = None,
    *,
    prefetch_factor: int | None = None,
    persistent_workers: bool = False,
    multiprocessing_context: str | None = None,
    generator: Any = None,
    in_order: bool = True,
    patience: int = 3,
    strategy: str = "adaptive",
    num_workers: Sequence[int] | None = None,
    max_workers: int | None = None,
    settings: str | Sequence[str] | None = None,
    training_step: TrainingStep = None,
    tolerance: float = 0.03,
    time_limit_s: float | None = None,
    measure: str | MeasureRules | None = None,
    check_samples: bool | None = None,
    ranks: int = 1,
    reuse: bool | str = "fresh",
    config: Any = None,
    progress: Progress = None,
) -> SearchResult:
    """Finds the best ``num_workers`` for a dataset by measuring.

    Each candidate is measured in a separate process with a copy of the dataset; the caller's dataset, sampler,
    generator and random state do not change. Under torch.distributed all ranks must call it: rank 0 measures, and all
    ranks return its result. Repeating a search returns the stored result, or goes on if it was ended; see ``reuse``.

    Args:
        dataset: A map-style or iterable dataset; or a DataLoader, then without any of the DataLoader's keywords; or a
            function without arguments that returns either, if it cannot be pickled (such results are not stored).
        batch_size: As in DataLoader, like shuffle, sampler, batch_sampler, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn, prefetch_factor, persistent_workers, generator and in_order (torch 2.6 and later).
        multiprocessing_context: The start method of the workers: fork, spawn, forkserver, or None for the default.
        patience: Consecutive candidates without improvement allowed before the search stops, >= 0.
        strategy: ``adaptive``, ``patience`` or ``exhaustive`` (docs/understand/searching.md).
        num_workers: The candidates, a list such as [0, 4, 8]; None for 0, 1, 2, ... max_workers.
        max_workers: The largest candidate; None for 64 or the usable CPUs, whichever is more, if the strategy is
            adaptive, and for more after a doubling that gained a fifth; else for twice the usable CPUs.
        settings: Further settings to search after num_workers, such as ``["prefetch_factor", "pin_memory"]``; a
            string is one name; None for prefetch_factor, unless it was given or the strategy is not adaptive.
        training_step: What is done with each batch: None for nothing; a number of seconds to sleep, which resembles a
            step on an accelerator; or a function, which is called with the batch.
        tolerance: The share of time that twice as many workers must save, 0 to 1 (docs/understand/searching.md).
        time_limit_s: Time limit of the search, s, after which it returns the best result so far; None for 60 s, and
            30 s more for each name in ``settings`` but prefetch_factor, if the strategy is adaptive, else no limit.
        measure: How long and under which conditions a candidate is measured: ``quick``, ``default``, ``rigorous`` or
            ``epoch`` (whole epochs), or your own rules; None for the defaults.
        check_samples: Which samples of workers are compared with those loaded without workers (docs/guides/samples.md):
            None for a few of each candidate, True also for a whole epoch of an iterable dataset, False for none.
            Candidates that deliver different samples fail, with a warning (``warnings.warn``).
        ranks: Number of loaders that run at the same time, as the ranks of a host (docs/guides/ddp.md). One of them is
            measured: the result, ``num_workers`` and ``max_workers`` are per rank.
        reuse: Whether to return an earlier result of the same search on this machine: ``fresh`` (same versions, at most
            30 days old; also True), ``always`` or ``never`` (also False). Where the earlier search was ended, by its
            time limit, by Ctrl-C or by others, the search goes on and measures what is missing.
        config: The node ``cfg.get("nws_sweep")`` of a Hydra program that composed ``+nws_sweep=base``; it replaces the
            arguments of the search and the measurement, ``check_samples``, ``ranks``, ``reuse`` and, unless it is an
            argument, ``training_step``.
        progress: A function that is called with lines of text; True for standard error or the notebook's cell; False
            for none; None for True on a terminal and in a notebook, elsewhere only for the expected cost, waiting and
            the result. The log ``nws_sweep.report.progress`` has these at INFO.

    Returns:
        The best settings and all measurements. If only the candidates that are measured first have been measured when
        the search ends, the result is undecided: its settings are those of the DataLoader, unchanged, with a warning.

    Raises:
        ConfigurationError: If an argument is wrong, or the dataset cannot be pickled.
        DatasetError: If the dataset is empty or is not a dataset.
        NwsSweepError: If no candidate could be measured, with the reason of the first one.
        ValueError: Raised by DataLoader if its keywords contradict each other.

    Example:
        >>> import torch, nws_sweep
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> dataset = TensorDataset(torch.arange(512.0))
        >>> result = nws_sweep.search(dataset, batch_size=64, shuffle=True, num_workers=[0, 1])
        >>> loader = DataLoader(dataset, batch_size=64, shuffle=True, **result.loader_kwargs)
        >>> len(loader)
        8
    """
    platforms.require("searching")
    keywords = {
        "batch_size": batch_size, "shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler,
        "collate_fn": collate_fn, "pin_memory": pin_memory, "drop_last": drop_last, "timeout": timeout,
        "worker_init_fn": worker_init_fn, "prefetch_factor": prefetch_factor, "persistent_workers": persistent_workers,
        "multiprocessing_context": multiprocessing_context, "generator": generator, "in_order": in_order,
    }  # fmt: skip
    request = Request(
        patience=patience, strategy=strategy, num_workers=num_workers, max_workers=max_workers, settings=settings,
        training_step=training_step, tolerance=tolerance, time_limit_s=time_limit_s, measure=measure,
        check_samples=check_samples, ranks=ranks, reuse=reuse, config=config, progress=progress,
    )  # fmt: skip
    return search_for_all_ranks(lambda: loader_input_of(dataset, keywords), request)


def search_for_all_ranks(make_loader_input: Callable[[], LoaderInput], request: Request) -> SearchResult:
    """Searches in rank 0, and warns if the result is undecided or workers deliver different samples than no workers.

    All ranks raise OutOfTime if rank 0 does.
    """
    result = rank0.run_on_rank0(lambda: _result(make_loader_input(), request))
    for line in _warnings(result):
        warnings.warn(f"nws_sweep: {in_python(printable(line))}", stacklevel=3)
    return result


def _result(loader_input: LoaderInput, request: Request) -> SearchResult:
    start = new_record(configuration_of(loader_input, request.options))
    record, is_stored = record_here(start, loader_input, request)
    return SearchResult(record, is_stored)


def _warnings(result: SearchResult) -> Iterator[str]:
    """Yields the lines that the caller must not miss, at most one of a kind."""
    if result.status == Status.UNDECIDED:
        yield result.first_line
    for trial in result.trials:
        if trial.state is TrialState.WRONG_SAMPLES:
            yield f"num_workers={trial.num_workers} is excluded: {trial.reason}"
            break
    for trial in result.trials:
        if trial.state is TrialState.OK and any(line.startswith(LONGER) for line in trial.warnings):
            yield next(line for line in trial.warnings if line.startswith(LONGER))
            break


def record_here(start: SearchRecord, loader_input: LoaderInput, request: Request) -> tuple[SearchRecord, bool]:
    """Searches in this process; returns the record, and whether an earlier search has stored it."""
    reuse = request.options.reuse
    session = Session(
        store=ResultStore() if loader_input.fingerprint else None, reuse=reuse, lock_file=host_lock.usual()
    )
    # A search that does not use what is stored does not replace it by less than an answer.
    keep = None if reuse == "never" else session.keep
    reporter = ProgressReporter(request.progress, keep)

    @functools.cache
    def check_pickling() -> None:
        with temporary.folder() as folder:
            _pickled(start.configuration, loader_input, request.training_step, Path(folder))

    def check_and_announce(line: str) -> None:
        """Ends a search that cannot be pickled before it waits for another search."""
        check_pickling()
        reporter.note(line)

    def measure(started: SearchRecord) -> SearchRecord:
        return _measured(started, loader_input, request.training_step, reporter)

    try:
        with processes.ended_by_taken_signals():
            record, is_stored = session.run(start, measure, check_and_announce, reporter.note)
    except TimeLimitReached:  # while the dataset was made
        raise OutOfTime(f"the dataset was not made within {units.seconds(START_LIMIT_S)}") from None
    if is_stored:
        answer = f"{start.configuration.columns['dataset']}: {snippets.found_line(record)}"
        reporter.note(f"{answer}, measured at {record.started_at}; reuse=False measures again")
    return record, is_stored


def configuration_of(loader_input: LoaderInput, options: SearchOptions) -> Configuration:
    """Makes the configuration of a search: what is held fixed."""
    settings = loader_input.settings
    columns = {
        "dataset": loader_input.name, "batch_size": settings.batch_size, "pin_memory": settings.pin_memory,
        "prefetch_factor": settings.prefetch_factor, "patience": options.search.patience,
    }  # fmt: skip
    return Configuration(
        columns=columns,
        dataset=pickling.placeholder(loader_input.name, loader_input.fingerprint),
        training_step=options.training_step,
        loader=settings,
        measure=options.measure,
        search=options.search,
        check_samples=options.check_samples,
        ranks=options.ranks,
    )


def _announcement(loader_input: LoaderInput, start: SearchRecord) -> str:
    """Says what is measured, for how long, and what an earlier search has measured."""
    configuration = start.configuration
    name = loader_input.name
    if loader_input.wrapper:
        name += f" (only the DataLoader in a {loader_input.wrapper})"
    candidates = configuration.search.candidates
    numbers = str(candidates[0])
    if len(candidates) > 1:
        numbers += f" to {candidates[-1]}"
    at_most_s = limit_s(configuration)
    limit = f"at most {units.seconds(at_most_s)}" if at_most_s < math.inf else "without a time limit"
    line = f"measuring {name} with num_workers={numbers}{configuration.rank_suffix}: {limit}"
    if start.measured_numbers:
        measured = ", ".join(map(str, start.measured_numbers))
        line += f"; num_workers={measured} measured at {start.started_at}, before an earlier search was ended"
    return line


def _measured(
    start: SearchRecord, loader_input: LoaderInput, training_step: TrainingStep, reporter: ProgressReporter
) -> SearchRecord:
    with temporary.folder() as folder, DatasetServer() as dataset_server:
        pickled = _pickled(start.configuration, loader_input, training_step, Path(folder))
        reporter.note(_announcement(loader_input, start))
        spec = spec_of(pickled, str(Path.cwd()))
        start_process = dataset_server.factory(lambda configuration: spec, reporter.print_line)
        if loader_input.settings_unknown:
            start = _with_settings_of_maker(start, start_process)
        environment = Environment(start_process=start_process, fork_s=forking.seconds_of_a_fork())
        return run_search(start, environment, reporter)


def _pickled(
    configuration: Configuration, loader_input: LoaderInput, training_step: TrainingStep, folder: Path
) -> Configuration:
    """Pickles the DataLoader and the training step into a folder; returns what trial processes make from them."""
    pickled = replace(configuration, dataset=loader_input.pickle_into(folder))
    if callable(training_step):
        step = pickling.write("the training step", training_step, folder / "training_step")
        pickled = replace(pickled, training_step=step)
    return pickled


def _with_settings_of_maker(start: SearchRecord, start_process: ProcessFactory) -> SearchRecord:
    """Sets the settings of the DataLoader that a function returned, or DataLoader's defaults."""
    configuration = start.configuration
    with start_process(configuration, None, time.perf_counter() + START_LIMIT_S) as process:
        settings = process.facts.loader
    assert settings is not None  # the trial process always reports it
    columns = dict(configuration.columns)
    for name in columns:
        if hasattr(settings, name):
            columns[name] = getattr(settings, name)
    return replace(start, configuration=replace(configuration, loader=settings, columns=columns))
