"""Describes what the Python API measures: a dataset with keywords, a function that
makes it, or a DataLoader."""

import copy
import functools
import inspect
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from nws_sweep.config import schema
from nws_sweep.dataloading import loaders, pickling
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.errors import ConfigurationError, DatasetError, one_line
from nws_sweep.records import LoaderSettings
from nws_sweep.system import processes

DATALOADER_DEFAULTS: Mapping[str, Any] = {
    "batch_size": 1,
    "shuffle": False,
    "sampler": None,
    "batch_sampler": None,
    "collate_fn": None,
    "pin_memory": False,
    "drop_last": False,
    "timeout": 0,
    "worker_init_fn": None,
    "prefetch_factor": None,
    "persistent_workers": False,
    "multiprocessing_context": None,
    "generator": None,
    "in_order": True,
}
# DataLoader refuses these with num_workers=0, or does not know them before torch 2.6.
_OF_WORKERS = (
    "timeout",
    "prefetch_factor",
    "persistent_workers",
    "multiprocessing_context",
    "in_order",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderInput:
    """What is measured."""

    name: str  # class of the dataset, or name of the function
    settings: LoaderSettings
    # without workers; a function is called in a trial process
    loader: DataLoader[Any] | Callable[[], DataLoader[Any]]
    # a function without keywords: the DataLoader that it makes has the settings
    settings_unknown: bool = False
    # of the dataset and the functions of the DataLoader; empty for a function
    fingerprint: str = ""
    # class of an object that wraps the DataLoader, and is not measured
    wrapper: str = ""

    def pickle_into(self, folder: Path) -> dict[str, Any]:
        """Writes a file that trial processes load; returns the node for Hydra's
        ``instantiate``."""
        path = folder / "loader"
        if not isinstance(self.loader, DataLoader):
            return pickling.write(
                "the function that makes the dataset", self.loader, path, is_maker=True
            )
        remedy = "pass a function that makes it, such as lambda: DataLoader(...)"
        return pickling.write("the DataLoader", self.loader, path, remedy=remedy)


def is_module(value: object) -> bool:
    """Whether the object is a LightningDataModule, or has a ``train_dataloader`` as a
    LightningDataModule has."""
    return hasattr(value, "train_dataloader") and not isinstance(
        value, Dataset | DataLoader | type
    )


def loader_of_module(module: Any) -> Any:
    """Returns the training DataLoader of a LightningDataModule, which is prepared and
    set up for it."""
    module.prepare_data()
    module.setup("fit")
    return module.train_dataloader()


def loader_input_of(dataset: Any, keywords: Mapping[str, Any]) -> LoaderInput:
    """Describes what is measured: a dataset, a function that makes it, a DataLoader, or
    that of a LightningDataModule.

    ``keywords`` has a value for each key of ``DATALOADER_DEFAULTS``. ConfigurationError
    if one is out of range or does not fit the dataset; DataLoader's own ValueError if
    they contradict each other.
    """
    if is_module(dataset):
        dataset = loader_of_module(copy.copy(dataset))
    if loaders.is_loader(dataset):
        return _of_loader(dataset, keywords)
    if isinstance(dataset, str | os.PathLike):
        raise ConfigurationError(
            f"{str(dataset)!r}: a path is not a dataset; a folder is ImageFolder(path, transform) of torchvision"
        )
    _refuse_lists(keywords)
    of_workers = {name: keywords[name] for name in _OF_WORKERS}
    of_workers["timeout"] = float(keywords["timeout"])
    for name in ("prefetch_factor", "multiprocessing_context", "timeout"):
        schema.require(name, of_workers[name])
    schema.require("batch_size", keywords["batch_size"])
    has_order = keywords["sampler"] is not None or keywords["batch_sampler"] is not None
    if not _is_maker(dataset):
        _check_dataset(dataset, has_order)
        template: DataLoader[Any] = DataLoader(dataset, **_without_workers(keywords))
        return _of_template(
            template, replace(loaders.settings_of(template), **of_workers)
        )
    if has_order:
        raise ConfigurationError(
            "a sampler needs the dataset itself, not a function that makes it"
        )
    _require_no_arguments(dataset)
    stand_in: Any = range(1)  # for the dataset that the function will make
    settings = loaders.settings_of(DataLoader(stand_in, **_without_workers(keywords)))
    return LoaderInput(
        name=getattr(dataset, "__name__", type(dataset).__name__),
        settings=replace(settings, **of_workers),
        loader=functools.partial(_make_loader, dataset, dict(keywords)),
        settings_unknown=all(
            value == DATALOADER_DEFAULTS[name] for name, value in keywords.items()
        ),
    )


def _of_loader(loader: Any, keywords: Mapping[str, Any]) -> LoaderInput:
    _refuse_keywords(keywords)
    inner = loaders.unwrapped(loader)
    loaders.check_length(inner.dataset)
    plain = loaders.untuned(inner)
    loader_input = _of_template(
        loaders.without_workers(plain), loaders.settings_of(plain)
    )
    if inner is loader:
        return loader_input
    return replace(loader_input, wrapper=type(loader).__name__)


def _is_maker(value: Any) -> bool:
    """Whether it is a function or a class that makes the dataset."""
    has_samples = hasattr(value, "__getitem__") or hasattr(value, "__iter__")
    return isinstance(value, type) or (callable(value) and not has_samples)


def _require_no_arguments(maker: Callable[..., Any]) -> None:
    """ConfigurationError if the function or the class cannot be called without
    arguments, such as ``ImageFolder``."""
    try:
        inspect.signature(maker).bind()
    except ValueError:  # of a function in C
        return
    except TypeError as error:
        name = getattr(maker, "__name__", type(maker).__name__)
        raise ConfigurationError(
            f"{name}: {error}; pass a dataset, as {name}(...) makes it, or lambda: {name}(...)"
        ) from error


def _without_workers(keywords: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if name not in _OF_WORKERS}


def _refuse_keywords(keywords: Mapping[str, Any]) -> None:
    for name, value in keywords.items():
        if value != DATALOADER_DEFAULTS[name]:
            meant = "search(dataset, ...) sets it"
            if name == "timeout":
                meant += ", and time_limit_s limits the search"
            raise ConfigurationError(
                f"{name}={value!r}: a DataLoader has its own {name}; {meant}"
            )


def _of_template(template: DataLoader[Any], settings: LoaderSettings) -> LoaderInput:
    return LoaderInput(
        name=type(template.dataset).__name__,
        settings=settings,
        loader=template,
        fingerprint=fingerprint(
            template.dataset,
            template.collate_fn,
            template.worker_init_fn,
            template.sampler,
            template.batch_sampler,
            type(template),
            processes.start_method(),
            processes.main_path(),
            loaders.samples_per_epoch(template),
        ),
    )


def _refuse_lists(keywords: Mapping[str, Any]) -> None:
    for name, value in keywords.items():
        if isinstance(value, list | tuple) and name not in ("sampler", "batch_sampler"):
            raise ConfigurationError(
                f"{name}={value!r}: a search takes one value; nws_sweep.sweep() takes several"
            )


def _check_dataset(dataset: Any, has_order: bool) -> None:
    if not isinstance(dataset, IterableDataset):
        needed = ("__getitem__",) if has_order else ("__getitem__", "__len__")
        missing = [name for name in needed if not hasattr(dataset, name)]
        if missing:
            raise ConfigurationError(
                f"dataset of type {type(dataset).__name__} has no {' and no '.join(missing)}; expected a dataset with "
                f"{' and '.join(needed)}, an IterableDataset, a function that makes one, or a DataLoader"
            )
    loaders.check_length(dataset)


def _make_loader(
    maker: Callable[[], Any], keywords: Mapping[str, Any]
) -> DataLoader[Any]:
    """Runs in the trial process."""
    try:
        dataset = maker()
    except Exception as error:  # code of the user
        traceback.print_exc()
        name = getattr(maker, "__name__", type(maker).__name__)
        raise DatasetError(
            one_line(
                f"{name}(), which makes the dataset: {type(error).__name__}: {error}"
            )
        ) from error
    if loaders.is_loader(dataset):
        _refuse_keywords(keywords)
        return loaders.unwrapped(dataset)
    plain = _without_workers(keywords)
    if isinstance(dataset, IterableDataset):
        del plain["shuffle"]
    return DataLoader(dataset, **plain)
