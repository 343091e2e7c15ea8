"""One candidate while it is measured: its arm, its turns, and the trial that they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from nws_sweep import noise, roofline
from nws_sweep.conditions import Conditions
from nws_sweep.errors import TrialError, TrialMismeasured, TrialOutOfMemory, TrialSkipped, TrialTimeout
from nws_sweep.quantities import all_bursts, came_from_disk, least_cpu_s, summarise
from nws_sweep.records import (
    Burst,
    BurstKind,
    Configuration,
    DatasetFacts,
    LoaderSettings,
    Measurement,
    Trial,
    TrialState,
    Turn,
    Usage,
)
from nws_sweep.settling import out_of_limits, settled
from nws_sweep.surroundings import Surroundings, TrialArm
from nws_sweep.trial import next_request, whole_epochs

_STATES: dict[type[TrialError], TrialState] = {
    TrialTimeout: TrialState.TIMEOUT,
    TrialOutOfMemory: TrialState.OUT_OF_MEMORY,
    TrialSkipped: TrialState.SKIPPED,
    TrialMismeasured: TrialState.MISMEASURED,
}

# A cache that is still cold after so many turns does not hold the data: then that is what is measured.
_MOST_COLD_TURNS = 3


class Candidate:
    """One value of num_workers under a configuration, from the start of its arm to its trial.

    Args:
        num_workers: The candidate.
        configuration: What is held fixed.
        surroundings: Arms, clock and machine.

    Attributes:
        facts: What the dataset said of itself; None before it was made.
        files: Files and folders that its attributes name, looked for where they will be dropped from the page cache.
        done: Whether its trial is finished, for better or for worse.
        came_from_disk: Whether the files of its latest turn were not in the page cache.
    """

    def __init__(self, num_workers: int, configuration: Configuration, surroundings: Surroundings) -> None:
        asked = replace(configuration.loader, num_workers=num_workers)
        self.settings: LoaderSettings = asked.canonical()
        self.facts: DatasetFacts | None = None
        self.files: tuple[str, ...] = ()
        self.done = False
        self.came_from_disk = False
        self._configuration = configuration
        self._surroundings = surroundings
        self._stack = ExitStack()
        self._arm: TrialArm | None = None
        self._turns: list[Turn] = []
        self._earlier: list[Turn] = []
        self._usage = Usage()
        self._warnings: tuple[str, ...] = ()
        self._notes = _canonical_notes(asked)
        self._cost_s = 0.0
        self._error: TrialError | None = None
        self._length: int | None = None
        self._memory_bytes: int | None = None
        self._cold_turns = 0

    @property
    def num_workers(self) -> int:
        """Its value."""
        return self.settings.num_workers

    @property
    def alive(self) -> bool:
        """Whether it has an arm."""
        return self._arm is not None

    @property
    def usage(self) -> Usage:
        """What its processes had used when they were last looked at; nothing without an arm."""
        return self._usage if self.alive else Usage()

    @property
    def bursts(self) -> list[Burst]:
        """All bursts so far."""
        return all_bursts(self._turns)

    @property
    def position(self) -> int:
        """Batches into the data, all epochs together, that it may have asked for by the end of its next turn."""
        taken = sum(burst.batches for burst in self.bursts)
        latest = sum(burst.batches for burst in self._turns[-1].bursts) if self._turns else 0
        return taken + 2 * latest + 2 * self.settings.queued_batches

    @property
    def trial(self) -> Trial:
        """What it has come to, finished or not."""
        found = self._measurement()
        uncounted = [replace(burst, kind=BurstKind.WARM_UP) for burst in all_bursts(self._earlier)]
        return Trial(
            settings=self.settings,
            state=TrialState.OK if self._error is None else _STATES.get(type(self._error), TrialState.FAILED),
            reason="" if self._error is None else str(self._error),
            notes=self._notes,
            warnings=self._warnings,
            measurement=found,
            noise=noise.of_turns(self._turns, self._conditions.cores, len(uncounted)) if found else None,
            finished=self.done,
            bursts=(*uncounted, *self.bursts),
            cost_s=self._cost_s,
        )

    @property
    def _conditions(self) -> Conditions:
        return Conditions(
            settings=self.settings,
            rules=self._configuration.measure,
            batches_per_epoch=self._seen_length or self._length,
            cores=self._surroundings.cores(),
        )

    def open(self, memory_bytes: int | None) -> None:
        """Starts the arm, lets it warm up unless it measures whole epochs, and pauses it.

        Args:
            memory_bytes: What its processes may hold; None for no limit.
        """
        self._memory_bytes = memory_bytes
        with self._paid_for():
            arm = self._arm = self._stack.enter_context(self._surroundings.open_arm(self._configuration, memory_bytes))
            self.facts = arm.facts
            arm.open(self.settings)
            self._length = arm.batches_per_epoch
            rules = self._configuration.measure
            self.files = arm.files() if rules.cache == "cold" and rules.cache_files is None else ()
            self._usage = arm.usage()
            if whole_epochs([], self._conditions):
                arm.pause()
            else:
                self._take_turn(arm, only_warm_up=True)

    def turn(self) -> None:
        """Goes on, throws away what must be, takes one window or epoch, and is paused again."""
        with self._paid_for():
            if self._arm is None:
                raise RuntimeError("a candidate without an arm cannot take a turn")
            self._arm.resume()
            self._take_turn(self._arm)
            self._discard_if_cold()
            self._conclude()

    def skip(self, reason: str) -> None:
        """Ends it before it has begun."""
        self._fail(TrialSkipped(reason))

    def close(self) -> None:
        """Ends its arm; what was measured stays."""
        self._stack.close()
        self._arm = None

    @contextmanager
    def _paid_for(self) -> Iterator[None]:
        """Counts the time, and makes of whatever goes wrong in the arm the trial's state and reason."""
        began = self._surroundings.clock()
        try:
            yield
        except TrialError as error:
            self._fail(error)
        finally:
            self._cost_s += self._surroundings.clock() - began

    def _take_turn(self, arm: TrialArm, *, only_warm_up: bool = False) -> None:
        rested = bool(self._turns)
        machine_before, began = self._surroundings.machine_time(), self._surroundings.clock()
        bursts: list[Burst] = []
        try:
            while not bursts or (bursts[-1].kind is BurstKind.WARM_UP and not only_warm_up):
                request = next_request([*self.bursts, *bursts], self._conditions, rested=rested and not bursts)
                bursts.append(arm.burst(request))
                self._refuse_empty(bursts[-1])
            self._warnings = arm.warned()
        finally:
            arm.pause()
            elapsed_s = self._surroundings.clock() - began
            machine = self._surroundings.machine_time().since(machine_before)
            before, self._usage = self._usage, arm.usage()
            self._turns.append(
                Turn(bursts=tuple(bursts), before=before, after=self._usage, elapsed_s=elapsed_s, machine=machine)
            )

    def _refuse_empty(self, burst: Burst) -> None:
        """An epoch without a batch would be begun again for ever."""
        if burst.ended_epoch and not burst.batches and (burst.kind is BurstKind.EPOCH or not self._turns):
            raise TrialError(
                f"the loader gave no batch of {self.settings.batch_size} (drop_last={self.settings.drop_last})"
            )

    def _discard_if_cold(self) -> None:
        """A turn whose files came from storage is one more warm-up where the page cache should be warm."""
        latest = self._turns[-1]
        self.came_from_disk = came_from_disk(latest)
        if self._configuration.measure.cache == "warm" and self.came_from_disk and self._cold_turns < _MOST_COLD_TURNS:
            self._cold_turns += 1
            bursts = tuple(replace(burst, kind=BurstKind.WARM_UP) for burst in latest.bursts)
            self._turns[-1] = replace(latest, bursts=bursts)

    def _conclude(self) -> None:
        """Finishes the trial if it has enough; what cannot be true is measured once more."""
        enough, limit = settled(self._turns, self._conditions), out_of_limits(self.bursts, self._conditions)
        if not (enough or limit):
            return
        found = summarise(self._turns, self._conditions)
        whole = whole_epochs(self.bursts, self._conditions)
        cpu_s = least_cpu_s(self._turns, self._conditions)
        doubt = roofline.violation(found, cpu_s, self._conditions, whole_epochs=whole)
        if doubt and not self._earlier:
            self._measure_again(doubt)
        elif doubt:
            raise TrialMismeasured(f"{doubt}; measured twice")
        else:
            self.done = True
            self._notes += self._closing_notes("" if enough else limit)

    def _closing_notes(self, limit: str) -> tuple[str, ...]:
        notes = []
        if limit:
            precision = self._configuration.measure.precision
            notes.append(f"stopped at {limit} before the interval was within measure.precision={precision:g}")
        if self._length is not None and self._seen_length not in (None, self._length):
            notes.append(f"an epoch ended after {self._seen_length} batches, though its length says {self._length}")
        return tuple(notes)

    @property
    def _seen_length(self) -> int | None:
        """Batches of an epoch that was seen to its end, if its length was known: an iterable dataset may be wrong."""
        epochs = [burst.batches for burst in self.bursts if burst.kind is BurstKind.EPOCH]
        return epochs[-1] if epochs and self._length is not None else None

    def _measure_again(self, doubt: str) -> None:
        self.close()
        self._notes += (f"measured again, since {doubt}",)
        self._earlier, self._turns = self._turns, []
        self.open(self._memory_bytes)

    def _measurement(self) -> Measurement | None:
        believed = self._error is None or isinstance(self._error, TrialMismeasured)
        begun = any(burst.startup_s is not None for burst in self.bursts)
        return summarise(self._turns, self._conditions) if believed and begun else None

    def _fail(self, error: TrialError) -> None:
        self._error, self.done = error, True
        self.close()


def _canonical_notes(asked: LoaderSettings) -> tuple[str, ...]:
    """What was asked for but has no meaning without workers."""
    used = asked.canonical()
    names = [
        name
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
        if getattr(asked, name) != getattr(used, name)
    ]
    return (f"num_workers=0 has no {', '.join(names)}",) if names else ()
