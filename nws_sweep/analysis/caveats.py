"""Warnings: lines that question an answer or suggest how to improve it. Pure."""

from collections.abc import Iterator, Sequence

from nws_sweep import units
from nws_sweep.analysis import answers
from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.errors import one_line
from nws_sweep.records import (
    NO_STEP,
    ONLINE_STRATEGY,
    SearchRecord,
    Trial,
    TrialState,
    dataset_facts,
)
from nws_sweep.system import processes

# Noise is reported above these limits: shares that show in an interval of 5 %.
# ``answers.load`` names other programs.
_DISTURBANCES = (
    (
        "steal",
        0.05,
        "the hypervisor took {share} of the CPU time while {candidate} was measured",
    ),
    (
        "throttled",
        0.02,
        "{candidate} was throttled by its CPU quota {share} of the time",
    ),
)
_LONGEST_LIST = 300  # characters
_STALE = "persistent workers do not see what your program changes in the dataset between epochs"
_WITHOUT_A_DEVICE = (NO_STEP, "nws_sweep.dataloading.training_steps.Sleep")


def notes(result: SearchRecord, best: Trial | None) -> list[str]:
    """The most serious of what takes the answer back, and what it changes in a training
    besides the time; empty if there is nothing of either."""
    if best is None:
        return []
    lines = [*_against(result, best)][:1]
    was_chosen = not result.configuration.loader.persistent_workers
    if best.settings.persistent_workers and was_chosen:
        lines.append(_STALE)
    return lines


def _against(result: SearchRecord, best: Trial) -> Iterator[str]:
    """Yields what may make the samples wrong, then what may make the times wrong."""
    if result.facts and result.facts.handles and best.num_workers > 1:
        yield dataset_facts.shared_handles_warning(result.facts)
    if result.facts and result.facts.generators and best.num_workers:
        yield dataset_facts.equal_draws_warning(", ".join(result.facts.generators))
    yield from _about_workers(result.trials)
    load = answers.load([result])
    if load:
        yield load
    yield from _about_noise(result.trials)


def on(
    result: SearchRecord, best: Trial | None, diagnosis: Diagnosis | None
) -> Iterator[str]:
    """Yields the warnings about the answer of a search, besides ``notes``; ``best`` is
    the recommended trial, if any.

    What is open stands in the first line (``answers.line_of_search``).
    """
    for trial in result.trials:
        if trial.state is TrialState.WRONG_SAMPLES:
            yield f"num_workers={trial.num_workers} is excluded: {trial.reason}"
            break
    if best is not None:
        yield from [*_against(result, best)][1:]
        yield from _about_edge(diagnosis)
        yield from _about_objects(result)
    else:
        yield from _about_noise(result.trials)
    yield from dict.fromkeys(
        warning for trial in result.trials for warning in trial.warnings
    )


def _about_workers(trials: Sequence[Trial]) -> Iterator[str]:
    workers = [trial for trial in trials if trial.num_workers]
    no_failures = (TrialState.OK, TrialState.WRONG_SAMPLES, TrialState.INTERRUPTED)
    failed = [trial for trial in workers if trial.state not in no_failures]
    if failed and failed == workers:
        yield f"every num_workers above 0 failed: {failed[0].reason}"


def _about_edge(diagnosis: Diagnosis | None) -> Iterator[str]:
    if diagnosis and diagnosis.more_workers:
        ((more, saved),) = diagnosis.more_workers.items()
        yield (
            f"the best value is the largest one allowed (num_workers={diagnosis.best.num_workers}); {more} would save "
            f"{units.share(saved)} of the epoch (set a larger max_workers or candidate)"
        )


def _about_objects(result: SearchRecord) -> Iterator[str]:
    """A line for each attribute of the dataset with many Python objects, if workers are
    forked."""
    measured = [trial.settings for trial in result.trials if trial.measurement]
    most = max(measured, key=lambda settings: settings.num_workers, default=None)
    if result.facts is None or not most or not most.num_workers:
        return
    if (most.multiprocessing_context or processes.start_method()) != "fork":
        return
    for store in result.facts.objects:
        yield (
            f"the dataset keeps {store.count:,} Python objects in {store.attribute} ({store.type}, about "
            f"{units.memory(store.bytes)}): reading them copies them into each forked worker, up to "
            f"{units.memory(store.bytes * most.num_workers)} with {most.num_workers} workers; NumPy arrays of "
            "fixed-width strings or numbers, or pyarrow arrays, are shared"
        )


def _about_noise(trials: Sequence[Trial]) -> Iterator[str]:
    measured = [trial for trial in trials if trial.noise is not None]
    for name, limit, line in _DISTURBANCES:
        shares = {getattr(t.noise, name): t.num_workers for t in measured}
        most = max(shares, default=0.0)
        if most > limit:
            candidate = f"num_workers={shares[most]}"
            yield line.format(share=units.share(most), candidate=candidate)


def on_all(results: Sequence[SearchRecord]) -> list[str]:
    """Lists the warnings that concern all configurations of a grid."""
    lines = [*filter(None, [unlike_machines(results)])]
    if any(map(_pins_in_vain, results)):
        lines.append("pin_memory=true has no effect here: there is no accelerator")
    if results and all(map(_copies_unpinned, results)):
        lines.append(
            "pin_memory=true was not tried: batches may be copied faster to the accelerator (add it to settings)"
        )
    return lines


def _pins_in_vain(result: SearchRecord) -> bool:
    has_none = result.facts is not None and result.facts.accelerator is None
    return has_none and result.configuration.loader.pin_memory


def unlike_machines(results: Sequence[SearchRecord]) -> str:
    """Warns if results come from machines whose times cannot be compared; empty if
    not."""
    machines = [*dict.fromkeys(filter(None, map(machine, results)))]
    if len(machines) < 2:
        return ""
    listed = one_line("; ".join(machines), _LONGEST_LIST)
    return f"times of unlike machines cannot be compared: {listed} (use one folder for each kind of machine)"


def machine(result: SearchRecord) -> str:
    """Describes the CPUs, memory and accelerator with which a result was measured;
    empty if nothing was."""
    if not result.trials:  # the host of a lost job is unknown
        return ""
    host, cpus = result.host, units.counted(result.host.usable_cpus, "CPU")
    # usable memory differs a little between equal machines
    memory = units.memory(float(f"{host.memory_bytes:.1e}"))
    accelerator = result.facts.accelerator if result.facts else None
    return ", ".join(filter(None, (host.cpu_model, cpus, memory, accelerator)))


def _copies_unpinned(result: SearchRecord) -> bool:
    """Whether a training step may copy batches to an accelerator, and page-locked
    memory was not an option."""
    configuration, search = result.configuration, result.configuration.search
    if result.facts is None or result.facts.accelerator is None:
        return False
    if search.strategy == ONLINE_STRATEGY:  # which has no such setting
        return False
    if configuration.training_step.get("_target_") in _WITHOUT_A_DEVICE:
        return False
    is_searched = "pin_memory" in search.searched(configuration.loader)
    return not is_searched and not configuration.loader.pin_memory
