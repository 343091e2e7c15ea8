"""The frameworks in docs/guides/frameworks.md: their examples, unchanged but for the
function that the text names beside, on small data."""

import functools
import pickle
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from nws_sweep.online.iterator import TunedIterator
from nws_sweep.records import Tuning
from tests.online.test_iterator import Items, scripted
from tests.test_examples import run, shown

DOCUMENT, SAMPLES = "docs/guides/frameworks.md", 1280
BEFORE, DURING = "tune", "autotune"  # before training, and during it
# The warnings are those of the other packages.
pytestmark = [
    pytest.mark.slow, pytest.mark.extended, pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("examples"), pytest.mark.usefixtures("short_searches"),
]  # fmt: skip


class Numbers(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        time.sleep(0.001)
        return {"x": torch.tensor([float(index)])}


class Model(nn.Module):
    """Remembers the samples that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.seen: list[float] = []

    def forward(self, x: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
        self.seen += x.flatten().tolist()
        return {"loss": (self.weight * x).mean()}


def each_once(seen: list[float], epochs: int) -> bool:
    return len(seen) == epochs * SAMPLES and sorted(set(seen)) == list(range(SAMPLES))


def of_lightning(lightning: Any, folder: Path) -> tuple[Any, Any]:
    """A module, and the class of its trainer, which prints nothing."""

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model, self.fails = Model(), False

        def training_step(self, batch: Any, _: int) -> Any:
            if self.fails:
                raise ValueError("out of luck")
            return self.model(**batch)["loss"]

        def validation_step(self, batch: Any, _: int) -> None:
            pass

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = functools.partial(
        lightning.Trainer, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    return Module(), quiet


def of_hugging_face(transformers: Any, folder: Path) -> Any:
    return transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=2, per_device_train_batch_size=32, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, logging_strategy="no", remove_unused_columns=False,
    )  # fmt: skip


def shown_with(function: str, containing: str) -> str:
    block = shown(DOCUMENT, containing)
    if function == BEFORE:
        return block
    return re.sub(
        r"nws_sweep\.tune\((.*?)(, training_step=\S+)?\)$",
        r"nws_sweep.autotune(\1)",
        block,
        flags=re.M,
    )


@pytest.mark.parametrize("function", [BEFORE, DURING])
def test_lightning(tmp_path: Path, function: str) -> None:
    lightning = pytest.importorskip("lightning")
    given = {
        "lightning": lightning,
        "LightningDataModule": lightning.LightningDataModule,
        "dataset": Numbers(),
    }
    data = run(shown_with(function, "LightningDataModule"), **given)["MyData"]()
    module, trainer_class = of_lightning(lightning, tmp_path)
    trainer = trainer_class(max_epochs=2)
    trainer.fit(module, datamodule=data)
    assert each_once(module.model.seen, 2)
    assert isinstance(trainer.train_dataloader.tuning, Tuning)


def test_the_callback_of_lightning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lightning = pytest.importorskip("lightning")
    block = shown(DOCUMENT, "nws_sweep.lightning.AutoTune")
    module, trainer_class = of_lightning(lightning, tmp_path)
    trainer = run(
        block.replace("10", "2"), lightning=SimpleNamespace(Trainer=trainer_class)
    )["trainer"]
    pickle.loads(pickle.dumps(trainer.callbacks))
    loader = DataLoader(Numbers(), batch_size=32, shuffle=True)
    trainer.fit(module, loader, DataLoader(Numbers(), batch_size=64))
    assert each_once(module.model.seen, 2)
    assert "nws_sweep: num_workers=" in capsys.readouterr().err
    assert not isinstance(iter(loader), TunedIterator)
    module.fails = True
    with pytest.raises(ValueError, match="out of luck"):
        trainer_class(max_epochs=1, callbacks=trainer.callbacks[:1]).fit(module, loader)
    assert not isinstance(iter(loader), TunedIterator)


@pytest.mark.parametrize("reload_every", [0, 1])
@pytest.mark.parametrize("mode", ["max_size_cycle", "min_size"])
def test_two_loaders_of_lightning_keep_their_orders_and_the_random_numbers(
    tmp_path: Path, mode: str, reload_every: int
) -> None:
    """Lightning makes iterators that it drops when it loads the loaders again."""
    lightning = pytest.importorskip("lightning")

    def trained(tuned: Any) -> list[Any]:
        torch.manual_seed(0)
        module, trainer_class = of_lightning(lightning, tmp_path)
        steps: list[Any] = []

        def training_step(batch: Any, batch_idx: int) -> Any:
            indices = [part[0].tolist() for part in batch]
            steps.append((indices, torch.rand(()).item()))
            return module.model.weight.sum()

        def train_dataloader() -> Any:
            plain_loaders = [
                DataLoader(Items(count), 2, shuffle=True) for count in (12, 8)
            ]
            return lightning.pytorch.utilities.CombinedLoader(
                [tuned(plain) for plain in plain_loaders], mode
            )

        module.training_step, module.train_dataloader = training_step, train_dataloader
        trainer_class(max_epochs=4, reload_dataloaders_every_n_epochs=reload_every).fit(
            module
        )
        return steps

    changes = {(0, 2): 1, (1, 0): 2, (2, 0): 3}
    assert trained(lambda plain: scripted(plain, changes)) == trained(
        lambda plain: plain
    )


def test_the_callback_of_transformers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    arguments, model = of_hugging_face(transformers, tmp_path), Model()
    given = {
        "transformers": transformers,
        "model": model,
        "arguments": arguments,
        "dataset": Numbers(),
    }
    run(shown(DOCUMENT, "nws_sweep.transformers.AutoTune"), **given)["trainer"].train()
    assert each_once(model.seen, 2)
    assert "nws_sweep: num_workers=" in capsys.readouterr().err


def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    loader = DataLoader(Numbers(), batch_size=32, shuffle=True)
    tuned = run(
        shown(DOCUMENT, "autotune(accelerator.prepare"),
        accelerator=accelerator,
        loader=loader,
    )["loader"]
    seen = [value for batch in tuned for value in batch["x"].flatten().tolist()]
    assert each_once(seen, 1)
    assert isinstance(tuned.tuning, Tuning)


@pytest.mark.parametrize("function", [BEFORE, DURING])
def test_the_trainer_of_hugging_face(tmp_path: Path, function: str) -> None:
    transformers = pytest.importorskip("transformers")
    kind = run(shown_with(function, "TunedTrainer"), transformers=transformers)[
        "TunedTrainer"
    ]
    model = Model()
    kind(
        model=model,
        args=of_hugging_face(transformers, tmp_path),
        train_dataset=Numbers(),
    ).train()
    assert each_once(model.seen, 2)
