"""What a dataset is, found when it is made, and warnings about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nws_sweep.records.ranges import DottedKey
from nws_sweep.records.settings import LoaderSettings

REMEDY = "open files and connections in each worker, on first use or in worker_init_fn"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonObjects:
    """An attribute of a dataset that holds many Python objects; each forked worker
    copies their pages over time."""

    attribute: str  # path from the dataset: ``samples``, ``datasets[0].samples``
    type: str  # such as ``list of str``
    count: int
    bytes: int  # memory of the objects, estimated


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """The places of the measured DataLoader's settings in a project's config."""

    keys: Mapping[str, DottedKey]  # dotted keys of the settings, by setting
    # Settings with several keys in the config, of which the one of the measured
    # loader is unknown.
    unclear: Mapping[str, tuple[DottedKey, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses a key that does not name its setting, which could be any value of
        another program."""
        named = [
            *self.keys.items(),
            *((name, key) for name, keys in self.unclear.items() for key in keys),
        ]
        for name, key in named:
            if name not in key.split("."):
                raise ValueError(f"{name} has the key {key}, which does not contain it")


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """Seconds of a batch without workers: of samples that are collated, and of an equal
    one, ``dataset[indices]``."""

    samples_s: float
    whole_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """Properties of a dataset, found when it is made."""

    type: str  # the class, with its module
    iterable: bool
    # of an epoch, by the length of the dataset or the sampler; None if unknown
    samples: int | None
    accelerator: str | None  # that copies from pinned memory
    objects: tuple[PythonObjects, ...] = ()  # the largest first
    # descriptions of open files and other handles that forked workers share
    handles: tuple[str, ...] = ()
    # whether the sampler draws a random order, so that any batches stand for the epoch
    is_shuffled: bool = True
    # places of its own random number generators that no worker_init_fn may seed
    generators: tuple[str, ...] = ()
    code: str = ""  # hash of the dataset, its code and what this code reaches
    # of the DataLoader that contained the dataset, if any
    loader: LoaderSettings | None = None
    # None if it was not measured in a Hydra program
    project: ProjectFacts | None = None
    # None if the dataset gives none that are equal, or was not tried
    whole_batches: WholeBatches | None = None

    def samples_of(self, settings: LoaderSettings, ranks: int) -> int | None:
        """Samples of an epoch, per rank, by its settings; None if unknown.

        The ranks divide the samples as DistributedSampler does; the length of an
        iterable dataset is that of one rank.
        """
        size, shared_by = settings.batch_size, 1 if self.iterable else ranks
        if self.samples is None or size is None:
            return None
        return (
            self.samples // shared_by // size * size
            if settings.drop_last
            else -(-self.samples // shared_by)
        )


def shared_handles_warning(facts: DatasetFacts) -> str:
    """A warning about open files and connections that forked workers share."""
    return f"forked workers share {', '.join(facts.handles)}: {REMEDY}"


def equal_draws_warning(where: str) -> str:
    """A warning about workers that draw the same random numbers."""
    return (
        f"each worker draws the same random numbers in each epoch ({where}): seed the generator in worker_init_fn, "
        "such as nws_sweep.seed_worker; tune and autotune do so"
    )
