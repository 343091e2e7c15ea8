"""What a trial is measured under: all that decides which burst is next and what the bursts mean."""

from __future__ import annotations

from dataclasses import dataclass

from nws_sweep.records import LoaderSettings, MeasureRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a trial is measured under.

    Attributes:
        settings: What the DataLoader was given.
        rules: How long to measure.
        batches_per_epoch: Length of an epoch; None if unknown.
        cores: CPUs that the processes of the trial may use together.
        ranks: Loaders that go in lockstep; a batch is one of each then.
    """

    settings: LoaderSettings
    rules: MeasureRules
    batches_per_epoch: int | None
    cores: float = 1.0
    ranks: int = 1

    @property
    def batch_length(self) -> int:
        """Samples of a batch; a batch counts as one where its length is not the DataLoader's to decide."""
        return (self.settings.batch_size or 1) * self.ranks

    @property
    def clump(self) -> int:
        """Batches that arrive together: one of each worker."""
        return max(1, self.settings.num_workers)

    @property
    def queue(self) -> int:
        """Batches that may lie ready or be in the making."""
        return self.settings.queued_batches

    @property
    def warm_up(self) -> int:
        """Batches that a fresh epoch throws away: all that the queue holds, at least one."""
        return max(1, self.queue)

    @property
    def last_position(self) -> int | None:
        """Batches of an epoch after which the workers have nothing left to make; None if unknown."""
        return None if self.batches_per_epoch is None else self.batches_per_epoch - self.queue
