"""Accounts in words: where the time of an epoch goes, and which part to change.
Pure."""

from dataclasses import dataclass

from nws_sweep.model import choice
from nws_sweep.records import Account, LoaderSettings, OtherLoader, Part, Trial
from nws_sweep.units import counted, seconds, share

_LEAST_SHARE = 0.005  # of a part that has a row: "0 %" says nothing
_PERSISTENT = "persistent_workers=True"
# share of the time from which the training step is named before what could be changed
# around it
_STEP_LIMITS = 0.75
_OF_THE_LOADER = (Part.MAKING, Part.SAMPLER, Part.MAIN, Part.STARTING)
_CAUSES = {
    Part.STEP: "the training step takes {}",
    Part.MAKING: "making samples takes {}",
    Part.SAMPLER: "the sampler takes {} in the main process",
    Part.MAIN: "receiving batches takes {} in the main process",
    Part.STARTING: "starting and ending workers takes {}",
    Part.UNSEEN: "what is outside of DataLoaders and training steps takes {}",
}
CHEAPER_SAMPLES = "cheaper samples save up to {}; more workers save nothing"


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
    fixed = _fixed(settings)
    largest = next(part for part in account.seconds if part not in fixed)
    return largest if account.share(largest) >= choice.PROMISING else None


def _fixed(settings: LoaderSettings) -> set[Part]:
    """The parts that neither settings nor other code than the training step change."""
    if settings.persistent_workers:
        return {Part.STEP, Part.STARTING}  # workers start in the first epoch only
    return {Part.STEP}


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to change, in words, and the share of the time that it saves at most, from 0
    to 1."""

    text: str
    saved: float


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
    waiting = sum(account.share(of_loader) for of_loader in _OF_THE_LOADER)
    return (
        f"the loader limits training: {share(waiting)} of the time is waiting for data"
    )


def _is_of_step(account: Account) -> bool:
    return account.share(Part.STEP) >= _STEP_LIMITS


def cause(account: Account, part: Part | None) -> str:
    """Why: the part that is to change, or the training step, with its seconds."""
    if part is None or _is_of_step(account):
        part = Part.STEP
    if part is Part.OTHERS:
        return _cause_of_others(account)
    return _takes(account, _CAUSES[part], account.seconds[part])


def _takes(account: Account, text: str, part_s: float) -> str:
    shown = text.format(f"{share(part_s / account.total_s)} of the time")
    return f"{shown} ({seconds(part_s)} of {seconds(account.total_s)})"


def _cause_of_others(account: Account) -> str:
    worst, slowest = _restarted(account), _without_workers(account)
    if worst is not None:
        text = f"starting the workers of {worst.name} {counted(worst.starts, 'time')} takes {{}}"
        return _takes(account, text, worst.starting_s)
    if slowest is not None:
        text = f"{slowest.name} loads without workers, which takes {{}}"
        return _takes(account, text, slowest.called_s)
    names = ", ".join(loader.name for loader in account.others)
    return _takes(account, f"other loaders ({names}) take {{}}", account.others_s)


def _restarted(account: Account) -> OtherLoader | None:
    """The other loader whose workers start again and again, for much of the time; None
    without any."""
    worst = max(account.others, key=lambda loader: loader.starting_s)
    is_much = worst.starting_s >= choice.PROMISING * account.total_s
    return worst if worst.starts > 1 and is_much else None


def _without_workers(account: Account) -> OtherLoader | None:
    """The slowest other loader, if it takes much of the time and has no workers; else
    None."""
    slowest = max(account.others, key=lambda loader: loader.called_s)
    is_much = slowest.called_s >= choice.PROMISING * account.total_s
    return slowest if slowest.workers == 0 and is_much else None


def remedies(
    account: Account,
    settings: LoaderSettings,
    instead: Remedy | None = None,
    *,
    is_remade: bool = False,
) -> tuple[str, ...]:
    """What to change next, the largest saving first; a second one only if it saves more
    than half as much.

    Args:
        account: The account.
        settings: In use.
        instead: What saves time in place of cheaper samples, such as other settings;
            None for nothing.
        is_remade: Whether the program makes a DataLoader for each epoch, so that no
            workers can persist.
    """
    possible = [instead] if instead else []
    for part in account.seconds:
        if part in _fixed(settings) or account.share(part) < choice.PROMISING:
            continue
        if part is not Part.MAKING:
            possible.append(_remedy_of(account, part, is_remade=is_remade))
        elif instead is None:
            possible.append(Remedy(CHEAPER_SAMPLES, account.share(part)))
        elif instead.saved <= account.share(part) / 2:
            possible.append(
                Remedy("cheaper samples save up to {}", account.share(part))
            )
    possible.sort(key=lambda remedy: -remedy.saved)
    return tuple(
        remedy.text.format(share(remedy.saved))
        for remedy in possible[:2]
        if remedy.saved > possible[0].saved / 2
    )


def _remedy_of(account: Account, part: Part, *, is_remade: bool) -> Remedy:
    """What to do about a part other than making samples."""
    if part is Part.OTHERS:
        return _remedy_of_others(account)
    texts = {
        Part.SAMPLER: "a cheaper sampler saves up to {}; no num_workers does",
        Part.MAIN: "fewer and larger tensors in a batch save up to {}",
        Part.STARTING: f"{_PERSISTENT} saves {{}} of each later epoch",
        Part.UNSEEN: "look at what follows an epoch, such as saving: it takes {}",
    }
    if part is Part.STARTING and is_remade:
        texts[part] = f"one DataLoader for all epochs, and {texts[part]}"
    return Remedy(texts[part], account.share(part))


def _remedy_of_others(account: Account) -> Remedy:
    worst, slowest = _restarted(account), _without_workers(account)
    if worst is not None:
        saved_s = worst.starting_s * (1 - 1 / worst.starts)
        text = f"one DataLoader of {worst.name} for all passes, with {_PERSISTENT}, saves {{}}"
        return Remedy(text, saved_s / account.total_s)
    if slowest is not None:
        text = f"workers for the DataLoader of {slowest.name} save up to {{}}"
        return Remedy(text, slowest.called_s / account.total_s)
    takes = account.share(Part.OTHERS)
    return Remedy("tune the other loaders: they take {}", takes)
