"""Divides the configurations of a grid by their dataset: times of two datasets are
never compared. Pure."""

from collections.abc import Sequence

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity, time_of
from nws_sweep.records import Estimate, Trial, shown

BETWEEN = " · "
MOST_DATASETS = 12  # in a picture, and with a card on the page


def by_dataset(summary: Summary) -> dict[str, list[ConfigurationSummary]]:
    """Lists the measured configurations of each dataset, in the order of measuring.

    The name of the dataset is empty if all have the same one.
    """
    names = summary.of_datasets
    datasets: dict[str, list[ConfigurationSummary]] = {}
    for configuration in summary.configurations:
        if configuration.best:
            datasets.setdefault(label(configuration, names), []).append(configuration)
    return datasets


def within_dataset(summary: Summary) -> tuple[str, ...]:
    """Names the columns that differ between configurations of the same dataset."""
    names = summary.of_datasets
    return tuple(name for name in summary.distinguishing if name not in names)


def quantity_of(configurations: Sequence[ConfigurationSummary]) -> Quantity:
    """Selects what a time is of: an epoch; without its length a batch, or a sample of
    batches of several sizes."""
    measured = [
        trial
        for configuration in configurations
        for trial in configuration.worker_trials
        if trial.objective_s is not None
    ]
    if all(trial.batches for trial in measured):
        return Quantity.EPOCH
    sizes = {trial.settings.batch_size for trial in measured}
    if len(sizes) == 1:
        return Quantity.BATCH
    return Quantity.SAMPLE


def time_with_interval(trial: Trial, quantity: Quantity) -> Estimate | None:
    """Gives the time of a trial, s; that of an epoch with the relative interval of its
    batches. None if unknown."""
    time_s, batch_s = time_of(trial, quantity), time_of(trial, Quantity.BATCH)
    if quantity is Quantity.EPOCH and time_s and batch_s:
        return batch_s.scaled(time_s.value / batch_s.value)
    return time_s


def cell(configuration: ConfigurationSummary, name: str) -> str:
    """Writes a configuration's value of a column as on the command line."""
    columns = configuration.configuration.columns
    if name not in columns:
        return "-"
    return shown(columns[name]) or '""'


def label(configuration: ConfigurationSummary, names: Sequence[str]) -> str:
    """Writes a configuration's values of several columns."""
    return BETWEEN.join(cell(configuration, name) for name in names)
