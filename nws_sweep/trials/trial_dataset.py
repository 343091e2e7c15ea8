"""The dataset of a trial process: made as its configuration says, with hints about what
workers copy and share."""

import multiprocessing
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nws_sweep.dataloading import loaders, objects, sharing
from nws_sweep.dataloading.loaders import Source
from nws_sweep.errors import DatasetError
from nws_sweep.records import DatasetFacts, ProcessSpec
from nws_sweep.system import fork_server
from nws_sweep.trials import recipes


@dataclass(frozen=True, slots=True)
class TrialDataset:
    """A dataset with what was found in it.

    Attributes:
        source: Makes its DataLoaders.
        files: Paths, by descriptor, of the files that were opened with the dataset;
            forked workers share them.
        facts: What does not depend on the configuration of a trial; without the
            accelerator, which no process may use before it is forked.
    """

    source: Source
    files: Mapping[int, str]
    facts: DatasetFacts


def make_dataset(spec: ProcessSpec) -> TrialDataset:
    """Makes the dataset; DatasetError if it cannot be made, is empty or is no
    dataset."""
    configuration = spec.configuration
    opened_before: Mapping[int, str] = {}
    # a fork of the program may read any file that the program has opened
    if not fork_server.is_of_program:
        opened_before = sharing.open_files()
    torch.manual_seed(configuration.seed)
    dataset_or_loader = recipes.make("dataset", configuration.dataset, DatasetError)
    source = Source(
        dataset_or_loader, configuration.seed, spec.rank, configuration.ranks
    )
    _check(source, configuration.dataset.get("_target_"))
    files: dict[int, str] = {}
    handles: tuple[str, ...] = ()
    if multiprocessing.get_start_method() == "fork":
        files = {
            number: path
            for number, path in sharing.open_files().items()
            if number not in opened_before
        }
        of_dataset = () if fork_server.is_of_program else files.values()
        handles = hint(partial(sharing.described, files=of_dataset), source.dataset)
    return TrialDataset(source, files, _facts(source, handles))


def _facts(source: Source, handles: tuple[str, ...]) -> DatasetFacts:
    return DatasetFacts(
        type=f"{type(source.dataset).__module__}.{type(source.dataset).__qualname__}",
        iterable=source.is_iterable,
        samples=source.samples,
        accelerator=None,
        objects=hint(objects.python_objects, source.dataset),
        handles=handles,
        generators=hint(Source.unseeded_generators, source),
        code=source.fingerprint(),
        loader=source.settings,
    )


def _check(source: Source, target: Any) -> None:
    dataset = source.dataset
    if not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        kind = type(dataset).__name__
        raise DatasetError(
            f"dataset {target}: got {kind}, which has neither __getitem__ nor __iter__"
        )
    loaders.check_length(dataset)
    if source.samples == 0:
        kind = type(dataset).__name__
        raise DatasetError(f"dataset {kind} is empty: 0 samples, at least 1 is needed")


def hint(look: Callable[[Any], tuple[Any, ...]], value: Any) -> tuple[Any, ...]:
    """Returns what ``look`` finds in a value; an exception in code of the user loses
    this hint only."""
    try:
        return look(value)
    except Exception:
        traceback.print_exc()
        return ()
