"""Several arms as one: the ranks of a host, which load at once and step by step, as in DistributedDataParallel.

Each is an arm with a dataset and a DataLoader of its own and torchrun's environment. To whoever measures they are one
arm whose batches are steps of all.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

from nws_sweep import arms, attendance, blame, merging, processes, rank_environment, temporary
from nws_sweep.arms import STALL_S, UNLIMITED, Arm, Supervision
from nws_sweep.errors import RankLost
from nws_sweep.records import (
    ArmSpec,
    Burst,
    BurstRequest,
    DatasetFacts,
    LoaderSettings,
    Rank,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    Usage,
)

Answer = TypeVar("Answer")
_WATCH_EVERY_S = 0.5
# After the first failure: others may tell the same, or why they are gone.
_SAME_WITHIN_S, _CAUSE_WITHIN_S = 0.3, 5.0


class RankedArm:
    """The ranks of one candidate. ``start`` makes it and ends it.

    A command goes to all of them at once. One that fails, dies or hangs ends them all.

    Args:
        ranks: Their arms, by number.
        folder: Where they note how often they have met.
        memory_budget_bytes: What they and their workers may hold together; None for no limit.

    Attributes:
        facts: What the dataset of the first one said of itself.
        batches_per_epoch: Steps of an epoch, once their loaders are open; None if unknown.
    """

    facts: DatasetFacts

    def __init__(self, ranks: Sequence[Arm], folder: str, memory_budget_bytes: int | None) -> None:
        self._ranks = ranks
        self._folder = folder
        self._memory_budget_bytes = memory_budget_bytes
        self._threads = ThreadPoolExecutor(len(ranks), "nws_sweep-rank")
        self._on_stall: Callable[[], None] = lambda: None
        self.batches_per_epoch: int | None = None

    def prepare(self) -> DatasetFacts:
        """Makes the datasets; as ``Arm.prepare``."""
        self.facts = self._all(Arm.prepare)[0]
        return self.facts

    def open(self, settings: LoaderSettings) -> None:
        """Makes the DataLoaders, of the same settings each."""
        self._all(lambda arm: arm.open(settings))
        self.batches_per_epoch = merging.merged_length(arm.batches_per_epoch for arm in self._ranks)

    def burst(self, request: BurstRequest) -> Burst:
        """Takes a burst of steps.

        Raises:
            TrialError: As of an arm, with the number of the rank.
        """
        return merging.merged_burst(self._all(lambda arm: arm.burst(request), self._on_stall))

    def watch(self, on_stall: Callable[[], None]) -> None:
        """Sets what is called when a burst does not come forward for long."""
        self._on_stall = on_stall

    def settle(self) -> None:
        """Waits until the workers have nothing left to do; a few seconds at most."""
        self._all(Arm.settle)

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings that were issued in any of them."""
        return merging.merged_lines(self._all(Arm.warned))

    def files(self) -> tuple[str, ...]:
        """The files and folders that the attributes of their datasets name."""
        return merging.merged_lines(self._all(Arm.files))

    def logged(self) -> SamplesLogged:
        """Some of the samples that the workers of the first one have made."""
        return self._ranks[0].logged()

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        """Loads samples in the first one without workers."""
        return self._ranks[0].load(keys, limit_s)

    def load_in_turn(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        """Loads samples in workers of the first one, one at a time."""
        return self._ranks[0].load_in_turn(samples, settings)

    def samples(self, settings: LoaderSettings, most: int, limit_s: float = math.inf) -> SamplesSeen:
        """The samples of an epoch of the first one: what its workers share."""
        return self._ranks[0].samples(settings, most, limit_s)

    def allow(self, memory_bytes: int | None) -> None:
        """Sets what they may hold together from now on; None for no limit."""
        self._memory_budget_bytes = memory_bytes

    def pause(self) -> None:
        """Stops them where they are; none of them is on its way to a meeting."""
        for arm in self._ranks:
            arm.pause()

    def resume(self) -> None:
        """Lets them go on."""
        for arm in self._ranks:
            arm.resume()

    def usage(self) -> Usage:
        """What they have used together."""
        return merging.merged_usage([arm.usage() for arm in self._ranks])

    def close(self) -> None:
        """Ends the threads that waited for answers; the arms themselves are ended by whoever started them."""
        self._threads.shutdown()

    def _all(self, command: Callable[[Arm], Answer], on_stall: Callable[[], None] = lambda: None) -> list[Answer]:
        """What each answers to a command; after a failure none of them is left."""
        answers = [self._threads.submit(command, arm) for arm in self._ranks]
        try:
            self._wait(answers, on_stall)
        except BaseException:
            for arm in self._ranks:  # others wait for this one, in a meeting that will never be
                arm.kill()
            wait(answers, processes.GONE_WITHIN_S)
            raise
        return [answer.result() for answer in answers]

    def _wait(self, answers: Sequence[Future[Any]], on_stall: Callable[[], None]) -> None:
        stall_at = time.monotonic() + STALL_S
        while wait(answers, _WATCH_EVERY_S, FIRST_EXCEPTION).not_done and not _failures(answers):
            arms.check_memory([arm.pid for arm in self._ranks], self._memory_budget_bytes)
            if time.monotonic() >= stall_at:
                stall_at = float("inf")
                on_stall()
        if _failures(answers):
            raise blame.blamed(_all_failures(answers), len(self._ranks), attendance.missing(self._folder))


def _failures(answers: Sequence[Future[Any]]) -> dict[int, BaseException]:
    ended = ((number, answer.exception()) for number, answer in enumerate(answers) if answer.done())
    return {number: error for number, error in ended if error is not None}


def _all_failures(answers: Sequence[Future[Any]]) -> dict[int, BaseException]:
    """Those of the moment: who was the first is not who was heard first."""
    wait(answers, _SAME_WITHIN_S)
    give_up_at = time.monotonic() + _CAUSE_WITHIN_S
    while all(isinstance(error, RankLost) for error in _failures(answers).values()) and time.monotonic() < give_up_at:
        if not wait([answer for answer in answers if not answer.done()], _SAME_WITHIN_S).not_done:
            break
    return _failures(answers)


@contextlib.contextmanager
def start(spec: ArmSpec, ranks: int, supervision: Supervision = UNLIMITED) -> Iterator[RankedArm]:
    """Starts the ranks, each with a dataset of its own, and kills them in the end.

    Args:
        spec: What each is made of.
        ranks: How many, at least 1.
        supervision: What they may take together, and who is told how the first one comes on.

    Raises:
        DatasetError: If a dataset cannot be made.
        ConfigurationError: If a consumer or a collate_fn cannot be made.
        TrialError: If a process died while making them.
    """
    with contextlib.ExitStack() as stack:
        with processes.uninterrupted():
            folder = stack.enter_context(temporary.folder())
        attendance.create(folder, ranks)
        specs = _specs(spec, ranks, folder)
        started = [stack.enter_context(arms.launch(each, _of_one(supervision, each))) for each in specs]
        ranked = RankedArm(started, folder, supervision.memory_budget_bytes)
        stack.callback(ranked.close)
        ranked.prepare()
        yield ranked


def _specs(spec: ArmSpec, ranks: int, folder: str) -> list[ArmSpec]:
    outside, port = os.environ if spec.environment is None else spec.environment, rank_environment.free_port()
    every = [Rank(number=number, ranks=ranks, folder=folder) for number in range(ranks)]
    return [replace(spec, rank=rank, environment=rank_environment.of_rank(rank, port, outside)) for rank in every]


def _of_one(supervision: Supervision, spec: ArmSpec) -> Supervision:
    """That of a rank: its own time; the memory is watched over for all; and one is enough to hear from."""
    alone = replace(supervision, memory_budget_bytes=None)
    is_first = spec.rank is not None and spec.rank.number == 0
    return alone if is_first else replace(alone, on_progress=UNLIMITED.on_progress)
