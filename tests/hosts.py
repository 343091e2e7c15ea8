"""Hydra programs that use nws_sweep, for tests."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from nws_sweep.config import hydra_versions
from tests.conftest import run_python
from tests.roots import made_up

# without it Hydra 1.4 warns
_TRUSTING = "execution_whitelist=hydra.utils.UNSAFE_DISABLE_EXECUTION_CHECKS"
_MAIN = 'version_base="1.3"' if hydra_versions.IS_1_3 else _TRUSTING

# Prints its configuration, which has its own batch_size and dataset.
PROGRAM = f"""\
import hydra
from omegaconf import OmegaConf


@hydra.main({_MAIN}, config_path="conf", config_name="config")
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
    datasets = {f"conf/dataset/{name}.yaml": f"name: {name}\n" for name in ("a", "b")}
    return made_up(
        folder, {"train.py": PROGRAM, "conf/config.yaml": CONFIG, **datasets}
    )


# Resembles a training: samples sleep, and before each epoch it iterates a second
# loader.
TRAINING = f"""\
import time

import hydra
import torch
from hydra.utils import instantiate


class Sleeping:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(0.005)
        return index


@hydra.main({_MAIN}, config_path="conf", config_name="config")
def main(config):
    loader = instantiate(config.loader)
    if config.fails_with == config.loader.batch_size:
        raise RuntimeError("out of luck")
    try:
        for _ in range(2):
            with torch.no_grad():
                list(instantiate(config.loader, dataset={{"length": 8}}, shuffle=False))
            print("seen", sorted(index for batch in loader for index in batch.tolist())[-1])
    except Exception as error:
        print("caught", repr(error))
        raise
    finally:
        print("left")


if __name__ == "__main__":
    main()
    print("after main")
"""
TRAINING_CONFIG = """\
fails_with: null
loader:
  _target_: torch.utils.data.DataLoader
  num_workers: 0
  batch_size: 4
  shuffle: true
  dataset:
    _target_: train.Sleeping
    length: 120
"""


def write_training_host(folder: Path) -> Path:
    """A program ``train.py`` that iterates DataLoaders, with its ``conf/``."""
    return made_up(folder, {"train.py": TRAINING, "conf/config.yaml": TRAINING_CONFIG})


def run_host(
    folder: Path, environment: Mapping[str, str], *overrides: str
) -> subprocess.CompletedProcess[str]:
    """Runs the program of a folder."""
    return run_python(folder, environment, "train.py", *overrides)
