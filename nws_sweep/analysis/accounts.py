"""Accounts in words: where the time of an epoch goes, and which part to change.
Pure."""

from collections.abc import Mapping
from dataclasses import replace

from nws_sweep.analysis.remedies import Remedy, chosen
from nws_sweep.model import choice
from nws_sweep.records import Account, LoaderSettings, OtherLoader, Part, Trial
from nws_sweep.units import counted, seconds, share

_LEAST_SHARE = 0.005  # of a part that has a row: "0 %" says nothing
_PERSISTENT = "persistent_workers=True"
# share of the time from which the training step is named before what could be changed
# around it
_STEP_LIMITS = 0.75
_OF_THE_LOADER = (Part.MAKING, Part.SAMPLER, Part.MAIN, Part.STARTING)
# cause and remedy
_WORDS = {
    Part.STEP: ("the training step takes {}", ""),
    Part.MAKING: (
        "making samples takes {}",
        "cheaper samples save up to {}; more workers save nothing",
    ),
    Part.SAMPLER: (
        "the sampler takes {} in the main process",
        "a cheaper sampler saves up to {}; no num_workers does",
    ),
    Part.MAIN: (
        "receiving batches takes {} in the main process",
        "fewer and larger tensors in a batch save up to {}",
    ),
    Part.STARTING: (
        "starting and ending workers takes {}",
        f"{_PERSISTENT} saves {{}} of each later epoch",
    ),
    Part.UNSEEN: (
        "what is outside of DataLoaders and training steps takes {}",
        "look at what follows an epoch, such as saving: it takes {}",
    ),
}


def name_of(part: Part, *, has_step: bool) -> str:
    """Names a part; without a training step, the time between batches is that of the
    loop."""
    if part is Part.STEP and not has_step:
        return "the loop itself"
    return part.value


def line(trial: Trial | None, *, has_step: bool) -> str:
    """Where the time of an epoch goes with the settings of a trial: parts and their
    shares; empty if unknown."""
    account = account_of(trial)
    if account is None:
        return ""
    shown = [
        f"{name_of(part, has_step=has_step)} {share(account.share(part))}"
        for part in _shown(account)
    ]
    return f"where the time goes: {', '.join(shown)}"


def account_of(trial: Trial | None) -> Account | None:
    """Where the time of a trial goes; None if it is unknown."""
    if trial and trial.measurement:
        return trial.measurement.account
    return None


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
    return next(iter(_worth_changing(account, settings)), None)


def _worth_changing(account: Account, settings: LoaderSettings) -> list[Part]:
    fixed = {Part.STEP}
    if settings.persistent_workers:
        fixed.add(Part.STARTING)  # workers start in the first epoch only
    parts = [part for part in account.seconds if part not in fixed]
    return [part for part in parts if account.share(part) >= choice.PROMISING]


def of_later_epochs(account: Account, settings: LoaderSettings) -> tuple[Account, str]:
    """The account of a first epoch as later epochs have it, and what was left out:
    the start of workers that persist; empty if it is next to nothing."""
    starts_once = settings.persistent_workers
    if not starts_once or account.share(Part.STARTING) < choice.PROMISING:
        return account, ""
    left_out = f"without {seconds(account.starting_s)} of starting workers, which later epochs do not have"
    return replace(account, starting_s=0.0), left_out


def limit(account: Account, part: Part | None) -> str:
    """What limits the training; ``part`` is to change."""
    if part is None:
        return "the training step limits training; more workers save nothing"
    if _is_of_step(account):
        return "the training step limits training"
    takes = share(account.share(part))
    if part is Part.OTHERS:
        return f"other loaders limit training: they take {takes} of the time"
    if part is Part.UNSEEN:
        return f"neither loader nor training step limits training: {takes} of the time is beside them"
    waiting = share(sum(map(account.share, _OF_THE_LOADER)))
    return f"the loader limits training: {waiting} of the time is waiting for data"


def _is_of_step(account: Account) -> bool:
    return account.share(Part.STEP) >= _STEP_LIMITS


def cause(
    account: Account,
    part: Part | None,
    details: Mapping[Part, str] | None = None,
    unit: str = "",
) -> str:
    """Why: the part that is to change, or the training step, with its seconds.

    Args:
        account: The account.
        part: The part that is to change; None for none.
        details: What else is known of a part, which is said if it is the cause.
        unit: What takes the time of the account, such as ``an epoch``; empty if it is
            time that has passed.
    """
    if part is None or _is_of_step(account):
        part = Part.STEP
    if part is Part.OTHERS:
        return _of_others(account)[0]
    takes = _takes(account, _WORDS[part][0], account.seconds[part], unit)
    detail = (details or {}).get(part)
    return f"{takes}, {detail}" if detail else takes


def _takes(account: Account, text: str, part_s: float, unit: str = "") -> str:
    shown = text.format(f"{share(part_s / account.total_s)} of the time")
    total = f"{seconds(account.total_s)} {unit}".rstrip()
    return f"{shown} ({seconds(part_s)} of {total})"


def _of_others(account: Account) -> tuple[str, Remedy]:
    """The cause and the remedy: a loader whose workers start again and again, or one
    without workers, if it takes much of the time; else all of them."""
    much_s = choice.PROMISING * account.total_s
    worst = max(account.others, key=lambda loader: loader.starting_s)
    if worst.starts > 1 and worst.starting_s >= much_s:
        starts = counted(worst.starts, "time")
        takes = f"starting the workers of {worst.name} {starts} takes {{}}"
        text = f"one DataLoader of {worst.name} for all passes, with {_PERSISTENT}, saves {{}}"
        saved_s = worst.starting_s * (1 - 1 / worst.starts)
        remedy = Remedy(text, saved_s / account.total_s)
        return _takes(account, takes, worst.starting_s), remedy
    slowest = max(account.others, key=lambda loader: loader.called_s)
    if slowest.workers == 0 and slowest.called_s >= much_s:
        takes = f"{slowest.name} loads without workers, which takes {{}}"
        text = f"workers for the DataLoader of {slowest.name} save up to {{}}"
        remedy = Remedy(text, slowest.called_s / account.total_s)
        return _takes(account, takes, slowest.called_s), remedy
    names = ", ".join(loader.name for loader in account.others)
    takes = f"other loaders ({names}) take {{}}"
    remedy = Remedy("tune the other loaders: they take {}", account.share(Part.OTHERS))
    return _takes(account, takes, account.others_s), remedy


def remedies(
    account: Account,
    settings: LoaderSettings,
    instead: Remedy | None = None,
    *,
    is_remade: bool = False,
) -> tuple[str, ...]:
    """What to change next, at most two (``analysis.remedies``).

    Args:
        account: The account.
        settings: In use.
        instead: What saves time in place of cheaper samples, such as other settings;
            None for nothing.
        is_remade: Whether the program makes a DataLoader for each epoch, so that no
            workers can persist.
    """
    possible = {}
    for part in _worth_changing(account, settings):
        possible[part] = _remedy_of(account, part, is_remade=is_remade)
    first = next(iter(possible), None)
    if instead and Part.MAKING in possible:
        saved = possible.pop(Part.MAKING).saved
        if instead.saved <= saved / 2:
            possible[Part.MAKING] = Remedy("cheaper samples save up to {}", saved)
    of_cause = [possible.pop(first)] if first in possible else []
    others = [*possible.values()]
    if instead:
        (of_cause if first in _OF_THE_LOADER else others).append(instead)
    return tuple(map(str, chosen(of_cause, others)))


def _remedy_of(account: Account, part: Part, *, is_remade: bool) -> Remedy:
    if part is Part.OTHERS:
        return _of_others(account)[1]
    _, text = _WORDS[part]
    if part is Part.STARTING and is_remade:
        text = f"one DataLoader for all epochs, and {text}"
    return Remedy(text, account.share(part))
