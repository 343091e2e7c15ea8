"""What a training is told about its settings. "Takes" and "took" are measured; what
"would take" is predicted. Pure."""

from nws_sweep import units
from nws_sweep.model import choice
from nws_sweep.online.decision import Try
from nws_sweep.online.times import Times
from nws_sweep.records import LoaderSettings

REPEATED = "its dataset does not read get_worker_info().num_workers, so every worker has all samples"
NO_GAIN = f"no other setting is predicted to save {units.share(choice.PROMISING)}"
UNKNOWN = "how long a batch takes is unknown, since too few were timed"


def named(settings: LoaderSettings, beside: LoaderSettings) -> str:
    """The number of workers, and with workers ``prefetch_factor`` and ``in_order`` if
    they differ."""
    text = f"num_workers={settings.num_workers}"
    if settings.num_workers and settings.prefetched != beside.prefetched:
        text += f" prefetch_factor={settings.prefetched}"
    if settings.num_workers and settings.in_order != beside.in_order:
        text += f" in_order={settings.in_order}"
    return text


def now(times: Times, settings: LoaderSettings) -> str:
    """How long a batch or an epoch takes with these settings."""
    return _lasting(times.of(settings), settings)


def took(times: Times, settings: LoaderSettings, beside: LoaderSettings) -> str:
    """How long it took with these settings, before others are used."""
    return f"{_lasting(times.of(settings), settings, 'took')}, with {named(settings, beside)}"


def _lasting(times: Times, settings: LoaderSettings, verb: str = "takes") -> str:
    measured = times.measured.get(settings)
    if measured is None:
        return UNKNOWN
    waiting = units.share(measured.waiting_share)
    return f"{times.unit} {verb} {_time(times, settings)}, {waiting} of it waiting for the loader"


def _time(times: Times, settings: LoaderSettings) -> str:
    """The measured time with these settings, and of what, where that differs between
    settings."""
    measured = times.measured[settings]
    text = times.text(measured.batch_s)
    if not times.is_mixed:
        return text
    return (
        f"{text} (in whole epochs)"
        if measured.is_of_epochs
        else f"{text} (between start and end of an epoch)"
    )


def since_the_start(
    times: Times, first: LoaderSettings, current: LoaderSettings
) -> str:
    """How long it takes now, and how long it took at first if that was longer.

    It is not longer if the training step has become slower meanwhile.
    """
    times = times.of(first, current)
    first_s, current_s = (
        times.batch_s.get(settings, 0.0) for settings in (first, current)
    )
    at_first = (
        f"; it took {_time(times, first)} at first" if first_s > current_s > 0 else ""
    )
    return f"{_lasting(times, current)}{at_first}"


def tried(times: Times, current: LoaderSettings, decision: Try) -> str:
    """Why other settings are tried."""
    before = took(times, current, decision.settings)
    measured = times.measured.get(current)
    if measured is None:
        return before
    predicted_s = measured.batch_s * decision.predicted_s / decision.current_s
    return f"{before}; it would take {times.text(predicted_s)} (predicted)"


def returned(times: Times, current: LoaderSettings, better: LoaderSettings) -> str:
    """Why earlier settings are used again."""
    times = times.of(current, better)
    worse = f"{times.unit} took {_time(times, current)} with {named(current, better)}"
    return f"{worse} and {_time(times, better)} with {named(better, current)}"
