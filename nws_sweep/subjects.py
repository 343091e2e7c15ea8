"""What a program wants to have measured: a dataset with a DataLoader's keywords, what makes one, or a DataLoader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from nws_sweep import config as schema
from nws_sweep import handover, loaders, processes
from nws_sweep.errors import ConfigurationError
from nws_sweep.fingerprints import fingerprint
from nws_sweep.records import LoaderSettings

DATALOADER_DEFAULTS: Mapping[str, Any] = {
    "batch_size": 1, "shuffle": False, "sampler": None, "batch_sampler": None, "collate_fn": None, "pin_memory": False,
    "drop_last": False, "timeout": 0, "worker_init_fn": None, "prefetch_factor": None, "persistent_workers": False,
    "multiprocessing_context": None, "generator": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is going to be measured.

    Attributes:
        name: The dataset's class.
        settings: What the DataLoader is given beside num_workers.
        template: A DataLoader without workers; None if the arms must make one.
        maker: Makes that DataLoader in an arm, if there is no template.
        open: Whether no settings were given, so that those of a DataLoader which the maker may make stand.
        identity: What tells it from others; empty where that cannot be told before it is made.
    """

    name: str
    settings: LoaderSettings
    template: DataLoader[Any] | None
    maker: Callable[[], Any] | None
    open: bool = False
    identity: str

    def hand_over(self, folder: Path) -> dict[str, Any]:
        """Writes it where arms find it; the node of its file."""
        if self.template is not None:
            return handover.write("the DataLoader", self.template, folder / "loader")
        assert self.maker is not None
        return handover.write_maker("the function that makes the dataset", self.maker, folder / "maker")


def subject_of(dataset: Any, keywords: Mapping[str, Any]) -> Subject:
    """What is going to be measured.

    Args:
        dataset: A dataset, a function that makes one, or a DataLoader.
        keywords: Those of ``DATALOADER_DEFAULTS``, all of them.

    Raises:
        ConfigurationError: If it is none of these, or a keyword is wrong.
    """
    if isinstance(dataset, DataLoader):
        return _of_loader(dataset, keywords)
    tried = {name: keywords[name] for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context")}
    tried["timeout"] = float(keywords["timeout"])
    _check_loader_settings(tried)
    fixed = {name: value for name, value in keywords.items() if name not in tried}
    if isinstance(dataset, type) or not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        return _of_maker(dataset, fixed, tried)
    template: DataLoader[Any] = DataLoader(dataset, **fixed)
    return _of_template(template, replace(loaders.settings_of(template), **tried))


def _of_loader(loader: DataLoader[Any], keywords: Mapping[str, Any]) -> Subject:
    _refuse_keywords(keywords)
    own = loaders.unwrapped(loader)
    return _of_template(loaders.dormant(own), loaders.settings_of(own))


def _refuse_keywords(keywords: Mapping[str, Any]) -> None:
    for name, value in keywords.items():
        if value != DATALOADER_DEFAULTS[name]:
            raise ConfigurationError(f"{name}={value!r}: a DataLoader has its own {name}; search(dataset, ...) sets it")


def _of_template(template: DataLoader[Any], settings: LoaderSettings) -> Subject:
    functions = (template.collate_fn, template.worker_init_fn)
    samplers = (template.sampler, template.batch_sampler)
    parts = (template.dataset, *functions, *samplers, type(template), processes.start_method())
    return Subject(
        name=type(template.dataset).__name__,
        settings=settings,
        template=template,
        maker=None,
        identity=fingerprint(*parts, loaders.samples_per_epoch(template)),
    )


def _of_maker(maker: Any, fixed: Mapping[str, Any], tried: Mapping[str, Any]) -> Subject:
    if not callable(maker):
        raise ConfigurationError(
            f"dataset of type {type(maker).__name__}: allowed is a dataset (with __getitem__ or __iter__), a function "
            "that makes one, or a DataLoader"
        )
    if fixed["sampler"] is not None or fixed["batch_sampler"] is not None:
        raise ConfigurationError("a sampler needs the dataset itself, not a function that makes it")
    settings = LoaderSettings(batch_size=fixed["batch_size"], pin_memory=fixed["pin_memory"], **tried)
    return Subject(
        name=getattr(maker, "__name__", type(maker).__name__),
        settings=replace(settings, shuffle=bool(fixed["shuffle"]), drop_last=fixed["drop_last"]),
        template=None,
        maker=functools.partial(_made, maker, dict(fixed), dict(tried)),
        open=all(value == DATALOADER_DEFAULTS[name] for name, value in {**fixed, **tried}.items()),
        identity="",  # what it makes may depend on anything
    )


def _made(maker: Callable[[], Any], fixed: Mapping[str, Any], tried: Mapping[str, Any]) -> Any:
    """Runs in the arm."""
    dataset = maker()
    if isinstance(dataset, DataLoader):
        _refuse_keywords({**fixed, **tried})
        return dataset
    plain = {name: value for name, value in fixed.items() if name != "shuffle"}
    return DataLoader(dataset, shuffle=None if isinstance(dataset, IterableDataset) else fixed["shuffle"], **plain)


def _check_loader_settings(settings: Mapping[str, Any]) -> None:
    schema.require("prefetch_factor", settings["prefetch_factor"])
    for name in ("multiprocessing_context", "timeout"):
        schema.require(name, settings[name], f"loader.{name}")
