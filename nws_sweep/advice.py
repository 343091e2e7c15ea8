"""A diagnosis in words: what limits, with figures, and what to change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nws_sweep import units
from nws_sweep.diagnosis import Diagnosis, Evidence, Limit
from nws_sweep.records import Noise
from nws_sweep.scaling import Law

# Gains below this share are not worth a word.
_NOTHING = 0.01


def sentence(diagnosis: Diagnosis) -> str:
    """What limits, with figures and the remedy; then what else was seen."""
    evidence = diagnosis.evidence
    if not diagnosis.limits:
        return _about_nothing(evidence)
    first, *others = diagnosis.limits
    besides = [text for limit in others if (text := _BESIDES[limit](evidence))]
    name = "" if first in _SENTENCES else f"{first.value}-bound: "
    main = f"{name}{_MAIN[first](evidence)}"
    return "; besides, ".join([main, " and ".join(besides)] if besides else [main])


def further(diagnosis: Diagnosis) -> Iterator[str]:
    """What follows from the figures: the room above the loader, and more workers."""
    if diagnosis.headspace is not None:
        gain = diagnosis.headspace - 1
        much = f"{units.ratio(diagnosis.headspace)} as fast" if gain > _NOTHING else "no faster"
        yield f"with a loader that takes no time training would be {much}"
    number = diagnosis.evidence.best.num_workers
    told = diagnosis.evidence.larger or Limit.CONSUMER in diagnosis.limits  # that more are no faster
    most_gain = None if told else diagnosis.most_gain(2 * number)
    if most_gain is not None:
        much = f"at most {units.share(most_gain)} more" if most_gain > _NOTHING else "next to nothing more"
        yield f"{2 * number} workers would give {much}, by the curve through the points"


def rule(diagnosis: Diagnosis) -> str:
    """The rule of the sleeping dataset with its fitted values, beside what was measured; empty if it does not apply."""
    law = diagnosis.law
    if law is None or law.points <= 1 or diagnosis.headspace is None:
        return ""
    return rule_of(law, diagnosis.evidence.best.num_workers)


def rule_of(law: Law, measured: int) -> str:
    """The rule for a law, beside the measured best number of workers."""
    values = f"n = {units.seconds(law.n_s)}, m = {units.seconds(law.m_s)}, y = {units.seconds(law.floor_s)}"
    crowded = law.crowding_s > 0
    if crowded:
        values += f", c = {units.seconds(law.crowding_s)}"
    enough, solved = law.enough, "x" if crowded else "x = n / (y - m)"
    says = "y is never reached" if enough is None else f"{solved} = {units.three_digits(enough)} workers suffice"
    formula = "max(m + n/x + c (x - 1), y)" if crowded else "max(m + n/x, y)"
    return f"rule t = {formula}: {values}: {says}; the measured best is {measured}"


def _about_nothing(evidence: Evidence) -> str:
    if evidence.busy is None:
        return f"nothing is seen at its limit, without a look at the CPUs; {_about_edge(evidence)}"
    return f"nothing is used to its limit: the CPUs are busy {units.share(evidence.busy)} of the time; " + _about_edge(
        evidence
    )


def _about_edge(evidence: Evidence) -> str:
    number = evidence.best.num_workers
    if evidence.larger:
        return f"more than {_workers(number)} were not faster" if number else "workers were not faster"
    if number == 0:
        return "no candidate with workers was measured: some may be faster"
    return f"no candidate above {_workers(number)} was measured: {evidence.wider} may help"


def _consumer(evidence: Evidence) -> str:
    number = evidence.best.num_workers
    keeps_up = f"{_workers(number)} keep{'s' if number == 1 else ''} up with it" if number else "it needs no workers"
    loading_s = evidence.measured.loading_s
    alone = f" (by itself the loader takes {units.seconds(loading_s)})" if loading_s is not None else ""
    gain = evidence.batch_s / evidence.consume_s - 1
    more = f"could gain {units.share(gain)} at most" if gain > _NOTHING else "cannot help"
    if evidence.handover_s is not None and evidence.handover_s > _NOTHING * evidence.batch_s:
        more = f"cannot help, since to get a batch from workers takes {units.seconds(evidence.handover_s)} of the rest"
    return (
        f"of {units.seconds(evidence.batch_s)} a batch the consumer takes {units.seconds(evidence.consume_s)}; "
        f"{keeps_up}{alone}, and more {more}"
    )


def _cpu(evidence: Evidence) -> str:
    consumes = evidence.has_consumer
    remedy = "cheaper transforms, a consumer that needs less of them" if consumes else "cheaper transforms"
    return (
        f"{_cpus(evidence)} busy {units.share(evidence.busy)} of the time, and {_batch(evidence)} takes "
        f"{units.seconds(evidence.measured.cpu_s)} of CPU time{', the consumer included' if consumes else ''}: "
        f"{remedy} or more CPUs help, more workers do not"
    )


def _latency(evidence: Evidence) -> str:
    loading = "loading" if evidence.loading_s is None else f"the {units.seconds(evidence.loading_s)} that loading takes"
    number = evidence.best.num_workers
    if number == 0:
        return f"{units.share(evidence.waiting)} of {loading} is waiting; {_about_edge(evidence)}"
    return (
        f"{units.share(evidence.waiting)} of {loading} is waiting, which {_workers(number)} share: they help "
        f"above the number of CPUs; {_about_edge(evidence)}"
    )


def _transfer(evidence: Evidence) -> str:
    remedy = "hand over less (a smaller dtype, converting on the device), or fewer and larger tensors"
    fewest, found = evidence.fewest, evidence.fewest.measurement if evidence.fewest else None
    if evidence.best.num_workers or fewest is None or found is None or found.batch_s is None:
        alone_s = evidence.alone.cpu_s if evidence.alone else None
        return (
            f"{_batch(evidence)} takes {units.seconds(evidence.measured.cpu_s)} of CPU time with workers and "
            f"{units.seconds(alone_s)} without, and the CPUs are used up: the difference goes into moving it between "
            f"processes; {remedy}"
        )
    if evidence.has_consumer and found.loading_s is None:
        return (
            f"the training step waits {units.seconds(evidence.loading_s)} for a batch without workers and "
            f"{units.seconds(found.wait_s)} with {_workers(fewest.num_workers)}: load without workers, or {remedy}"
        )
    # Without the consumer's time, where there is a consumer.
    got_s = found.batch_s.value if found.loading_s is None else found.loading_s
    return (
        f"a batch takes {units.seconds(evidence.loading_s)} to make, and {units.seconds(got_s)} to get "
        f"from {_workers(fewest.num_workers)}: load without workers, or {remedy}"
    )


def _transfer_besides(evidence: Evidence) -> str:
    if evidence.handover_s is not None:
        share = units.share(evidence.handover_s / evidence.batch_s)
        return f"{share} of the time goes into getting batches from workers, however many (fewer, larger ones help)"
    return "moving batches between processes takes much of the CPUs"


def _startup(evidence: Evidence) -> str:
    spawn = "" if evidence.best.settings.multiprocessing_context in (None, "fork") else "; fork starts faster, too"
    remedy = f"persistent_workers=true spares most of that from the second epoch on{spawn}"
    quicker, epoch_s = evidence.quicker_pace, evidence.measured.epoch_s
    if evidence.best.num_workers or quicker is None or quicker.measurement is None:
        return (
            f"{units.seconds(evidence.starting_s)} of an epoch's {units.seconds(epoch_s)} go by before the workers are "
            f"at their pace: {remedy}"
        )
    found = quicker.measurement
    pace_s = found.batch_s.value if found.batch_s else None
    return (
        f"{_workers(quicker.num_workers)} load a batch in {units.seconds(pace_s)} instead of "
        f"{units.seconds(evidence.batch_s)}, but starting them makes an epoch of {units.seconds(epoch_s)} one of "
        f"{units.seconds(found.epoch_s)}: {remedy}"
    )


def _memory(evidence: Evidence) -> str:
    refused = evidence.refused[0]
    return f"{_workers(refused.num_workers)} had no room ({refused.reason}); {_workers(evidence.best.num_workers)} fit"


def _about_noise(evidence: Evidence) -> str:
    noise, batch_s = evidence.best.noise or Noise(), evidence.measured.batch_s
    took = f"a batch took {units.interval(batch_s)}, " if batch_s else ""
    return (
        f"too much noise to say what limits: {took}other programs "
        f"used up to {evidence.other_cpus:.1f} CPUs, the hypervisor took {units.share(noise.steal)}; "
        f"measure again on a quiet machine, or {evidence.longer}"
    )


def _competition(evidence: Evidence) -> str:
    fewest, found = evidence.fewest, evidence.fewest.measurement if evidence.fewest else None
    beside = f"{units.seconds(found.consume_s)} with {_workers(fewest.num_workers)}" if fewest and found else ""
    return (
        f"workers compete with the training step for {evidence.cores:g} CPU{'' if evidence.cores == 1 else 's'}: the "
        f"step takes {units.seconds(evidence.consume_s)} a batch without workers and {beside}; cheaper transforms, "
        "fewer threads for the step (torch.set_num_threads) or more CPUs help, more workers do not"
    )


# Those whose words need no name before them.
_SENTENCES = (Limit.NOISE, Limit.COMPETITION)

_MAIN: dict[Limit, Callable[[Evidence], str]] = {
    Limit.NOISE: _about_noise,
    Limit.COMPETITION: _competition,
    Limit.CONSUMER: _consumer,
    Limit.CPU: _cpu,
    Limit.LATENCY: _latency,
    Limit.TRANSFER: _transfer,
    Limit.STARTUP: _startup,
    Limit.MEMORY: _memory,
}

_BESIDES: dict[Limit, Callable[[Evidence], str]] = {
    Limit.COMPETITION: lambda e: f"workers slow the training step down, on {e.cores:g} CPUs",
    Limit.CONSUMER: lambda e: f"the consumer is busy {units.share(e.consume_s / e.batch_s)} of the time",
    Limit.CPU: lambda e: f"{_cpus(e)} busy {units.share(e.busy)} of the time",
    Limit.LATENCY: lambda e: f"{units.share(e.waiting)} of loading is waiting",
    Limit.TRANSFER: _transfer_besides,
    Limit.MEMORY: _memory,
}


def _batch(evidence: Evidence) -> str:
    """Whose CPU time is told."""
    return "a batch" if evidence.ranks == 1 else f"a batch of each of the {evidence.ranks} ranks"


def _workers(number: int) -> str:
    return f"{number or 'no'} worker{'' if number == 1 else 's'}"


def _cpus(evidence: Evidence) -> str:
    return f"{evidence.cores:g} CPU{' is' if evidence.cores == 1 else 's are'}"
