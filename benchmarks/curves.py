"""Datasets and machines whose best number of workers is known: the oracle simulates
their epochs without noise."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from nws_sweep.records import LoaderSettings, MeasureRules
from tests.oracle import Load, simulate

BATCH_SIZE = 2  # samples of a batch, of which each waits, then computes
TOLERANCE = 0.03  # share of the time that twice as many workers must save
_EQUAL = 0.01  # prices that differ by this share are equally good
PREFETCH_FACTORS = (1, 2, 4, 8)
# that the start of persistent workers is shared by
PERSISTENT_EPOCHS = MeasureRules(epochs=1).shared_epochs

# factors of the costs of an epoch's batches, mean about 1
Shape = Callable[[random.Random, int], list[float]]


def similar(draw: random.Random, batches: int) -> list[float]:
    """Batches that are exactly equal would keep workers in step, as no machine does."""
    return [draw.uniform(0.9, 1.1) for _ in range(batches)]


def log_normal(draw: random.Random, batches: int) -> list[float]:
    """Some batches take several times as long as others."""
    return [draw.lognormvariate(-0.32, 0.8) for _ in range(batches)]


def pareto(draw: random.Random, batches: int) -> list[float]:
    """A heavy tail: the mean has hardly a limit."""
    return [draw.paretovariate(1.7) * 0.41 for _ in range(batches)]


def bimodal(draw: random.Random, batches: int) -> list[float]:
    """A tenth of the batches takes twenty times as long."""
    return [draw.choices([0.34, 6.9], [9, 1])[0] for _ in range(batches)]


def every_eighth(draw: random.Random, batches: int) -> list[float]:
    """Each eighth batch costs twenty times as much as the others."""
    return [6.0 if batch % 8 == 0 else 0.3 for batch in range(batches)]


def ascending(draw: random.Random, batches: int) -> list[float]:
    """Sorted by cost, as by the length of sentences."""
    return sorted(draw.lognormvariate(-0.18, 0.6) for _ in range(batches))


def drifting(draw: random.Random, batches: int) -> list[float]:
    """Neighbours cost alike, as shards of files do."""
    return [
        1 + 0.7 * math.sin(6 * math.pi * batch / batches) + 0.1 * draw.random()
        for batch in range(batches)
    ]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A dataset, what its loader costs, and the machine. Times in seconds, of a
    batch."""

    name: str
    about: str
    cpu_s: float = 0.002  # CPU time for making a batch
    wait_s: float = 0.0
    shape: Shape = similar
    # factor of both by number of workers
    slowdown: Callable[[int], float] = lambda workers: 1.0
    batches: int = 3000  # of an epoch
    cpus: float = 2.0
    is_shuffled: bool = True
    # more CPU time for the first batch of a worker, which imports modules and fills
    # caches
    first_cpu_s: float = 0.01
    # of main process and workers, as in Load
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)
    most_workers: int = 96  # that are compared for the best

    def load(
        self,
        settings: LoaderSettings,
        order: Sequence[int] | None = None,
        *,
        starts: bool = True,
    ) -> Load:
        """The load of an epoch.

        Args:
            settings: Of the DataLoader.
            order: Of the batches; None for the sampler's.
            starts: Whether workers start and end with it; persistent ones do not in
                later epochs.
        """
        workers, shape = settings.num_workers, _shape(self)
        slowdown = self.slowdown(workers)
        factors = [
            shape[batch] * slowdown
            for batch in (range(self.batches) if order is None else order)
        ]
        costs = {
            "receive_s": 0.002,
            "fork_s": 0.002,
            "start_s": 0.02,
            "stop_s": 0.008,
            **self.costs,
        }
        if not starts:
            costs.update(fork_s=0.0, start_s=0.0, stop_s=0.0)
        first_batches = workers if starts else 0
        return Load(
            cpu_s=[
                self.cpu_s * factor + self.first_cpu_s * (n < first_batches)
                for n, factor in enumerate(factors)
            ],
            wait_s=[self.wait_s * factor for factor in factors],
            num_workers=workers,
            prefetch_factor=settings.prefetched or 1,
            in_order=settings.in_order,
            samples=BATCH_SIZE,
            cpus=self.cpus,
            **costs,
        )

    def limit_s(self, workers: int) -> float:
        """The least time of a batch that any schedule can reach."""
        load = self.load(settings_of(workers))
        making_cpu_s = (
            sum(load.cpu_s) - workers * self.first_cpu_s
        ) / self.batches + load.transfer_s
        waiting_s = sum(load.wait_s) / self.batches
        main_cpu_s = load.sampler_s + (load.receive_s if workers else 0.0)
        return max(
            (making_cpu_s + main_cpu_s + load.step_cpu_s) / self.cpus,
            (making_cpu_s - load.transfer_s + waiting_s) / max(1, workers),
            main_cpu_s + load.step_s + (load.receive_wait_s if workers else 0.0),
        )


@cache
def _shape(curve: Curve) -> list[float]:
    return curve.shape(random.Random(curve.name), curve.batches)


def settings_of(
    workers: int, prefetch_factor: int = 2, *, persists: bool = False
) -> LoaderSettings:
    """The settings of a candidate."""
    return LoaderSettings(
        batch_size=BATCH_SIZE,
        num_workers=workers,
        prefetch_factor=prefetch_factor,
        persistent_workers=persists,
    ).canonical()


@cache
def moments_s(curve: Curve, settings: LoaderSettings, *, starts: bool) -> list[float]:
    """When the batches of an epoch without noise come, and when it ends."""
    return simulate(curve.load(settings, starts=starts))


def batch_s(curve: Curve, settings: LoaderSettings) -> float:
    """True time per batch of an epoch, start and end of the workers included; a tenth
    of these if they persist."""
    epoch_s = moments_s(curve, settings, starts=True)[-1]
    if settings.persistent_workers:
        epoch_s += (1 - 1 / PERSISTENT_EPOCHS) * (
            moments_s(curve, settings, starts=False)[-1] - epoch_s
        )
    return epoch_s / curve.batches


def pace_s(curve: Curve, settings: LoaderSettings) -> float:
    """True time per batch once the queue has filled, before it runs empty."""
    epoch_s = moments_s(curve, settings, starts=not settings.persistent_workers)
    workers, queued = (
        settings.num_workers,
        settings.num_workers + settings.queued_batches,
    )
    first = min(queued, curve.batches // 4)
    count = max(curve.batches - 1 - queued, curve.batches // 2) - first
    count -= count % max(1, workers)  # equal workers deliver together
    return (epoch_s[first + count] - epoch_s[first]) / count


def price_s(curve: Curve, settings: LoaderSettings) -> float:
    """J: the time, priced by workers."""
    return batch_s(curve, settings) * math.pow(
        1 + TOLERANCE, math.log2(1 + settings.num_workers)
    )


@cache
def best(curve: Curve) -> tuple[LoaderSettings, float]:
    """The best settings, and their price; workers that persist are never slower."""
    prices_s = {
        settings: price_s(curve, settings)
        for settings in map(_persistent, _ladder(curve.most_workers))
    }
    workers = min(prices_s, key=lambda settings: prices_s[settings]).num_workers
    near = {
        number
        for number in range(workers - 3, workers + 4)
        if 0 <= number <= curve.most_workers
    }
    prices_s |= {
        settings: price_s(curve, settings) for settings in map(_persistent, near)
    }
    workers = min(prices_s, key=lambda settings: prices_s[settings]).num_workers
    for number in {workers, workers // 2} - {0}:
        for factor in PREFETCH_FACTORS:
            settings = settings_of(number, factor, persists=True)
            prices_s[settings] = price_s(curve, settings)
    answer = min(prices_s, key=lambda settings: prices_s[settings])
    return answer, prices_s[answer]


def _persistent(workers: int) -> LoaderSettings:
    return settings_of(workers, persists=True)


def _ladder(most: int) -> Iterator[int]:
    """All small numbers of workers; of more than 20, every fourth; of more than 64,
    every sixteenth."""
    return (
        n for n in range(most + 1) if n <= 20 or (n <= 64 and n % 4 == 0) or n % 16 == 0
    )


def regret(curve: Curve, settings: LoaderSettings) -> float:
    """By how much the price of an answer exceeds the least, as a share."""
    return max(0.0, price_s(curve, settings) / best(curve)[1] - 1)


def _slowdown(table: Mapping[int, float], workers: int) -> float:
    """How much longer workers take if batches take the times of a table, that of the
    next fewer workers."""
    number = max(n for n in table if n <= max(1, workers))
    return table[number] / table[1] * max(1, workers)


_PEAK = {1: 30.0, 2: 15.0, 3: 12.6, 4: 14.2, 5: 14.5, 8: 15.0, 16: 16.0}
_PLATEAU = {
    1: 64.0,
    2: 32.0,
    3: 24.0,
    4: 18.0,
    5: 17.8,
    6: 17.6,
    8: 17.4,
    12: 13.0,
    16: 9.0,
    24: 7.0,
    32: 6.0,
}
CURVES = (
    Curve(
        name="waits",
        about="waits of 6 ms a sample, 2 CPUs",
        wait_s=0.024,
        cpu_s=0.001,
        costs={"receive_s": 0.0008},
    ),
    Curve(
        name="gain to 64",
        about="64 workers are far faster than 15",
        wait_s=0.2,
        cpu_s=0.0008,
        cpus=16,
        most_workers=128,
    ),
    Curve(
        name="peak at 3",
        about="3 workers are faster than 2 and 4",
        wait_s=0.03,
        cpu_s=0.0,
        cpus=4,
        slowdown=partial(_slowdown, _PEAK),
    ),
    Curve(
        name="every eighth",
        about="each eighth batch costs 20 times as much, in order",
        wait_s=0.034,
        shape=every_eighth,
        is_shuffled=False,
    ),
    Curve(
        name="step 20 ms",
        about="a step of 20 ms, receiving takes 2 ms",
        wait_s=0.036,
        cpu_s=0.001,
        cpus=4,
        costs={"step_s": 0.02, "receive_s": 0.002},
        batches=1000,
    ),
    Curve(
        name="gain to 200",
        about="waits of 1.2 s: a gain up to 200 workers",
        wait_s=1.2,
        cpu_s=0.002,
        cpus=32,
        costs={"receive_s": 0.001, "step_s": 0.003},
        most_workers=256,
        batches=8000,
    ),
    Curve(
        name="64 CPUs",
        about="64 CPUs with SMT: from 32 workers on a quarter of the gain",
        cpu_s=0.08,
        cpus=64,
        slowdown=lambda n: max(1.0, n / (32 + (n - 32) / 4)),
    ),
    Curve(
        name="late gains",
        about="a plateau from 4 to 8 workers, gains behind it",
        wait_s=0.064,
        cpu_s=0.0,
        cpus=8,
        slowdown=partial(_slowdown, _PLATEAU),
    ),
    Curve(
        name="4.9 % each",
        about="each doubling of the workers saves 4.9 %",
        wait_s=0.02,
        cpu_s=0.0,
        cpus=8,
        slowdown=lambda n: max(1, n) * 0.951 ** math.log2(1 + n),
    ),
    Curve(name="log-normal", about="log-normal waits", wait_s=0.03, shape=log_normal),
    Curve(name="Pareto", about="waits with a heavy tail", wait_s=0.03, shape=pareto),
    Curve(
        name="bimodal",
        about="a tenth of the batches takes 20 times as long",
        wait_s=0.03,
        shape=bimodal,
    ),
    Curve(
        name="sorted",
        about="batches cost ever more, in order",
        wait_s=0.03,
        shape=ascending,
        is_shuffled=False,
    ),
    Curve(
        name="drifting",
        about="neighbouring batches cost alike, in order",
        wait_s=0.03,
        shape=drifting,
        is_shuffled=False,
    ),
    Curve(name="computing", about="CPU-bound, 2 CPUs", cpu_s=0.02),
    Curve(
        name="computing log-normal",
        about="CPU-bound, 8 CPUs, log-normal",
        cpu_s=0.04,
        cpus=8,
        shape=log_normal,
    ),
    Curve(
        name="both",
        about="half waiting, half computing, 4 CPUs",
        cpu_s=0.015,
        wait_s=0.015,
        cpus=4,
        shape=log_normal,
    ),
    Curve(
        name="step",
        about="the training step is the limit",
        wait_s=0.02,
        costs={"step_s": 0.01},
    ),
    Curve(
        name="step computes",
        about="the step needs both CPUs, workers take them",
        cpu_s=0.008,
        costs={"step_s": 0.01, "step_cpu_s": 0.02},
    ),
    Curve(
        name="slower with workers",
        about="receiving takes longer than making",
        cpu_s=0.003,
        costs={"receive_s": 0.006, "transfer_s": 0.003},
    ),
    Curve(
        name="equal",
        about="no setting matters: the step is all",
        cpu_s=0.0002,
        batches=1000,
        costs={"step_s": 0.02, "receive_s": 0.0002},
    ),
    Curve(
        name="saturating server",
        about="a server that 6 workers saturate",
        wait_s=0.03,
        cpus=8,
        slowdown=lambda n: max(1.0, n / 6),
    ),
    Curve(
        name="thrashing disk",
        about="beyond 6 workers a disk gets slower",
        wait_s=0.03,
        cpus=8,
        slowdown=lambda n: max(1.0, (n / 6) ** 1.5),
    ),
    Curve(
        name="slow start",
        about="a worker takes 2 s to start, a short epoch",
        wait_s=0.04,
        batches=500,
        cpus=4,
        costs={"start_s": 2.0},
    ),
    Curve(name="short epoch", about="epochs of 60 batches", wait_s=0.02, batches=60),
    Curve(
        name="slow sampler",
        about="the sampler takes 3 ms a batch",
        wait_s=0.02,
        costs={"sampler_s": 0.003},
    ),
)
