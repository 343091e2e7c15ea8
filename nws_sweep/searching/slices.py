"""Time slices: a candidate is resumed, takes windows up to the first that counts, and
is paused."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from nws_sweep import errors, units
from nws_sweep.errors import TimeLimitReached, TrialError, TrialInterrupted
from nws_sweep.records import TimeSlice, Window, WindowKind, WindowRequest
from nws_sweep.searching import counters, schedule
from nws_sweep.searching.candidate import Candidate
from nws_sweep.searching.estimates import Estimates
from nws_sweep.system import resources
from nws_sweep.trials.environment import STALL_S, TrialProcess

# share of the time with the program's own number of threads that is worth a warning
_FEWER_THREADS = 0.8
_STALLED = "it made no progress while the others were paused: a paused process may have held a lock that it needed"


def take_slice(
    candidate: Candidate, number: int, window_s: float, memory_left: int | None
) -> None:
    """Resumes or starts the trial process of a candidate, takes warm-up and one window
    or epoch, and pauses it.

    An error ends the trial.

    Args:
        candidate: May have a trial process, which is paused.
        number: The round.
        window_s: Least length of the window, s, if below ``measure.window_s``.
        memory_left: Memory that its processes may hold in addition to what they hold,
            B; None for no limit.
    """
    memory_bytes = None
    if memory_left is not None:
        memory_bytes = memory_left + (candidate.process.usage.added_bytes or 0)
    candidate.least_window_s = window_s
    with _errors_recorded(candidate):
        if candidate.must_restart:
            candidate.discard_slices()
        earlier_stalls, earlier_slices = candidate.stalls, list(candidate.slices)
        try:
            process = candidate.process.resume(memory_bytes) or _start(
                candidate, memory_bytes
            )
            _take_windows(candidate, process, number)
            resources.check_budget(candidate.process.usage.added_bytes, memory_bytes)
        except TrialInterrupted as interruption:
            candidate.slices = earlier_slices
            if not candidate.has_pace:
                raise
            # an interrupt may have ended the trial process too
            candidate.process.environment.check_interrupts()
            candidate.note(f"ended early: {interruption}")
            candidate.process.close()
            return
        # later stalls are caused by the candidate
        if candidate.stalls > earlier_stalls == 0:
            candidate.slices = earlier_slices
            # Persistent workers would first make the rest of their epoch.
            persists = candidate.settings.persistent_workers
            candidate.must_restart, candidate.begins_epoch = persists, not persists
        else:
            _leave_out_first_slice(candidate)


def finish(candidate: Candidate, note: str, estimates: Estimates | None) -> None:
    """Makes the row of a candidate final, with a note; a row with an impossible pace
    has a reason instead of a time.

    Args:
        candidate: Finished or not.
        note: For the row; empty for the reason why the trial ended, if it is not
            precise.
        estimates: Of all candidates; None if no candidate has a time.
    """
    if candidate.is_finished:
        return
    if not candidate.has_pace:
        candidate.fail(
            TrialError(
                "it was stopped, by a limit or to free resources, before it was timed"
            )
        )
        return
    if not note:
        rounds = units.counted(len(candidate.figures.timing.paces_s), "round")
        note = f"ended after {rounds}" if candidate.was_ended else candidate.limit
    if note:
        candidate.note(note)
    half_width = estimates.half_width(candidate.settings) if estimates else None
    reason = candidate.figures.impossible(half_width)
    if reason:
        candidate.fail(errors.TrialMismeasured(reason))
        return
    with _errors_recorded(candidate):
        _take_last_look(candidate)
    candidate.is_finished = True


@contextmanager
def _errors_recorded(candidate: Candidate) -> Iterator[None]:
    """Adds the time of commands to the cost of a candidate, and records errors as the
    state and reason of its trial."""
    environment = candidate.process.environment
    began_s, started_in_s = environment.clock(), candidate.process.started_in_s
    try:
        yield
    except TrialError as error:
        # an interrupt may have ended the trial process too
        environment.check_interrupts()
        candidate.fail(error)
    except TimeLimitReached:
        waited_s = (
            environment.clock()
            - began_s
            - (candidate.process.started_in_s - started_in_s)
        )
        # else the trial would have no row
        if not candidate.windows and waited_s >= STALL_S:
            reason = f"no batch within {units.seconds(waited_s)}, until the search's time limit"
            candidate.fail(TrialInterrupted(reason))
        raise
    finally:
        candidate.cost_s += environment.clock() - began_s


def _report_stall(candidate: Candidate) -> None:
    if candidate.process.turns.resume_others(candidate.process):
        candidate.stalls += 1
        candidate.note(_STALLED)


def _start(candidate: Candidate, memory_bytes: int | None) -> TrialProcess:
    process = candidate.process.start(memory_bytes, candidate.place or 0.0)
    process.on_stall = partial(_report_stall, candidate)
    candidate.batches_per_epoch = process.batches_per_epoch
    return process


def _take_windows(candidate: Candidate, process: TrialProcess, number: int) -> None:
    """Takes windows up to the first that counts, pauses the process, and adds the time
    slice of a round.

    An error in between leaves the windows before it in the time slice.
    """
    environment = candidate.process.environment
    machine_before, began_s = environment.machine_time(), environment.clock()
    windows: list[Window] = []
    try:
        _append_windows(windows, candidate, process)
        candidate.process_warnings = process.warned()
        if candidate.settings.num_workers and candidate.logged is None:
            candidate.logged = process.logged()
    finally:
        candidate.process.pause()
        time_slice = TimeSlice(
            windows=tuple(windows),
            elapsed_s=environment.clock() - began_s,
            machine=environment.machine_time().since(machine_before),
            before=candidate.process.usage,
            after=process.usage(),
            round=number,
        )
        candidate.process.usage = time_slice.after
        candidate.slices.append(time_slice)


def _append_windows(
    windows: list[Window], candidate: Candidate, process: TrialProcess
) -> None:
    """Asks for windows until the last of a time slice, and appends each of them to
    ``windows``."""
    was_paused = bool(candidate.slices)
    is_last = False
    while not is_last:
        if candidate.process.is_late:
            raise TimeLimitReached
        taken = [] if candidate.begins_epoch else [*candidate.windows, *windows]
        is_after_pause = was_paused and not windows
        request = schedule.next_request(
            taken, candidate.conditions, was_paused=is_after_pause
        )
        candidate.begins_epoch = False
        windows.append(process.window(request))
        _check_end(candidate, request, windows)
        is_last = _is_last(request, windows, candidate)


def _is_last(
    request: WindowRequest, windows: list[Window], candidate: Candidate
) -> bool:
    """Whether a time slice ends with its latest window: it counts, or the data can be
    read only once.

    After an epoch in which persistent workers have started, the next one shows what an
    epoch takes without that, and follows at once if it is shorter than a window.
    """
    if candidate.is_exhausted:
        return True
    rules = candidate.process.configuration.measure
    has_started_workers = (
        len(windows) == 1
        and not candidate.windows
        and candidate.settings.persistent_workers
    )
    if (
        has_started_workers
        and request.kind is WindowKind.EPOCH
        and rules.mode != "epoch"
    ):
        return windows[0].elapsed_s - (windows[0].startup_s or 0.0) > rules.window_s
    return request.kind is not WindowKind.WARM_UP


def _check_end(
    candidate: Candidate, request: WindowRequest, windows: list[Window]
) -> None:
    """Drops the latest window if it is a new epoch without a batch: otherwise the loop
    would start epochs forever.

    TrialError if no window counts so far; else the data can be read only once.
    """
    is_new_epoch = request.fresh or request.kind is WindowKind.EPOCH
    if windows[-1].batches or not windows[-1].ended_epoch or not is_new_epoch:
        return
    windows.pop()
    taken = [*candidate.windows, *windows]
    if not (schedule.steady_windows(taken) or schedule.epoch_windows(taken)):
        settings = candidate.settings
        batch = "further batch" if taken else "batch"
        if settings.batch_size is not None:
            batch += f" of {settings.batch_size}"
        raise TrialError(
            f"the loader returned no {batch} (drop_last={settings.drop_last})"
        )
    candidate.is_exhausted = True


def _leave_out_first_slice(candidate: Candidate) -> None:
    """Leaves out a first time slice that read from storage: only the first candidate
    would meet a cold page cache.

    Leaves out the first short epoch too, in which a process imports modules and fills
    caches. Persistent workers start in the first epoch only, so their trial restarts,
    once.
    """
    persists = candidate.settings.persistent_workers
    if len(candidate.slices) != 1 or (persists and candidate.discarded):
        return
    if (
        candidate.process.configuration.measure.cache == "cold"
        or candidate.place is not None
    ):
        return
    (first,) = candidate.slices
    if schedule.is_short_epoch(
        candidate.windows, candidate.conditions
    ) or counters.came_from_storage(first):
        candidate.slices[0] = counters.as_warm_up(first)
        candidate.must_restart = persists


def _take_last_look(candidate: Candidate) -> None:
    """Starts another epoch after whole epochs: the workers, which end with each epoch,
    show their memory.

    Their calls are timed in a second batch of each worker.
    """
    process = candidate.process.running
    if (
        process is None
        or not candidate.settings.num_workers
        or candidate.is_exhausted
        or candidate.process.is_late
    ):
        return
    if not schedule.whole_epochs(candidate.windows, candidate.conditions):
        return
    try:
        process.resume()
        began = process.window(WindowRequest(kind=WindowKind.WARM_UP, fresh=True))
        process.wait_until_idle()
        ready = process.window(WindowRequest(kind=WindowKind.WARM_UP))
    except (TrialError, TimeLimitReached):
        candidate.process.close()
        return
    candidate.process.pause()
    candidate.process.read_usage()
    usage = candidate.process.usage
    records = (*began.records, *ready.records)
    candidate.slices.append(
        TimeSlice(windows=(), before=usage, after=usage, records=records)
    )


def compare_threads(candidate: Candidate) -> None:
    """Warns if torch is faster with one thread or one for each CPU, after the first
    time slice without workers.

    The comparison takes as long as a window.
    """
    configuration = candidate.process.configuration
    is_first_slice = len(candidate.slices) == 1 and not candidate.discarded
    if candidate.settings.num_workers or not is_first_slice or configuration.ranks > 1:
        return
    counts = (1, max(1, int(candidate.process.environment.cores(1))))
    times_s = candidate.process.ask(
        lambda process: process.thread_times(counts, configuration.measure.window_s)
    )
    warning = threads_warning(times_s or {})
    if warning:
        candidate.warn(warning)


def threads_warning(times_s: Mapping[int, float]) -> str:
    """Warns if the program's number of torch's threads is much slower than another
    number; empty if not.

    Args:
        times_s: Seconds per sample by number of threads, the program's number first;
            empty if they are unknown.
    """
    if not times_s:
        return ""
    usual = next(iter(times_s))
    best = min(times_s, key=lambda threads: times_s[threads])
    if times_s[best] > _FEWER_THREADS * times_s[usual]:
        return ""
    return (
        f"without workers, torch.set_num_threads({best}), or OMP_NUM_THREADS={best}, would save "
        f"{units.share(1 - times_s[best] / times_s[usual])} of loading: a sample takes {units.seconds(times_s[best])} "
        f"instead of {units.seconds(times_s[usual])} with {usual} threads"
    )
