"""The samples per second that tables and pictures show. Pure."""

import math

from nws_sweep.records import Estimate, SearchRecord, Trial


def rate(trial: Trial, result: SearchRecord) -> Estimate | None:
    """Computes the samples per second of an epoch with its start, whose time is what
    ranks settings.

    Without a length of an epoch those between its start and its end; None without them.
    The interval is that of the time of a batch.
    """
    measured = trial.measurement
    steady = measured.rate if measured else None
    batches, facts = trial.batches, result.facts
    if not (measured and measured.batch_s and measured.epoch_s and steady and batches):
        return steady
    samples = batches * measured.batch_s.value * steady.value
    ranks = result.configuration.ranks
    counted = facts.samples_of(trial.settings, ranks) if facts else None
    # the last one may be shorter
    if counted and math.ceil(counted / (trial.settings.batch_size or 1)) == batches:
        samples = counted
    return steady.scaled(samples / (measured.epoch_s * steady.value))
