"""What a program wants to have measured: a dataset with a DataLoader's keywords, what makes one, or a DataLoader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.config import schema
from nws_sweep.dataloading import loaders, pickling
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.errors import ConfigurationError
from nws_sweep.results import LoaderSettings
from nws_sweep.system import processes

DATALOADER_DEFAULTS: Mapping[str, Any] = {
    "batch_size": 1, "shuffle": False, "sampler": None, "batch_sampler": None, "collate_fn": None, "pin_memory": False,
    "drop_last": False, "timeout": 0, "worker_init_fn": None, "prefetch_factor": None, "persistent_workers": False,
    "multiprocessing_context": None, "generator": None,
}  # fmt: skip
# Those that DataLoader refuses without workers.
_OF_WORKERS = ("timeout", "prefetch_factor", "persistent_workers", "multiprocessing_context")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderInput:
    """What is going to be measured.

    Attributes:
        name: The dataset's class.
        settings: What the DataLoader is given beside num_workers.
        made: A DataLoader without workers, or a function that makes one in a trial process.
        settings_unknown: Whether no settings were given, so that those of a DataLoader which the function may make stand.
        fingerprint: What tells it from others; empty where that cannot be told before it is made.
    """

    name: str
    settings: LoaderSettings
    made: DataLoader[Any] | Callable[[], DataLoader[Any]]
    settings_unknown: bool = False
    fingerprint: str = ""

    def pickle_into(self, folder: Path) -> dict[str, Any]:
        """Writes it where trial processes find it; the node of its file."""
        if isinstance(self.made, DataLoader):
            return pickling.write("the DataLoader", self.made, folder / "loader")
        return pickling.write_maker("the function that makes the dataset", self.made, folder / "maker")


def loader_input_of(dataset: Any, keywords: Mapping[str, Any]) -> LoaderInput:
    """What is going to be measured, of a dataset, a function that makes one, or a DataLoader.

    The keywords are all those of ``DATALOADER_DEFAULTS``; ConfigurationError if one is wrong.
    """
    if isinstance(dataset, DataLoader):
        _refuse_keywords(keywords)
        own = loaders.unwrapped(dataset)
        return _of_template(loaders.without_workers(own), loaders.settings_of(own))
    tried = {name: keywords[name] for name in _OF_WORKERS} | {"timeout": float(keywords["timeout"])}
    schema.require("prefetch_factor", tried["prefetch_factor"])
    for name in ("multiprocessing_context", "timeout"):
        schema.require(name, tried[name], f"loader.{name}")
    if isinstance(dataset, type) or not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        return _of_maker(dataset, keywords, tried)
    template: DataLoader[Any] = DataLoader(dataset, **_without_workers(keywords))
    return _of_template(template, replace(loaders.settings_of(template), **tried))


def _without_workers(keywords: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if name not in _OF_WORKERS}


def _refuse_keywords(keywords: Mapping[str, Any]) -> None:
    for name, value in keywords.items():
        if value != DATALOADER_DEFAULTS[name]:
            raise ConfigurationError(f"{name}={value!r}: a DataLoader has its own {name}; search(dataset, ...) sets it")


def _of_template(template: DataLoader[Any], settings: LoaderSettings) -> LoaderInput:
    names = ("dataset", "collate_fn", "worker_init_fn", "sampler", "batch_sampler")
    parts = [getattr(template, name) for name in names]
    identity = fingerprint(*parts, type(template), processes.start_method(), loaders.samples_per_epoch(template))
    return LoaderInput(name=type(template.dataset).__name__, settings=settings, made=template, fingerprint=identity)


def _of_maker(maker: Any, keywords: Mapping[str, Any], tried: Mapping[str, Any]) -> LoaderInput:
    if not callable(maker):
        raise ConfigurationError(
            f"dataset of type {type(maker).__name__}: allowed is a dataset (with __getitem__ or __iter__), a function "
            "that makes one, or a DataLoader"
        )
    if keywords["sampler"] is not None or keywords["batch_sampler"] is not None:
        raise ConfigurationError("a sampler needs the dataset itself, not a function that makes it")
    plain = {name: keywords[name] for name in ("batch_size", "pin_memory", "drop_last")}
    return LoaderInput(
        name=getattr(maker, "__name__", type(maker).__name__),
        settings=LoaderSettings(**plain, **tried, shuffle=bool(keywords["shuffle"])),
        made=functools.partial(_made, maker, dict(keywords)),
        settings_unknown=all(value == DATALOADER_DEFAULTS[name] for name, value in keywords.items()),
    )


def _made(maker: Callable[[], Any], keywords: Mapping[str, Any]) -> DataLoader[Any]:
    """Runs in the trial process."""
    dataset = maker()
    if isinstance(dataset, DataLoader):
        _refuse_keywords(keywords)
        return dataset
    plain = _without_workers(keywords)
    if isinstance(dataset, IterableDataset):
        del plain["shuffle"]
    return DataLoader(dataset, **plain)
