"""The program of a small project: composes its config, and goes through an epoch."""

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

OmegaConf.register_new_resolver("twice", lambda value: 2 * value, replace=True)


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    loader = instantiate(config.loader)
    print("batches", sum(1 for _ in loader), "workers", loader.num_workers)


if __name__ == "__main__":
    main()
