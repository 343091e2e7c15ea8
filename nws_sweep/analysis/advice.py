"""A diagnosis in words: what limits, with figures, and what to change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nws_sweep.analysis.diagnosis import Bottleneck, Diagnosis, Evidence
from nws_sweep.results import Noise
from nws_sweep.units import counted, interval, number, ratio, seconds, share

# Gains below this share are not worth a word.
_NOTHING = 0.01


def sentence(diagnosis: Diagnosis) -> str:
    """What limits, with figures and the remedy; then what else was seen."""
    evidence = diagnosis.evidence
    if not diagnosis.bottlenecks:
        busy = "" if evidence.busy is None else f"the CPUs are busy {share(evidence.busy)} of the time; "
        nothing = (
            "nothing is used to its limit: " if busy else "nothing is seen at its limit, without a look at the CPUs; "
        )
        return f"{nothing}{busy}{_about_edge(evidence)}"
    first, *others = diagnosis.bottlenecks
    besides = " and ".join(_BESIDES[limit](evidence) for limit in others)
    return _MAIN[first](evidence) + (f"; besides, {besides}" if besides else "")


def further(diagnosis: Diagnosis) -> Iterator[str]:
    """What follows from the figures: the room above the loader, and more workers."""
    evidence, scaling = diagnosis.evidence, diagnosis.scaling
    if evidence.has_consumer:  # at the steady pace: the start of an epoch is not counted
        headroom = evidence.batch_s / evidence.consume_s
        much = f"{ratio(headroom)} as fast" if headroom - 1 > _NOTHING else "no faster"
        yield f"with a loader that takes no time training would be {much}"
    double = 2 * evidence.best.num_workers
    told = evidence.larger or Bottleneck.CONSUMER in diagnosis.bottlenecks  # that more are no faster
    if double and scaling and not told:
        quickest_s, _ = scaling.interval_s(double)
        gain = min(1.0, evidence.batch_s / quickest_s - 1)  # no more than their share of workers
        much = f"at most {share(gain)} more" if gain > _NOTHING else "next to nothing more"
        yield f"{double} workers would give {much}, by the curve through the points"


def rule(diagnosis: Diagnosis) -> str:
    """The rule of the sleeping dataset with its fitted values, beside what was measured; empty if it does not apply."""
    scaling = diagnosis.scaling
    if scaling is None or scaling.points <= 1 or not diagnosis.evidence.has_consumer:
        return ""
    says = (
        "y is never reached"
        if scaling.enough is None
        else f"x = n / (y - m) = {number(scaling.enough)} workers suffice"
    )
    return (
        f"rule t = max(m + n/x, y): n = {seconds(scaling.n_s)}, m = {seconds(scaling.m_s)}, y = {seconds(scaling.floor_s)}: {says}"
        f"; the measured best is {diagnosis.evidence.best.num_workers}"
    )


def _about_edge(evidence: Evidence) -> str:
    best, wider = evidence.best.num_workers, evidence.configuration.search.more_workers_hint
    if evidence.larger:
        return f"more than {_workers(best)} were not faster" if best else "workers were not faster"
    if best == 0:
        return "no candidate with workers was measured: some may be faster"
    return f"no candidate above {_workers(best)} was measured: {wider} may help"


def _noise(evidence: Evidence) -> str:
    noise, batch_s = evidence.best.noise or Noise(), evidence.measured.batch_s
    took = f"a batch took {interval(batch_s)}, " if batch_s else ""
    return (
        f"too much noise to say what limits: {took}other programs "
        f"used up to {evidence.other_cpus:.1f} CPUs, the hypervisor took {share(noise.steal)}; "
        f"measure again on a quiet machine, or {evidence.configuration.search.measure_longer_hint}"
    )


def _startup(evidence: Evidence) -> str:
    spawn = "" if evidence.best.settings.multiprocessing_context in (None, "fork") else "; fork starts faster, too"
    remedy = f"persistent_workers=true spares most of that from the second epoch on{spawn}"
    epoch_s, batch_s = seconds(evidence.measured.epoch_s), seconds(evidence.batch_s)
    if evidence.best.num_workers or evidence.quicker_pace is None:
        starting_s = seconds(evidence.starting_s(evidence.measured))
        return (
            f"start-up-bound: {starting_s} of an epoch's {epoch_s} go by before the workers are at their pace: {remedy}"
        )
    workers, found = evidence.quicker_pace
    pace_s = found.batch_s.value if found.batch_s else None
    return (
        f"start-up-bound: {_workers(workers)} load a batch in {seconds(pace_s)} instead of {batch_s}, but starting "
        f"them makes an epoch of {epoch_s} one of {seconds(found.epoch_s)}: {remedy}"
    )


def _competition(evidence: Evidence) -> str:
    fewest, found = evidence.fewest or (0, evidence.measured)
    beside = f"{seconds(found.consume_s)} with {_workers(fewest)}"
    return (
        f"workers compete with the training step for {counted(evidence.cores, 'CPU')}: the step takes "
        f"{seconds(evidence.consume_s)} a batch without workers and {beside}; "
        "cheaper transforms, fewer threads for the step (torch.set_num_threads) or more CPUs help, more workers do not"
    )


def _consumer(evidence: Evidence) -> str:
    best, loading_s = evidence.best.num_workers, evidence.measured.loading_s
    keeps_up = f"{_workers(best)} keep{'s' if best == 1 else ''} up with it" if best else "it needs no workers"
    alone = f" (by itself the loader takes {seconds(loading_s)})" if loading_s is not None else ""
    gain = evidence.batch_s / evidence.consume_s - 1
    more = f"could gain {share(gain)} at most" if gain > _NOTHING else "cannot help"
    if evidence.receive_s is not None and evidence.receive_s > _NOTHING * evidence.batch_s:
        more = f"cannot help, since to get a batch from workers takes {seconds(evidence.receive_s)} of the rest"
    return (
        f"consumer-bound: of {seconds(evidence.batch_s)} a batch the consumer takes {seconds(evidence.consume_s)}; "
        f"{keeps_up}{alone}, and more {more}"
    )


def _transfer(evidence: Evidence) -> str:
    remedy = "hand over less (a smaller dtype, converting on the device), or fewer and larger tensors"
    fewest, found = evidence.fewest or (0, None)
    if evidence.best.num_workers or found is None or found.batch_s is None:
        alone_s = evidence.alone.cpu_s if evidence.alone else None
        return (
            f"transfer-bound: {_batch(evidence)} takes {seconds(evidence.measured.cpu_s)} of CPU time with workers and "
            f"{seconds(alone_s)} without, and the CPUs are used up: the difference goes into moving it between "
            f"processes; {remedy}"
        )
    if evidence.has_consumer and found.loading_s is None:
        return (
            f"transfer-bound: the training step waits {seconds(evidence.loading_s)} for a batch without workers and "
            f"{seconds(found.wait_s)} with {_workers(fewest)}: load without workers, or {remedy}"
        )
    # Without the consumer's time, where there is a consumer.
    got_s = found.batch_s.value if found.loading_s is None else found.loading_s
    return (
        f"transfer-bound: a batch takes {seconds(evidence.loading_s)} to make, and {seconds(got_s)} to get "
        f"from {_workers(fewest)}: load without workers, or {remedy}"
    )


def _transfer_besides(evidence: Evidence) -> str:
    if evidence.receive_s is None:
        return "moving batches between processes takes much of the CPUs"
    receiving = share(evidence.receive_s / evidence.batch_s)
    return f"{receiving} of the time goes into getting batches from workers, however many (fewer, larger ones help)"


def _cpu(evidence: Evidence) -> str:
    with_consumer, own = ", the consumer included", ", a consumer that needs less of them"
    if not evidence.has_consumer:
        with_consumer = own = ""
    return (
        f"CPU-bound: {_busy(evidence)}, and {_batch(evidence)} takes {seconds(evidence.measured.cpu_s)} of CPU time"
        f"{with_consumer}: cheaper transforms{own} or more CPUs help, more workers do not"
    )


def _memory(evidence: Evidence) -> str:
    refused = evidence.refused[0]
    return f"{_workers(refused.num_workers)} had no room ({refused.reason}); {_workers(evidence.best.num_workers)} fit"


def _latency(evidence: Evidence) -> str:
    loading = "loading" if evidence.loading_s is None else f"the {seconds(evidence.loading_s)} that loading takes"
    best = evidence.best.num_workers
    shared = f", which {_workers(best)} share: they help above the number of CPUs" if best else ""
    return f"latency-bound: {share(evidence.waiting)} of {loading} is waiting{shared}; {_about_edge(evidence)}"


def _batch(evidence: Evidence) -> str:
    """Whose CPU time is told."""
    ranks = evidence.configuration.ranks
    return "a batch" if ranks == 1 else f"a batch of each of the {ranks} ranks"


def _workers(count: int) -> str:
    return counted(count, "worker")


def _busy(evidence: Evidence) -> str:
    cpus = counted(evidence.cores, "CPU")
    return f"{cpus} {'is' if evidence.cores == 1 else 'are'} busy {share(evidence.busy)} of the time"


# What is said of the first limit, and of others: noise has none beside it, and start-up comes before all others.
_MAIN: dict[Bottleneck, Callable[[Evidence], str]] = {
    Bottleneck.NOISE: _noise,
    Bottleneck.STARTUP: _startup,
    Bottleneck.COMPETITION: _competition,
    Bottleneck.CONSUMER: _consumer,
    Bottleneck.TRANSFER: _transfer,
    Bottleneck.CPU: _cpu,
    Bottleneck.MEMORY: lambda evidence: f"memory-bound: {_memory(evidence)}",
    Bottleneck.LATENCY: _latency,
}
_BESIDES: dict[Bottleneck, Callable[[Evidence], str]] = {
    Bottleneck.COMPETITION: lambda evidence: f"workers slow the training step down, on {evidence.cores:g} CPUs",
    Bottleneck.CONSUMER: lambda evidence: (
        f"the consumer is busy {share(evidence.consume_s / evidence.batch_s)} of the time"
    ),
    Bottleneck.TRANSFER: _transfer_besides,
    Bottleneck.CPU: _busy,
    Bottleneck.MEMORY: _memory,
    Bottleneck.LATENCY: lambda evidence: f"{share(evidence.waiting)} of loading is waiting",
}
