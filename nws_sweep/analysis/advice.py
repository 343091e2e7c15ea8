"""Diagnoses in sentences: the bottleneck with figures, and what to change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nws_sweep.analysis.diagnosis import Bottleneck, Diagnosis, Evidence
from nws_sweep.results import Noise
from nws_sweep.units import counted, interval, number, ratio, seconds, share

_NEGLIGIBLE_GAIN = 0.01


def sentence(diagnosis: Diagnosis) -> str:
    """The first bottleneck with figures and the remedy, then the others."""
    evidence = diagnosis.evidence
    if not diagnosis.bottlenecks:
        cpus = "CPU time unknown" if evidence.busy is None else f"CPU utilization {share(evidence.busy)}"
        return f"no bottleneck found: {cpus}; {_about_edge(evidence)}"
    first, *others = diagnosis.bottlenecks
    also = " and ".join(_ALSO[bottleneck](evidence) for bottleneck in others)
    return _MAIN[first](evidence) + (f"; also: {also}" if also else "")


def predictions(diagnosis: Diagnosis) -> Iterator[str]:
    """The upper bound of what a faster loader gains, and what twice the workers add by the scaling fit."""
    evidence, scaling = diagnosis.evidence, diagnosis.scaling
    if evidence.has_consumer:  # at the steady pace: without the start-up of an epoch
        headroom = evidence.batch_s / evidence.consume_s
        much = f"speed up training {ratio(headroom)}" if headroom - 1 > _NEGLIGIBLE_GAIN else "not speed up training"
        yield f"upper bound: an infinitely fast loader would {much}"
    double = 2 * evidence.best.num_workers
    has_answer = evidence.larger or Bottleneck.CONSUMER in diagnosis.bottlenecks
    if double and scaling and not has_answer:
        quickest_s, _ = scaling.interval_s(double)
        gain = min(1.0, evidence.batch_s / quickest_s - 1)  # at most their share of workers
        much = f"at most {share(gain)}" if gain > _NEGLIGIBLE_GAIN else "almost no"
        yield f"model: {double} workers would add {much} throughput"


def scaling_sentence(diagnosis: Diagnosis) -> str:
    """The scaling fit with its values beside the measured best; empty without a consumer or two points above y."""
    scaling = diagnosis.scaling
    if scaling is None or scaling.points <= 1 or not diagnosis.evidence.has_consumer:
        return ""
    enough = "y is never reached"
    if scaling.enough is not None:
        enough = f"x = n / (y - m) = {number(scaling.enough)} workers suffice"
    return (
        f"scaling fit t = max(m + n/x, y): n = {seconds(scaling.n_s)}, m = {seconds(scaling.m_s)}, "
        f"y = {seconds(scaling.floor_s)}: {enough}; the measured best is {diagnosis.evidence.best.num_workers}"
    )


def _about_edge(evidence: Evidence) -> str:
    best = evidence.best.num_workers
    if evidence.larger:
        return f"more than {_workers(best)} were not faster" if best else "workers were not faster"
    if best == 0:
        return "no candidate with workers was measured: some may be faster"
    return (
        f"no candidate above {_workers(best)} was measured: {evidence.configuration.search.more_workers_hint} may help"
    )


def _noise(evidence: Evidence) -> str:
    noise, batch_s = evidence.best.noise or Noise(), evidence.measured.batch_s
    took = f"a batch took {interval(batch_s)}, " if batch_s else ""
    return (
        f"too much noise to identify the bottleneck: {took}other programs used up to {evidence.other_cpus:.1f} CPUs, "
        f"the hypervisor took {share(noise.steal)} of the CPU time; measure again on a quiet machine, or "
        f"{evidence.configuration.search.measure_longer_hint}"
    )


def _startup(evidence: Evidence) -> str:
    uses_fork = evidence.best.settings.multiprocessing_context in (None, "fork")
    spawn = "" if uses_fork else "; fork starts faster than spawn"
    remedy = f"persistent_workers=true removes most of it after the first{spawn}"
    epoch_s = seconds(evidence.measured.epoch_s)
    if evidence.best.num_workers or evidence.quicker_pace is None:
        starting_s = seconds(evidence.starting_s(evidence.measured))
        return f"start-up-bound: start-up takes {starting_s} of a {epoch_s} epoch; {remedy}"
    workers, found = evidence.quicker_pace
    pace_s = found.batch_s.value if found.batch_s else None
    return (
        f"start-up-bound: {_workers(workers)} load a batch in {seconds(pace_s)} instead of "
        f"{seconds(evidence.batch_s)}, but lengthen an epoch from {epoch_s} to {seconds(found.epoch_s)}; {remedy}"
    )


def _competition(evidence: Evidence) -> str:
    fewest, found = evidence.fewest or (0, evidence.measured)
    return (
        f"workers compete with the training step for {counted(evidence.cores, 'CPU')}: the step takes "
        f"{seconds(evidence.consume_s)} per batch without workers and {seconds(found.consume_s)} with "
        f"{_workers(fewest)}; cheaper transforms, fewer threads for the step (torch.set_num_threads) or more CPUs "
        "help, more workers do not"
    )


def _consumer(evidence: Evidence) -> str:
    best, loading_s = evidence.best.num_workers, evidence.measured.loading_s
    keeps_up = f"{_workers(best)} keep{'s' if best == 1 else ''} up" if best else "no workers are needed"
    alone = f" (loading alone takes {seconds(loading_s)})" if loading_s is not None else ""
    gain = evidence.batch_s / evidence.consume_s - 1
    more = f"would gain at most {share(gain)}" if gain > _NEGLIGIBLE_GAIN else "will not help"
    if evidence.receive_s is not None and evidence.receive_s > _NEGLIGIBLE_GAIN * evidence.batch_s:
        more = f"will not help: receiving a batch has a fixed cost of {seconds(evidence.receive_s)}"
    return (
        f"consumer-bound: the consumer takes {seconds(evidence.consume_s)} of {seconds(evidence.batch_s)} per batch; "
        f"{keeps_up}{alone}, and more workers {more}"
    )


def _transfer(evidence: Evidence) -> str:
    remedy = "reduce the data per batch (a smaller dtype, conversion on the device), or use fewer and larger tensors"
    fewest, found = evidence.fewest or (0, None)
    if evidence.best.num_workers or found is None or found.batch_s is None:
        alone_s = evidence.alone.cpu_s if evidence.alone else None
        return (
            f"transfer-bound: {_batch(evidence)} takes {seconds(evidence.measured.cpu_s)} of CPU time with workers and "
            f"{seconds(alone_s)} without, and the CPUs are saturated: moving batches between processes costs the "
            f"difference; {remedy}"
        )
    if evidence.has_consumer and found.loading_s is None:
        what, alone_s, worker_s = "the training step waits", evidence.loading_s, found.wait_s
    else:  # the time without that of the consumer
        what, alone_s = "a batch takes", evidence.loading_s
        worker_s = found.batch_s.value if found.loading_s is None else found.loading_s
    return (
        f"transfer-bound: {what} {seconds(alone_s)} without workers and {seconds(worker_s)} with {_workers(fewest)}; "
        f"load without workers, or {remedy}"
    )


def _transfer_also(evidence: Evidence) -> str:
    if evidence.receive_s is None:
        return "moving batches between processes takes much of the CPU time"
    receiving = share(evidence.receive_s / evidence.batch_s)
    return f"receiving batches takes {receiving} of the time with any number of workers (fewer, larger batches help)"


def _cpu(evidence: Evidence) -> str:
    with_consumer, own = ", including the consumer", ", a consumer that needs less CPU"
    if not evidence.has_consumer:
        with_consumer = own = ""
    return (
        f"CPU-bound: {_busy(evidence)}, and {_batch(evidence)} takes {seconds(evidence.measured.cpu_s)} of CPU time"
        f"{with_consumer}; cheaper transforms{own} or more CPUs help, more workers do not"
    )


def _memory(evidence: Evidence) -> str:
    refused = evidence.refused[0]
    return f"{_workers(refused.num_workers)} did not fit ({refused.reason}); {_workers(evidence.best.num_workers)} did"


def _latency(evidence: Evidence) -> str:
    best, loading_s = evidence.best.num_workers, evidence.loading_s
    loading = "loading" if loading_s is None else f"the {seconds(loading_s)} of loading"
    shared = f", so more workers than CPUs help ({best} used)" if best else ""
    return f"latency-bound: {share(evidence.waiting)} of {loading} is I/O wait{shared}; {_about_edge(evidence)}"


def _batch(evidence: Evidence) -> str:
    ranks = evidence.configuration.ranks
    return "a batch" if ranks == 1 else f"a batch of each of the {ranks} ranks"


def _workers(count: int) -> str:
    return counted(count, "worker")


def _busy(evidence: Evidence) -> str:
    return f"CPU utilization {share(evidence.busy)} ({counted(evidence.cores, 'CPU')})"


# Sentences for the first bottleneck, and for further ones: noise is reported alone, and start-up is always first.
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
_ALSO: dict[Bottleneck, Callable[[Evidence], str]] = {
    Bottleneck.COMPETITION: lambda evidence: f"workers slow down the training step on {evidence.cores:g} CPUs",
    Bottleneck.CONSUMER: lambda evidence: f"consumer busy {share(evidence.consume_s / evidence.batch_s)} of the time",
    Bottleneck.TRANSFER: _transfer_also,
    Bottleneck.CPU: _busy,
    Bottleneck.MEMORY: _memory,
    Bottleneck.LATENCY: lambda evidence: f"{share(evidence.waiting)} of loading is I/O wait",
}
