"""A planned change of settings."""

from dataclasses import dataclass

from nws_sweep.results import LoaderSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """Other settings, why, and from which batch of which epoch they may be used; both from 0.

    A plan with the settings in use ends the tuning.
    """

    settings: LoaderSettings
    reason: str
    epoch: int = 0
    batch: int = 0
