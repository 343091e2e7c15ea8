"""``search``, and what it shares with ``tune`` and ``sweep``: the search in rank 0."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nws_sweep.api.loader_search import LoaderSearch
from nws_sweep.api.request import Request, TrainingStep
from nws_sweep.config.python_notation import explained, in_python
from nws_sweep.dataloading.inputs import LoaderInput, loader_input_of
from nws_sweep.errors import NwsSweepWarning, printable
from nws_sweep.model.epoch_length import LONGER
from nws_sweep.records import MeasureRules, Status, TrialState
from nws_sweep.report.progress import Progress, noter
from nws_sweep.report.search_result import SearchResult
from nws_sweep.system import platforms
from nws_sweep.trials import rank0


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

    docs/understand/searching.md explains how. Separate processes measure a copy of the
    dataset: the dataset, the sampler, the generator and the random state do not change.
    Under torch.distributed all ranks must call it: rank 0 measures for all ranks.

    Args:
        dataset: A map-style or iterable dataset; a DataLoader, then without any of its
            keywords; a LightningDataModule; or a function that returns a dataset or a
            DataLoader, if it cannot be pickled (such results are not stored).
        batch_size: As in DataLoader, like all keywords up to in_order (torch 2.6 and
            later); multiprocessing_context is fork, spawn, forkserver or None.
        patience: Candidates in a row that may not improve before the search stops.
        strategy: ``adaptive``, ``patience`` or ``exhaustive``.
        num_workers: The candidates, as [0, 4, 8]; None for 0, 1, 2, ... max_workers.
        max_workers: The largest candidate; None for twice the usable CPUs or, if
            adaptive, max(64, CPUs), and more after a doubling that saved a fifth.
        settings: Names of settings to search after num_workers, as ["pin_memory"]; None
            for prefetch_factor and persistent_workers, unless given, if adaptive.
        training_step: What is done with each batch: None for nothing; seconds to sleep,
            which resembles a step on an accelerator; or a function of the batch.
        tolerance: The share of time that twice as many workers must save, 0 to 1.
        time_limit_s: Seconds after which the best so far is returned; None for 60, and
            30 for each of ``settings`` but prefetch_factor, if adaptive, else no limit.
        measure: How a candidate is measured: ``quick``, ``default``, ``rigorous`` or
            ``epoch`` (whole epochs), or your own rules; None for the defaults.
        check_samples: Which samples of workers must be those without workers, else the
            candidate fails, with a warning (docs/guides/data.md): None for a few, True
            also for an epoch of an iterable dataset, False for none.
        ranks: Loaders that run at the same time, as the ranks of a host
            (docs/guides/clusters.md). One is measured: result and candidates are per rank.
        reuse: Which earlier result of the same search on this machine is returned:
            ``fresh`` (same versions, at most 30 days old; also True), ``always`` any,
            ``never`` (also False) none. A search that was ended early goes on.
        config: ``cfg.get("nws_sweep")`` of a Hydra program with ``+nws_sweep=base``; it
            replaces the arguments from patience to reuse, training_step if it is None.
        progress: A function that is called with lines of text; True for standard error
            or the notebook's cell; False for none; None for True on a terminal and in a
            notebook, else for cost, waiting and result, or as ``NWS_SWEEP_LOG`` says.

    Returns:
        The best settings and all measurements; undecided, with the settings of the
        DataLoader and a warning, if only the first candidates were measured.

    Raises:
        ConfigurationError: If an argument is wrong, or the dataset cannot be pickled.
        DatasetError: If the dataset is empty or is not a dataset.
        NwsSweepError: If no candidate could be measured; the reason is the first one's.
        ValueError: Raised by DataLoader if its keywords contradict each other.

    Example:
        >>> import torch, nws_sweep
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> dataset = TensorDataset(torch.arange(512.0))
        >>> result = nws_sweep.search(dataset, batch_size=64, shuffle=True, num_workers=[0, 1])
        >>> loader = DataLoader(dataset, batch_size=64, shuffle=True, **result.loader_kwargs)
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

    def make_loader_input() -> LoaderInput:
        loader_input = loader_input_of(dataset, keywords)
        if timeout and time_limit_s is None and config is None:
            line = f"timeout={timeout} is DataLoader's, for a batch; time_limit_s limits the search"
            noter(progress)(line)
        return loader_input

    return search_for_all_ranks(make_loader_input, request)


def search_for_all_ranks(
    make_loader_input: Callable[[], LoaderInput], request: Request
) -> SearchResult:
    """Searches in rank 0, and warns if the result is undecided or workers deliver
    different samples than no workers.

    All ranks raise OutOfTime if rank 0 does.
    """
    result = rank0.run_on_rank0(lambda: _result(make_loader_input(), request))
    for line in _warnings(result):
        warnings.warn(
            f"nws_sweep: {in_python(printable(line))}", NwsSweepWarning, stacklevel=4
        )
    return result


def _result(loader_input: LoaderInput, request: Request) -> SearchResult:
    return SearchResult(*LoaderSearch(loader_input, request).run())


def _warnings(result: SearchResult) -> Iterator[str]:
    """Yields the lines that the caller must not miss, at most one of a kind."""
    if result.status == Status.UNDECIDED:
        yield result.conclusion.answer
    excluded, longer = [], []
    for trial in result.trials:
        if trial.state is TrialState.WRONG_SAMPLES:
            excluded.append(
                f"num_workers={trial.num_workers} is excluded: {trial.reason}"
            )
        elif trial.state is TrialState.OK:
            longer += [line for line in trial.warnings if line.startswith(LONGER)]
    yield from (*excluded[:1], *longer[:1])
