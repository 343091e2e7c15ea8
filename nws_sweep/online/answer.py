"""The answer of a tuned loader: its settings, their gain, where the time goes, and what
to change next; and how it is said."""

import math
from collections.abc import Iterator
from dataclasses import replace

from nws_sweep import units
from nws_sweep.analysis import accounts
from nws_sweep.analysis.answers import MOST_NAMED, Answer
from nws_sweep.analysis.time_ratios import Quantity, Ratio, times_in
from nws_sweep.dataloading import device_clock
from nws_sweep.online import texts
from nws_sweep.online.loader_state import LoaderState
from nws_sweep.records import Account, LoaderSettings
from nws_sweep.system import accelerator


def tell(state: LoaderState) -> None:
    """Says what was found, with the dataset and the place of the training loop."""
    first, *rest = state.tuning.lines
    where = filter(None, (state.configuration.columns["dataset"], state.place))
    if state.leads:
        state.announce("\n  ".join([f"{first}   ({', '.join(where)})", *rest]))


def answer_of(state: LoaderState) -> Answer:
    """The answer once the settings are decided."""
    gain, reason = _gain(state), state.tuning.reason
    if gain and reason == texts.MEASURED:
        reason = ""
    text = "; ".join(filter(None, (gain, reason)))
    first = f"{texts.named(state.current, state.base)}   {text}"
    answer = Answer(answer=first, cost=_cost(state))
    account = account_of(state)
    if account is None:
        return answer
    return replace(
        answer,
        why=accounts.cause(account, next(iter(account.seconds)), unit=state.times.unit),
        remedies=accounts.remedies(account, state.current, is_remade=state.is_remade),
    )


def account_of(state: LoaderState) -> Account | None:
    """Where the time goes with the settings in use; None if it is unknown."""
    if reason_not_to_know(state):
        return None
    return accounts.account_of(state.trials.get(state.current))


def reason_not_to_know(state: LoaderState) -> str:
    """Why the waits of the loader are not those of the training; empty if they are."""
    device = accelerator.in_use()
    if device and device_clock.of_training() is None:
        return f"the step may still run on {device} when the next batch is requested"
    if not state.loader_clock.is_of_main_thread:
        return "another thread than the main one takes the batches"
    return ""


def details(state: LoaderState) -> Iterator[str]:
    """What the answer leaves out: the account, and the times of all settings tried."""
    account = account_of(state)
    if account is not None:
        yield from accounts.table(account, state.current.num_workers)
    for settings in state.trials:
        if settings in state.times.measured:
            yield texts.took(state.times, settings, state.base)


def _gain(state: LoaderState) -> str:
    """How much faster the settings are than those of the program, or than the fastest
    others, and what is as fast; empty if nothing else was measured."""
    measured = dict(state.times.measured)
    current = measured.pop(state.current, None)
    if current is None or not measured:
        return ""
    compared = state.base
    if compared not in measured:
        compared = min(measured, key=lambda settings: measured[settings].batch_s)
    close = math.log1p(state.configuration.search.tolerance)
    gain, name = _ratio(state, compared), texts.short(compared, state.current)
    parts = [gain.as_fast_as(name)]
    del measured[compared]
    tied = []
    for settings in measured:
        if abs(_ratio(state, settings).log) <= close:
            tied.append(texts.short(settings, state.current))
    if tied:
        parts.append(f"as fast as {units.listed(tied, MOST_NAMED)}")
    text = ", ".join(filter(None, parts))
    doubt = "" if gain.is_certain(close) else f"not certain: {name} may be as fast"
    return "; ".join(filter(None, (text, doubt)))


def _ratio(state: LoaderState, compared: LoaderSettings) -> Ratio:
    """The time with other settings / the time with those in use; the interval is that
    of paces, epochs have none."""
    before, after = (state.times.measured[name] for name in (compared, state.current))
    trials = state.trials[state.current], state.trials[compared]
    times = times_in(Quantity.BATCH, *trials)
    if times is None or before.is_of_epochs or after.is_of_epochs:
        return Ratio(value=before.batch_s / after.batch_s, half_width=None)
    return times.ratio


def _cost(state: LoaderState) -> str:
    """For how long the training has been tuned; empty before the first batch."""
    if not state.batches:
        return ""
    length, lasted = state.batches_per_epoch, units.counted(state.batches, "batch")
    if length and state.batches >= length:
        lasted = units.counted(float(f"{state.batches / length:.2g}"), "epoch")
    return f"tuned during {lasted} of training"
