from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from nws_sweep.config.project_keys import keys_of
from nws_sweep.dataloading import project
from nws_sweep.errors import ConfigurationError
from nws_sweep.executor import trial_process
from nws_sweep.executor.trial_process import ChildProcess
from nws_sweep.results import LoaderSettings, ProjectFacts
from tests.conftest import ROOT
from tests.factories import process_spec

PROJECTS = ROOT / "tests" / "projects"


@contextmanager
def composed(folder: Path, config: str, **arguments: Any) -> Iterator[ChildProcess]:
    node = {"_target_": "nws_sweep.dataloading.project.load", "config": config, **arguments}
    spec = replace(process_spec("", changes={"dataset": node}), working_folder=str(folder))
    with trial_process.start(spec, trial_process.Supervision(kill_after_s=120)) as process:
        yield process


def test_a_dataloader_is_found_with_its_settings_and_their_keys() -> None:
    arguments = {"imports": ["train"], "overrides": "dataset=slower batch_size=8"}
    with composed(PROJECTS / "plain", "conf/config.yaml", **arguments) as process:
        facts = process.facts
        process.open(LoaderSettings(batch_size=50, num_workers=2))
        assert process.batches_per_epoch == 10
    assert facts.loader == LoaderSettings(batch_size=8, shuffle=True, drop_last=True)
    assert (facts.type, facts.samples) == ("slow_data.Slow", 500)
    assert facts.project is not None
    assert facts.project.keys == {"batch_size": "loader.batch_size", "num_workers": "loader.num_workers"}


DATASET = {"_target_": "tests.user_datasets.Plain"}
LOADER = {"_target_": "torch.utils.data.DataLoader"}
MODULE = {"_target_": "tests.dataloading.test_project.Module"}
OTHER = {"_target_": "torch.nn.Linear"}


class Module:
    """Has the methods of a LightningDataModule."""

    def __init__(self, loader: Any = None) -> None:
        self.called: list[str] = []
        self.loader = loader

    def prepare_data(self) -> None:
        self.called.append("prepare")

    def setup(self, stage: str) -> None:
        self.called.append(stage)

    def train_dataloader(self) -> Any:
        return self.loader or DataLoader([1, 2])  # type: ignore[arg-type]

    def test_dataloader(self) -> Any:
        return DataLoader([1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"loader": LOADER, "dataset": DATASET, "model": OTHER}, "loader"),
        ({"data": {"train_loader": LOADER, "val_loader": LOADER, "test": LOADER}}, "data.train_loader"),
        ({"data": MODULE, "model": OTHER, "dataset": DATASET}, "data"),
        ({"task": {"corpus": DATASET, "model": OTHER, "none": None, "gone": "???"}}, "task.corpus"),
        ({"data": {"_target_": "no.such.module.Thing"}, "corpus": DATASET}, "corpus"),
        ({"loader": LOADER, "alias": "${loader}"}, "loader"),
    ],
)
def test_the_node_of_the_training_data_is_found(config: dict[str, Any], key: str) -> None:
    assert project.find_node(OmegaConf.create(config)) == key


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        ({"first": DATASET, "second": DATASET}, None,
         "key=null: several nodes of the project fit: first, second; name one"),
        ({"model": OTHER, "data": {"_target_": "tests.factories.configuration"}}, None, "key=null: no node of the"),
        ({"loader": LOADER, "other": 1}, "lodaer", "key=lodaer: .* its top-level nodes are loader, other"),
        (None, None, "config=.*: no such file"),
        ({"loader": {**LOADER, "dataset": [1, 2], "batch_size": "${twice:8}"}}, None,
         r"imports=\[\]: Unsupported interpolation type twice; must be a list with the project's module"),
    ],
)  # fmt: skip
def test_wrong_nodes_are_reported(config: dict[str, Any] | None, key: str | None, message: str, tmp_path: Path) -> None:
    if config:
        OmegaConf.save(config, tmp_path / "config.yaml")
    with pytest.raises(ConfigurationError, match=f"^dataset.{message}"):
        project.load(str(tmp_path / "config.yaml"), key=key)


def test_a_data_module_is_prepared_for_the_method() -> None:
    module = Module()
    assert len(project.loader_of(module, "data", "train_dataloader")) == 2
    assert len(project.loader_of(module, "data", "test_dataloader")) == 1
    assert module.called == ["prepare", "fit", "prepare", "test"]
    with pytest.raises(ConfigurationError, match=r"dataset.method=other: Module has no such method"):
        project.loader_of(module, "data", "other")
    for made in (3, [module], {"a": module}, None):
        message = f"dataset.key=data: makes a {type(made).__name__}; must make one DataLoader, Dataset or"
        with pytest.raises(ConfigurationError, match=message):
            project.loader_of(made, "data", "train_dataloader")


@pytest.mark.extended
def test_a_project_in_the_layout_of_the_lightning_template() -> None:
    with composed(PROJECTS / "lightning_template", "configs/train.yaml") as process:
        facts = process.facts
    assert facts.loader == LoaderSettings(batch_size=128, shuffle=True)
    assert facts.project is not None
    assert facts.project.keys == {name: f"data.{name}" for name in ("batch_size", "num_workers", "pin_memory")}


@pytest.mark.parametrize(
    ("data", "split", "keys"),
    [
        ({"num_workers": {"train": 4, "val": 2}}, "train", "data.num_workers.train"),
        ({"num_workers": {"fit": 4, "validation": 2}}, "val", "data.num_workers.validation"),
        ({"num_workers": {"train": 4, "val": 2}}, "other", ("data.num_workers.train", "data.num_workers.val")),
        ({"num_workers": "${both}"}, "train", "data.num_workers.train"),
        ({"num_workers": [4, 2]}, "train", None),
        ({"val_loader": {"num_workers": 1}, "train_loader": {"num_workers": 2}}, "train",
            "data.train_loader.num_workers"),
        ({"a": {"num_workers": 1}, "b": {"num_workers": 2}}, "train", ("data.a.num_workers", "data.b.num_workers")),
    ],
)  # fmt: skip
def test_keys_are_those_of_the_split(data: dict[str, Any], split: str, keys: str | tuple[str, ...] | None) -> None:
    found = keys_of(OmegaConf.create({"data": data, "both": {"train": 1, "val": 2}}), "data", split)
    assert found.keys.get("num_workers", found.unclear.get("num_workers")) == keys


def test_the_outermost_key_counts_and_none_of_another_node() -> None:
    inner = {"num_workers": 1, "batch_size": 9, "sizes": [1, 2]}
    data = {"root": "${root}", "batch_size": 8, "other": "${elsewhere}", "inner": inner}
    config = OmegaConf.create({"root": "/data", "data": data, "elsewhere": {"pin_memory": True}})
    keys = {"batch_size": "data.batch_size", "num_workers": "data.inner.num_workers"}
    assert keys_of(config, "data") == ProjectFacts(keys=keys)


class Nested(Module):
    """Takes the config of its dataset, as programs with ``_recursive_=False`` pass it."""

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self.target = dataset["_target_"]


def test_a_node_is_made_without_recursion_if_recursion_fails() -> None:
    node = OmegaConf.create({"_target_": "tests.dataloading.test_project.Nested", "dataset": DATASET})
    assert len(project.make_loader(node, "data", "train_dataloader")) == 2


WRONG = {"_target_": "tests.dataloading.test_project.no_such_thing"}


@pytest.mark.parametrize(
    "node",
    [
        {"_target_": f"{__name__}.Nested", "dataset": WRONG, "unexpected": 1},
        {**LOADER, "dataset": WRONG},  # without recursion a DataLoader of the config itself
        {"_target_": "torch.utils.data.Subset", "dataset": WRONG, "indices": [0, 1]},
    ],
)
def test_the_error_is_that_of_the_first_attempt(node: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="no_such_thing"):
        project.make_loader(OmegaConf.create(node), "data", "train_dataloader")
