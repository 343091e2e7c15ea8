"""Accounts in words: where the time of an epoch goes, and which part to change.
Pure."""

from nws_sweep.model import choice
from nws_sweep.records import Account, LoaderSettings, OtherLoader, Part, Trial
from nws_sweep.units import counted, seconds, share

_LEAST_SHARE = 0.005  # of a part that has a row: "0 %" says nothing
_PERSISTENT = "persistent_workers=True"
# share of the time from which the training step is named before what could be changed
# around it
_STEP_LIMITS = 0.75


def line(trial: Trial | None) -> str:
    """Where the time of an epoch goes with the settings of a trial: parts and their
    shares; empty if unknown."""
    account = account_of(trial)
    if account is None:
        return ""
    shown = [f"{part.value} {share(account.share(part))}" for part in _shown(account)]
    return f"where the time goes: {', '.join(shown)}"


def account_of(trial: Trial | None) -> Account | None:
    """Where the time of a trial goes; None if it is unknown."""
    return trial.measurement.account if trial and trial.measurement else None


def line_beside_waiting(trial: Trial | None) -> str:
    """The line if another part than making samples is to change: the share of waiting
    does not tell it."""
    account = account_of(trial)
    part = to_change(account, trial.settings) if trial and account else None
    return "" if part in (None, Part.MAKING) else line(trial)


def _shown(account: Account) -> list[Part]:
    return [part for part in account.seconds if account.share(part) >= _LEAST_SHARE]


def table(account: Account, num_workers: int) -> list[str]:
    """What the account is of, and a row for each part: its share, its seconds, what it
    consists of; largest first."""
    width = max((len(part.value) for part in _shown(account)), default=0)
    rows = [f"where {seconds(account.total_s)} went, with num_workers={num_workers}:"]
    for part in _shown(account):
        row = f"{part.value:<{width}}  {share(account.share(part)):>5}  {seconds(account.seconds[part])}"
        if part is Part.OTHERS:
            row += f"  ({'; '.join(map(_other, account.others))})"
        rows.append(row)
    return rows


def _other(loader: OtherLoader) -> str:
    if not loader.starts:
        return f"{loader.name}: {seconds(loader.seconds)}"
    times = "once" if loader.starts == 1 else f"{loader.starts} times"
    starting = f"{seconds(loader.starting_s)} of it starting and ending workers {times}"
    return f"{loader.name}: {seconds(loader.seconds)}, {starting}"


def to_change(account: Account, settings: LoaderSettings) -> Part | None:
    """The largest part that settings or code other than the training step change; None
    if no part is worth it."""
    fixed = {Part.STEP}
    if settings.persistent_workers:
        fixed.add(Part.STARTING)  # of the first epoch only
    largest = next(part for part in account.seconds if part not in fixed)
    return largest if account.share(largest) >= choice.PROMISING else None


def remedy(account: Account, part: Part | None, *, is_remade: bool = False) -> str:
    """What a part takes, and what to do about it, in a sentence; making samples has
    more remedies.

    Args:
        account: The account.
        part: That is to change; None for none.
        is_remade: Whether the program makes a DataLoader for each epoch, so that no
            workers can persist.
    """
    step = f"the training step takes {share(account.share(Part.STEP))} of the time"
    if part is None:
        return f"{step}; the loader does not limit it"
    text = _remedy_of(account, part, is_remade=is_remade)
    return f"{step}; {text}" if account.share(Part.STEP) >= _STEP_LIMITS else text


def _remedy_of(account: Account, part: Part, *, is_remade: bool) -> str:
    takes = f"{share(account.share(part))} of the time"
    if part is Part.MAKING:
        return f"training waits for data {takes}"
    if part is Part.SAMPLER:
        return f"the sampler takes {takes} in the main process: make it cheaper; no number of workers helps"
    if part is Part.MAIN:
        return f"receiving batches takes the main process {takes}: give it fewer and larger tensors"
    if part is Part.STARTING:
        what = (
            f"one DataLoader for all epochs, with {_PERSISTENT},"
            if is_remade
            else _PERSISTENT
        )
        return (
            f"starting and ending workers takes {takes}: {what} saves "
            f"{seconds(account.starting_s)} of each later epoch"
        )
    if part is Part.UNSEEN:
        return (
            f"{takes} passes outside of DataLoaders and training steps: "
            "look at what follows an epoch, such as saving"
        )
    return _remedy_of_others(account, takes)


def remedy_of_starts(account: Account, starts: int, batches: int) -> str:
    """What to do where workers are started for few batches each: their iterator is left
    after these."""
    takes = f"starting and ending workers takes {share(account.share(Part.STARTING))} of the time"
    often = f"{counted(starts, 'time')} for {batches} batch{'es' * (batches != 1)}"
    return f"{takes}, {often}: keep the iterator of the DataLoader for the next batch"


def _remedy_of_others(account: Account, takes: str) -> str:
    least_s = choice.PROMISING * account.total_s
    worst = max(account.others, key=lambda loader: loader.starting_s)
    if worst.starts > 1 and worst.starting_s >= least_s:
        often, saved_s = (
            counted(worst.starts, "time"),
            worst.starting_s * (1 - 1 / worst.starts),
        )
        starts = f"the DataLoader of {worst.name} starts its workers {often}"
        return f"other loaders take {takes}: {starts}; made once, with {_PERSISTENT}, it saves {seconds(saved_s)}"
    slowest = max(account.others, key=lambda loader: loader.called_s)
    if slowest.workers == 0 and slowest.called_s >= least_s:
        return f"other loaders take {takes}: the DataLoader of {slowest.name} has no workers: give it some"
    names = ", ".join(loader.name for loader in account.others)
    return f"other loaders ({names}) take {takes}: tune each of them"
