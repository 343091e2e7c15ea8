"""Diagnoses of workloads with known bottlenecks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from nws_sweep.analysis import caveats
from nws_sweep.analysis.advice import predictions, scaling_sentence, sentence
from nws_sweep.analysis.diagnosis import Bottleneck, Diagnosis, diagnose
from nws_sweep.analysis.summary import recommend
from nws_sweep.results import Estimate, LoaderSettings, Measurement, Noise, SearchRecord, Trial, TrialState
from tests.factories import FACTS, HOST, configuration, failed_trial, search_rules, trial
from tests.factories import search_result as result_of


def timed(n: int, batch_s: float, consume_s: float, epoch_s: float | None = None, **known: Any) -> Trial:
    """A trial of another program: by default without CPU time and time of loading alone."""
    known = {"startup_s": 0.046, **known}
    measured = Measurement(
        batch_s=Estimate(value=batch_s, low=batch_s / 1.02, high=batch_s * 1.02, n=5),
        consume_s=consume_s,
        wait_s=batch_s - consume_s,
        epoch_s=epoch_s or 0.046 + 99 * batch_s,
        **known,
    )
    return trial(n, 1.0, measurement=measured, noise=Noise())


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Times of a batch, s: loading in one process, its CPU time, CPU time of moving, the consumer.

    ``receive_s`` is the time of the main process to receive a batch.
    """

    loading_s: float
    cpu_s: float
    moving_s: float = 0.0
    consume_s: float = 0.0
    consume_cpu_s: float = 0.0
    receive_s: float = 0.0
    cores: int = 2
    batches: int = 1000
    start_s: float = 0.1
    worker_start_s: float = 0.01
    tried: tuple[int, ...] = (0, 1, 2, 4, 8, 16)
    refused: tuple[int, ...] = ()

    def trial(self, n: int) -> Trial:
        """Measured without an error."""
        cpu_s = self.cpu_s + self.consume_cpu_s + (self.moving_s if n else 0.0)
        loading_s = max((self.loading_s + self.moving_s) / max(1, n), (self.cpu_s + self.moving_s) / self.cores)
        apart_s = max(loading_s, cpu_s / self.cores, self.consume_s + self.receive_s)
        batch_s = apart_s if n else self.loading_s + self.consume_s
        startup_s = batch_s if n == 0 else self.loading_s + self.start_s + n * self.worker_start_s
        alone_s = (loading_s if n else self.loading_s) if self.consume_s else None
        epoch_s = startup_s + (self.batches - 1) * batch_s
        return timed(n, batch_s, self.consume_s, epoch_s, startup_s=startup_s, loading_s=alone_s, cpu_s=cpu_s)

    @property
    def result(self) -> SearchRecord:
        refused = [failed_trial(n, "it needs 9 GB, 4 GB are free", TrialState.SKIPPED) for n in self.refused]
        return result_of(
            *map(self.trial, self.tried),
            *refused,
            configuration=configuration(search=search_rules(self.tried)),
            facts=replace(FACTS, samples=64 * self.batches),
            host=replace(HOST, usable_cpus=self.cores),
        )

    @property
    def diagnosis(self) -> Diagnosis:
        return diagnosed(self.result)


def diagnosed(result: SearchRecord) -> Diagnosis:
    best, _ = recommend(result.trials, 0.03)
    found = diagnose(result, best)
    assert found is not None
    return found


LATENCY = Workload(loading_s=0.032, cpu_s=0.0002)
CPU = Workload(loading_s=0.016, cpu_s=0.016)
SHORT = Workload(loading_s=0.032, cpu_s=0.016, batches=12)
WAITING_FOR_A_CONSUMER = Workload(loading_s=0.016, cpu_s=0.0002, consume_s=0.005)


@pytest.mark.parametrize(
    ("workload", "bottlenecks", "words"),
    [
        (
            LATENCY, [Bottleneck.LATENCY],
            "latency-bound: 99 % of the 32.0 ms of loading is I/O wait, so more workers than CPUs help (16 used)",
        ),
        # without a candidate of 0 workers the fewest workers are used
        (replace(LATENCY, tried=(4, 8)), [Bottleneck.LATENCY], "latency-bound: 99 % of loading is I/O wait, "),
        (
            replace(LATENCY, tried=(0,)), [Bottleneck.LATENCY],
            "latency-bound: 99 % of the 32.0 ms of loading is I/O wait; no candidate with workers was measured",
        ),
        (
            CPU, [Bottleneck.CPU],
            "CPU-bound: CPU utilization 100 % (2 CPUs), and a batch takes 16.0 ms of CPU time; cheaper transforms",
        ),
        (
            Workload(loading_s=0.001, cpu_s=0.001, moving_s=0.003), [Bottleneck.TRANSFER],
            "transfer-bound: a batch takes 1.00 ms without workers and 4.00 ms with 1 worker; load without",
        ),
        (
            Workload(loading_s=0.008, cpu_s=0.003, moving_s=0.009),
            [Bottleneck.TRANSFER, Bottleneck.CPU, Bottleneck.LATENCY],
            "transfer-bound: a batch takes 12.0 ms of CPU time with workers and 3.00 ms without, and the",
        ),
        (SHORT, [Bottleneck.STARTUP, Bottleneck.CPU, Bottleneck.LATENCY], "start-up-bound: "),
        (
            Workload(loading_s=0.016, cpu_s=0.016, batches=4, start_s=0.3), [Bottleneck.STARTUP],
            "start-up-bound: 2 workers load a batch in 8.00 ms instead of 16.0 ms, but lengthen an epoch from",
        ),
        (
            Workload(loading_s=0.032, cpu_s=0.016, cores=16, tried=(0, 1, 2, 4), refused=(8, 16)),
            [Bottleneck.MEMORY, Bottleneck.LATENCY],
            "memory-bound: 8 workers did not fit (it needs 9 GB, 4 GB are free); 4 workers did; also: 50 %",
        ),
        (
            Workload(loading_s=0.016, cpu_s=0.016, cores=8, tried=(0, 2)), [],
            "no bottleneck found: CPU utilization 25 %; no candidate above 2 workers was",
        ),
        (
            Workload(loading_s=0.009, cpu_s=0.002, consume_s=0.005, consume_cpu_s=0.007),
            [Bottleneck.CONSUMER, Bottleneck.CPU],
            "consumer-bound: the consumer takes 5.00 ms of 5.00 ms per batch; 2 workers keep up",
        ),
        (
            Workload(loading_s=0.002, cpu_s=0.002, consume_s=0.008, receive_s=0.0016),
            [Bottleneck.CONSUMER, Bottleneck.TRANSFER],
            "consumer-bound: the consumer takes 8.00 ms of 9.60 ms per batch; 1 worker keeps up (loading alone takes "
            "2.00 ms), and more workers will not help: receiving a batch has a fixed cost of 1.60 ms",
        ),
    ],
    ids=lambda value: "+".join(limit.value for limit in value) or "none" if isinstance(value, list) else "",
)  # fmt: skip
def test_the_bottleneck_is_reported_with_figures_and_the_remedy(
    workload: Workload, bottlenecks: list[Bottleneck], words: str
) -> None:
    found = workload.diagnosis
    assert list(found.bottlenecks) == bottlenecks
    assert sentence(found).startswith(words)
    for text in (sentence(found), *predictions(found)):
        assert not re.search(r"\n|\b(None|nan|inf)\b| - of|  ", text), text


def test_noise_beside_another_candidate_counts_too() -> None:
    """With many workers of its own, the best candidate may seem undisturbed."""
    met = replace(CPU.trial(0), noise=Noise(other_cpus=1.5))
    found = diagnose(replace(CPU.result, trials=(met, CPU.trial(2))), CPU.trial(2))
    assert found is not None
    assert (found.bottlenecks, found.scaling) == ((Bottleneck.NOISE,), None)
    assert sentence(found).startswith(
        "too much noise to identify the bottleneck: a batch took 8.00 ms ±2.0 %, other programs used up to 1.5"
    )


def test_the_upper_bound_and_the_prediction_for_more_workers() -> None:
    """16 ms of loading by at most two workers, for a consumer of 5 ms: 8 ms a batch where 5 ms are possible."""
    half = Workload(loading_s=0.016, cpu_s=0.0002, consume_s=0.005, tried=(0, 1, 2))
    assert list(predictions(half.diagnosis)) == [
        "upper bound: an infinitely fast loader would speed up training 1.60x",
        "model: 4 workers would add at most 60 % throughput",  # the consumer's time is the floor
    ]
    alone = Workload(loading_s=0.016, cpu_s=0.0002, cores=8, tried=(0, 4))  # its own point may be off by 2 %
    assert list(predictions(alone.diagnosis)) == ["model: 8 workers would add at most 100 % throughput"]
    assert list(predictions(LATENCY.diagnosis)) == ["model: 32 workers would add at most 100 % throughput"]
    assert list(predictions(WAITING_FOR_A_CONSUMER.diagnosis)) == [
        "upper bound: an infinitely fast loader would not speed up training"
    ]
    assert list(predictions(CPU.diagnosis)) == []  # more were measured


def test_the_scaling_fit_is_reported_beside_the_measured_best() -> None:
    line = scaling_sentence(WAITING_FOR_A_CONSUMER.diagnosis)
    assert line == (
        "scaling fit t = max(m + n/x, y): n = 16.0 ms, m = 0.00 µs, y = 5.00 ms: x = n / (y - m) = 3.20 workers "
        "suffice; the measured best is 4"
    )
    assert scaling_sentence(replace(WAITING_FOR_A_CONSUMER, tried=(0, 2)).diagnosis) == ""


def test_more_workers_are_not_suggested_if_the_consumer_is_busy() -> None:
    """Four workers, the largest candidate, keep a consumer of 5 ms busy."""
    busy = Workload(loading_s=0.016, cpu_s=0.0002, consume_s=0.005, tried=(0, 1, 2, 4))
    assert busy.diagnosis.bottlenecks[0] is Bottleneck.CONSUMER
    assert "would add" not in " ".join(predictions(busy.diagnosis))
    assert not [line for line in caveats.on(busy.result, busy.diagnosis.evidence.best) if "largest one" in line]


def test_the_time_to_receive_a_batch_excludes_the_consumer() -> None:
    found = Workload(loading_s=0.001, cpu_s=0.001, moving_s=0.008, consume_s=0.003).diagnosis
    candidates = found.evidence.candidates
    assert found.bottlenecks[0] is Bottleneck.TRANSFER
    looked_at = {**candidates, 1: replace(candidates[1], loading_s=0.0085)}
    text = sentence(replace(found, evidence=replace(found.evidence, candidates=looked_at)))
    assert text.startswith(
        "transfer-bound: a batch takes 1.00 ms without workers and 8.50 ms with 1 worker; load without"
    )


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (
            [timed(0, 0.098, 0.082), timed(1, 0.123, 0.121)],
            "workers compete with the training step for 2 CPUs: the step takes 82.0 ms per batch without workers and ",
        ),
        (
            [timed(0, 0.100, 0.080), timed(1, 0.104, 0.103)],  # may be an accelerator's work
            "no bottleneck found: CPU time unknown; workers were not faster",
        ),
        (
            [timed(0, 0.100, 0.060), timed(2, 0.099, 0.060)],
            "transfer-bound: the training step waits 40.0 ms without workers and 39.0 ms with 2 workers; ",
        ),
        (
            [timed(0, 0.100, 0.002), timed(2, 0.020, 0.002, epoch_s=5.9)],
            "no bottleneck found: CPU time unknown",  # 3.9 s of the epoch are slow steps, not the start
        ),
    ],
)
def test_diagnoses_of_programs_without_cpu_times(trials: list[Trial], words: str) -> None:
    program = replace(LATENCY, batches=100, tried=()).result
    assert sentence(diagnosed(replace(program, trials=tuple(trials)))).startswith(words)


def test_without_a_steady_state_a_batch_is_its_share_of_the_epoch() -> None:
    whole = Workload(loading_s=0.016, cpu_s=0.0002, consume_s=0.002, batches=10, tried=(0, 2))
    trials = [
        replace(t, measurement=replace(t.measurement, batch_s=None)) for t in whole.result.trials if t.measurement
    ]
    found = diagnose(replace(whole.result, trials=tuple(trials)), trials[1])
    assert found is not None
    assert found.evidence.batch_s == pytest.approx((0.016 + 0.1 + 0.02 + 9 * 0.008) / 10)
    assert sentence(found).startswith("start-up-bound: start-up takes 136 ms of a 208 ms epoch")
    unknown = replace(found.evidence, batches=None)  # of a dataset without a length, one epoch of which was measured
    assert unknown.starting_s(unknown.measured) is None


def test_fork_is_suggested_for_spawned_workers() -> None:
    found = SHORT.diagnosis
    for method, is_suggested in (("spawn", True), ("fork", False)):
        best = replace(found.evidence.best, settings=LoaderSettings(batch_size=64, multiprocessing_context=method))
        text = sentence(replace(found, evidence=replace(found.evidence, best=best)))
        assert ("fork starts faster than spawn" in text) == is_suggested
