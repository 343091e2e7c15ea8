"""Hydra programs that use nws_sweep, for tests."""

from __future__ import annotations

from pathlib import Path

# Prints its configuration, which has its own batch_size and dataset.
PROGRAM = """\
import hydra
from omegaconf import OmegaConf


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    print(OmegaConf.to_yaml(config, resolve=True))


main()
"""
CONFIG = """\
defaults:
  - dataset: a
  - _self_
batch_size: 32
"""


def write_host(folder: Path) -> Path:
    """A program ``train.py`` with its ``conf/``."""
    write(folder / "train.py", PROGRAM)
    write(folder / "conf" / "config.yaml", CONFIG)
    for name in ("a", "b"):
        write(folder / "conf" / "dataset" / f"{name}.yaml", f"name: {name}\n")
    return folder


def write(path: Path, text: str) -> None:
    """Writes a file and its parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# Resembles a training: samples sleep, and after each epoch it iterates a second loader.
TRAINING = """\
import time

import hydra
from hydra.utils import instantiate


class Sleeping:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(0.005)
        return index


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    loader = instantiate(config.loader)
    if config.fails_with == config.loader.num_workers:
        raise RuntimeError("out of luck")
    for _ in range(2):
        print("seen", sorted(index for batch in loader for index in batch.tolist())[-1])
        for batch in instantiate(config.loader, dataset={"length": 8}, num_workers=0):
            pass


if __name__ == "__main__":
    main()
"""
TRAINING_CONFIG = """\
fails_with: null
loader:
  _target_: torch.utils.data.DataLoader
  num_workers: 0
  batch_size: 4
  dataset:
    _target_: train.Sleeping
    length: 120
"""


def write_training_host(folder: Path) -> Path:
    """A program ``train.py`` that iterates DataLoaders, with its ``conf/``."""
    write(folder / "train.py", TRAINING)
    write(folder / "conf" / "config.yaml", TRAINING_CONFIG)
    return folder
