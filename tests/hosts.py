"""Other people's Hydra programs, for tests of what they see of nws_sweep."""

from __future__ import annotations

from pathlib import Path

# Prints what it was given, as any program might; it has a batch_size and a dataset of its own.
PROGRAM = """\
import hydra
from omegaconf import OmegaConf


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    print(OmegaConf.to_yaml(config, resolve=True))
    if "nws_sweep" in config:
        from nws_sweep.embedding import refuse_unserved

        refuse_unserved(config.nws_sweep)


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
    """A file, with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
