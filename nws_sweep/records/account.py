"""Where the time of an epoch goes: parts that add up to it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from nws_sweep.records.ranges import NotNegative


class Part(str, enum.Enum):
    """A part of the time of an epoch; the value is its name in texts, the name that of
    its seconds in ``Account``."""

    STEP = "training step"
    MAKING = "making samples"
    SAMPLER = "sampler"
    MAIN = "main process"
    STARTING = "starting and ending workers"
    OTHERS = "other loaders"
    UNSEEN = "not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLoader:
    """What another DataLoader of the same program took during an epoch.

    Attributes:
        name: Of its dataset's class.
        workers: Its ``num_workers``; None if unknown.
        seconds: In its iterators, and between its batches unless it trains.
        called_s: Of them, in its iterators.
        starting_s: Of them, for starting and ending its workers.
        starts: How often its workers were started.
    """

    name: str
    workers: int | None = None
    seconds: NotNegative
    called_s: NotNegative = 0.0
    starting_s: NotNegative = 0.0
    starts: int = 0

    def scaled(self, factor: float) -> "OtherLoader":
        """The same starts, with all seconds times a factor."""
        return replace(
            self,
            seconds=factor * self.seconds,
            called_s=factor * self.called_s,
            starting_s=factor * self.starting_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The seconds of an epoch by what the main process did or waited for; of a batch,
    if no epoch has a known length.

    Attributes:
        step_s: Training step, as the clock of the host or of the accelerator shows it.
        making_s: Waiting for samples that are being made: more workers or cheaper
            functions remove it. Without workers the making itself.
        sampler_s: In the sampler.
        main_s: Receiving batches from workers: CPU time of the main process while it
            waits for a batch.
        starting_s: Until the first batch of a worker begins, and until the workers have
            ended.
        others: Other DataLoaders.
        unseen_s: Between two epochs, without other DataLoaders.
    """

    step_s: NotNegative
    making_s: NotNegative
    sampler_s: NotNegative = 0.0
    main_s: NotNegative = 0.0
    starting_s: NotNegative = 0.0
    others: tuple[OtherLoader, ...] = ()
    unseen_s: NotNegative = 0.0

    @property
    def seconds(self) -> Mapping[Part, float]:
        """The seconds of each part, the longest first."""
        by_part = {part: getattr(self, f"{part.name.lower()}_s") for part in Part}
        return dict(sorted(by_part.items(), key=lambda item: -item[1]))

    @property
    def others_s(self) -> float:
        """The seconds of other DataLoaders."""
        return sum(loader.seconds for loader in self.others)

    @property
    def columns(self) -> dict[str, float]:
        """The seconds of each part under names for a table."""
        by_part = self.seconds
        return {f"account_{part.name.lower()}_s": by_part[part] for part in Part}

    @property
    def total_s(self) -> float:
        """The seconds of all parts."""
        return sum(self.seconds.values())

    def share(self, part: Part) -> float:
        """Share of the time, from 0 to 1."""
        return self.seconds[part] / self.total_s if self.total_s else 0.0

    def lasting(self, total_s: float) -> "Account":
        """The account of an epoch that takes ``total_s``: what no other part has is
        making.

        Parts that were measured in other windows than the epoch may add up to more:
        then each takes its share.
        """
        known_s = self.total_s - self.making_s
        if known_s <= total_s:
            return replace(self, making_s=total_s - known_s)
        scale = total_s / known_s
        names = [
            part.name
            for part in fields(self)
            if part.name not in ("making_s", "others")
        ]
        parts_s = {name: scale * getattr(self, name) for name in names}
        return Account(
            making_s=0.0,
            others=tuple(loader.scaled(scale) for loader in self.others),
            **parts_s,
        )
