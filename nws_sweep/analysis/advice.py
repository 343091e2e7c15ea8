"""Diagnoses in sentences: what limits the epoch, what is saved without it, and what to change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.measurement.quantities import MIN_CONSUMER_SHARE
from nws_sweep.replay.counterfactual import Bottleneck, Counterfactual
from nws_sweep.results import Measurement, Noise
from nws_sweep.units import counted, interval, ratio, seconds, share

_NEGLIGIBLE_GAIN = 0.01
_NO_CONSUMER = 1 / MIN_CONSUMER_SHARE  # a loader that takes so many times the consumer's time
_RISE = 1.5  # ratio of costs in the last third of an epoch and in the first that is worth a line


def sentence(diagnosis: Diagnosis) -> str:
    """What is saved without the first bottleneck, figures and the remedy, then the others."""
    found, replayed = diagnosis.best.measurement, diagnosis.replayed
    if replayed is None or found is None:
        return _noise(diagnosis)
    if not diagnosis.causes:
        return f"no bottleneck found: nothing saves a tenth of the epoch if it is taken away; {_busy(diagnosis, found)}"
    first, *others = diagnosis.causes
    taken = diagnosis.bottlenecks if diagnosis.together else [first.bottleneck]
    names, without = (" and ".join(words[each] for each in taken) for words in (_NAMES, _WITHOUT))
    start = f"{names}: {without} the epoch would take {share(first.saved)} less"
    if first.bottleneck is Bottleneck.ORDER and not diagnosis.together:
        start = f"{names} costs {share(first.saved)} of the epoch"
    also = " and ".join(f"{share(cause.saved)} less {_WITHOUT[cause.bottleneck]}" for cause in others)
    also = f"; also: {also}" if also and not diagnosis.together else ""
    return f"{start}; {_REMEDIES[first.bottleneck](diagnosis, found, replayed)}{also}"


def further(diagnosis: Diagnosis) -> Iterator[str]:
    """Costs that depend on the position, settings that save time, and the upper bound of what a faster loader saves."""
    if diagnosis.replayed is None:
        return
    rise = diagnosis.replayed.rise
    if max(rise, 1 / rise) >= _RISE:
        yield (
            f"a batch in the last third of the epoch costs {rise:.2g} times as much as one in the first: "
            "times of the beginning alone would mislead"
        )
    if diagnosis.suggestions and diagnosis.bottlenecks[:1] != (Bottleneck.ORDER,):
        yield _suggested(diagnosis)
    bound = diagnosis.replayed.free_loader
    if bound < _NO_CONSUMER:
        much = f"speed up training {ratio(bound)}" if bound - 1 > _NEGLIGIBLE_GAIN else "not speed up training"
        yield f"upper bound: an infinitely fast loader would {much}"


def _suggested(diagnosis: Diagnosis) -> str:
    names, savings = zip(*diagnosis.suggestions, strict=True)
    return f"{' or '.join(names)} would save {' or '.join(share(saved) for saved in savings)} of the epoch"


def _noise(diagnosis: Diagnosis) -> str:
    noise, found = diagnosis.best.noise or Noise(), diagnosis.best.measurement
    took = f"a batch took {interval(found.batch_s)}, " if found and found.batch_s else ""
    return (
        f"too much noise to identify the bottleneck: {took}other programs used up to {diagnosis.other_cpus:.1f} CPUs, "
        f"the hypervisor took {share(noise.steal)} of the CPU time; measure again on a quiet machine, or "
        f"{diagnosis.configuration.search.measure_longer_hint}"
    )


def _startup(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    uses_fork = diagnosis.best.settings.multiprocessing_context in (None, "fork")
    spawn = "" if uses_fork else "; fork starts faster than spawn"
    return f"persistent_workers=true removes most of it after the first epoch{spawn}"


def _order(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    if diagnosis.suggestions:
        return _suggested(diagnosis)
    return "batches of more even cost help (a larger batch_size, or shuffle)"


def _memory(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    refused = diagnosis.refused[0]
    return f"{_workers(refused.num_workers)} did not fit ({refused.reason}); {_workers(diagnosis.best.num_workers)} did"


def _competition(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    alone_s, beside_s = replayed.consumer_s
    return (
        f"beside workers it takes {seconds(beside_s)} per batch on {counted(diagnosis.cores, 'CPU')} instead of "
        f"{seconds(alone_s)}; cheaper transforms, fewer threads for the step (torch.set_num_threads) or more CPUs "
        "help, more workers do not"
    )


def _consumer(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    best = diagnosis.best.num_workers
    keeps_up = f"{_workers(best)} keep{'s' if best == 1 else ''} up" if best else "no workers are needed"
    return (
        f"the consumer takes {seconds(found.consume_s)} of {seconds(_batch_s(found))} per batch; "
        f"{keeps_up}, and more workers will not help"
    )


def _transfer(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    load_s, hand_over_s = replayed.load_s, replayed.hand_over_s
    figures = f"handing a batch over takes {seconds(hand_over_s)}"
    if not diagnosis.best.num_workers and load_s < hand_over_s:
        against = f"{seconds(load_s)} against {seconds(hand_over_s)}"
        figures = f"loading a batch is cheaper than handing it over ({against}), so workers cannot help"
    return (
        f"{figures}; reduce the data per batch (a smaller dtype, conversion on the device), "
        "or use fewer and larger tensors"
    )


def _cpu(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    twice = replayed.with_cpus(2 * diagnosis.cores)
    consumer = ", a consumer that needs less CPU" if replayed.free_loader < _NO_CONSUMER else ""
    return (
        f"with {counted(2 * diagnosis.cores, 'CPU')} {share(max(0.0, twice.share))} less; {_busy(diagnosis, found)}; "
        f"cheaper transforms{consumer} or more CPUs help, more workers do not"
    )


def _latency(diagnosis: Diagnosis, found: Measurement, replayed: Counterfactual) -> str:
    best = diagnosis.best.num_workers
    shared = f"more workers than CPUs help ({best} used)" if best else "no workers share it"
    return f"loading a batch takes {seconds(replayed.load_s)}, {share(replayed.waiting)} of it I/O wait: {shared}"


def _busy(diagnosis: Diagnosis, found: Measurement) -> str:
    if found.cpu_s is None:
        return "CPU time unknown"
    batch_s = _batch_s(found)
    busy = f"CPU utilization {share(min(1.0, found.cpu_s / (diagnosis.cores * batch_s)))}, " if batch_s else ""
    return f"{busy}{seconds(found.cpu_s)} of CPU time per batch"


def _batch_s(found: Measurement) -> float | None:
    """Without a steady pace the time in ``next()`` and in the consumer."""
    return found.batch_s.value if found.batch_s else (found.wait_s or 0.0) + (found.consume_s or 0.0)


def _workers(count: int) -> str:
    return counted(count, "worker")


_NAMES = {
    Bottleneck.STARTUP: "start-up-bound",
    Bottleneck.ORDER: "head-of-line blocking",
    Bottleneck.MEMORY: "memory-bound",
    Bottleneck.COMPETITION: "workers compete with the training step",
    Bottleneck.CONSUMER: "consumer-bound",
    Bottleneck.TRANSFER: "transfer-bound",
    Bottleneck.CPU: "CPU-bound",
    Bottleneck.LATENCY: "latency-bound",
}
_WITHOUT = {
    Bottleneck.STARTUP: "without the start-up of workers",
    Bottleneck.ORDER: "with batches of equal cost",
    Bottleneck.MEMORY: "with memory for more workers",
    Bottleneck.COMPETITION: "with an undisturbed step",
    Bottleneck.CONSUMER: "with an instant consumer",
    Bottleneck.TRANSFER: "without hand-over",
    Bottleneck.CPU: "with enough CPUs",
    Bottleneck.LATENCY: "without I/O wait",
}
_REMEDIES: dict[Bottleneck, Callable[[Diagnosis, Measurement, Counterfactual], str]] = {
    Bottleneck.STARTUP: _startup,
    Bottleneck.ORDER: _order,
    Bottleneck.MEMORY: _memory,
    Bottleneck.COMPETITION: _competition,
    Bottleneck.CONSUMER: _consumer,
    Bottleneck.TRANSFER: _transfer,
    Bottleneck.CPU: _cpu,
    Bottleneck.LATENCY: _latency,
}
