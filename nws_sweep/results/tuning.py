"""What has been found about the settings of a loader that is in use, and the changes."""

from dataclasses import dataclass

from nws_sweep.results.settings import LoaderSettings


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of settings.

    Attributes:
        epoch: From 0, of the loader.
        batch: The first one with the new settings, from 0.
        before: Settings until then.
        after: Settings from then on.
        reason: Why.
        longest_wait_s: The longest wait of the training from the decision until the new workers have given a batch.
    """

    epoch: int
    batch: int
    before: LoaderSettings
    after: LoaderSettings
    reason: str
    longest_wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What has been found about the settings of a loader so far.

    Attributes:
        before: Settings of the loader as the program made it.
        after: Settings in use.
        switches: The changes, in their order.
        is_decided: Whether the settings stay as they are from now on.
        is_provisional: Whether the tuning ended before the settings in use had been timed enough.
        reason: Why they are what they are; empty before that is known.
        batch_s: Measured seconds per batch, steps of the training included: at first and with each change.
    """

    before: LoaderSettings
    after: LoaderSettings
    switches: tuple[Switch, ...] = ()
    is_decided: bool = False
    is_provisional: bool = False
    reason: str = ""
    batch_s: tuple[float, ...] = ()

    @property
    def gain(self) -> float:
        """Time per batch at first / time per batch at the end; 1 if nothing was changed."""
        return self.batch_s[0] / self.batch_s[-1] if len(self.batch_s) > 1 and self.after != self.before else 1.0

    @property
    def changes(self) -> str:
        """The settings in use, and those as the program made the loader."""
        before, after = self.before, self.after
        values = {
            "num_workers": (before.num_workers, after.num_workers),
            "prefetch_factor": (before.prefetched, after.prefetched),
        }
        changes = [f"{name}={now} instead of {then}" for name, (then, now) in values.items() if then != now]
        return ", ".join(changes) or f"num_workers={after.num_workers} stays"

    def __str__(self) -> str:
        return f"{self.changes}: {self.reason or 'not decided yet'}"
