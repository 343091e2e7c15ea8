"""What a training is told about its settings. "Took" is measured; what "would take" is
predicted. Pure."""

from nws_sweep import units
from nws_sweep.model import choice
from nws_sweep.online.decision import Try
from nws_sweep.online.times import Times
from nws_sweep.records import LoaderSettings

REPEATED = "its dataset does not read get_worker_info().num_workers, so every worker has all samples"
NO_GAIN = f"no other setting would save {units.share(choice.PROMISING)} of the time (predicted)"
MEASURED = "measured"
SLOWER = "not certain: it has become slower since it was chosen"
TOO_FEW = "too few batches were timed"
ENDED = "not certain: training ended before more was timed"


def named(settings: LoaderSettings, beside: LoaderSettings) -> str:
    """The number of workers, and with workers ``prefetch_factor`` and ``in_order`` if
    they differ."""
    return f"num_workers={short(settings, beside)}"


def short(settings: LoaderSettings, beside: LoaderSettings) -> str:
    """As ``named``, without the name of the first setting: ``4 prefetch_factor=8``."""
    text = str(settings.num_workers)
    if settings.num_workers and settings.prefetched != beside.prefetched:
        text += f" prefetch_factor={settings.prefetched}"
    if settings.num_workers and settings.in_order != beside.in_order:
        text += f" in_order={settings.in_order}"
    return text


def took(times: Times, settings: LoaderSettings, beside: LoaderSettings) -> str:
    """How long it took with these settings, before others are used."""
    measured = times.measured.get(settings)
    if measured is None:
        return TOO_FEW
    return f"{times.unit} took {times.text(measured.batch_s)} with {named(settings, beside)}"


def tried(times: Times, current: LoaderSettings, decision: Try) -> str:
    """Why other settings are tried."""
    text = took(times, current, decision.settings)
    if measured := times.measured.get(current):
        predicted_s = measured.batch_s * decision.predicted_s / decision.current_s
        text += f"; it would take {times.text(predicted_s)} (predicted)"
    return text
