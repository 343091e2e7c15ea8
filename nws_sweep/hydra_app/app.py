"""The Hydra application: checks and announces, searches one configuration per job,
reports at the end.

A job records its failure and returns. It never raises into Hydra, whose basic sweeper
would hide the other jobs and skip its callbacks. The report is written after Hydra has
returned: an exception in a callback is only a warning there.

A launcher of Hydra returns the results of all points of a batch at once, and raises as
soon as one job dies. Points without a result are lost then; they are not launched
again, because their jobs may still run on a cluster.
"""

import contextlib
import importlib.util
import itertools
import logging
import shlex
import signal
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from nws_sweep.analysis.summary import best_of, summarise
from nws_sweep.config import embedding, hydra_errors, hydra_versions, schema
from nws_sweep.errors import INTERRUPTED, ConfigurationError, NwsSweepError, one_line
from nws_sweep.hydra_app import grid, resuming
from nws_sweep.hydra_app.call import Call
from nws_sweep.hydra_app.job import Job
from nws_sweep.records import Configuration, SearchRecord, storage
from nws_sweep.system import host, platforms
from nws_sweep.trials import trial_process

logger = logging.getLogger(__name__)

# Hydra makes the callback and the sweeper from their import paths and calls the task
# with the configuration alone, so none of them can receive the call. The only
# module-level state; None in a process that a launcher started.
current: Call | None = None

Point = Sequence[str]  # its overrides

_LOCAL_LAUNCHERS = (".BasicLauncher", ".JoblibLauncher", ".LocalLauncher")


def run() -> int:
    """Runs ``sys.argv``; exit status 1 if a configuration failed; NwsSweepError if a
    value is wrong."""
    global current  # noqa: PLW0603 - see there
    hydra_versions.require_command_line()
    current = call = Call()
    schema.register()
    # Our preset replaces the plugin's option of the same name on purpose; the
    # plugin's schema checks its keys.
    warnings.filterwarnings(
        "ignore",
        r"\s*'hydra/launcher/ray' is validated against ConfigStore schema",
        UserWarning,
    )
    with call.interrupts, contextlib.closing(call):
        return _run_and_conclude(call)


def _run_and_conclude(call: Call) -> int:
    conf, status = str(embedding.conf_folder()), 0
    application = hydra.main(
        config_path=conf, config_name="config", **hydra_versions.MAIN
    )(task)
    try:
        application()
        # a signal that arrived with the failure of the last job
        call.interrupts.check()
    except KeyboardInterrupt as stop:
        status = int(getattr(stop, "status", INTERRUPTED))
    except Exception as error:
        # Results of other jobs of a grid must be reported all the same.
        if isinstance(error, NwsSweepError) or not _folder_of_results(call):
            raise
        logger.exception("a job failed")
        call.view.note(one_line(f"a job failed: {type(error).__name__}: {error}"))
        status = 1
    call.restore()
    folder = _folder_of_results(call)
    if folder:
        return max(status, conclude(folder, call))
    return status


def _folder_of_results(call: Call) -> Path | None:
    """None after --help or --cfg, or if no job has started."""
    if call.folder and storage.holds_results(call.folder):
        return call.folder
    return None


def conclude(folder: Path, call: Call) -> int:
    """Writes the report and shows its table; the exit status is 1 if anything
    failed."""
    from nws_sweep.report import writer

    call.view.status("writing the report")
    try:
        summary, written = writer.write(folder)
    except KeyboardInterrupt:
        call.view.note(
            f"the report is not finished: nws-sweep report {shlex.quote(str(folder))}"
        )
        raise
    except OSError as error:  # such as a full disk
        summary, written = summarise(storage.find(folder)), []
        remedy = (
            f"the measurements are kept: nws-sweep report {shlex.quote(str(folder))}"
        )
        call.view.note(f"the report could not be written ({error}); {remedy}")
    call.view.conclude(summary, written)
    return 0 if summary.succeeded and written else 1


class GridCallback(Callback):
    """Checks and announces a run or a grid, and stops before anything is written if a
    value is wrong.

    Hydra turns an exception in a callback into a warning, but passes SystemExit on: its
    code is the error, which the command line prints.
    """

    def _prepare(self, config: DictConfig, *, is_grid: bool, **kwargs: Any) -> None:
        try:
            package = ".".join(_launcher(config).split(".")[:2])
            if (
                package == "hydra_plugins.hydra_ray_launcher"
                and importlib.util.find_spec(package) is None
            ):
                raise ConfigurationError(hydra_errors.missing_launcher("ray"))
            if current is None:
                raise ConfigurationError(
                    "hydra.callbacks: GridCallback is for python -m nws_sweep only"
                )
            prepare(config, current, is_grid=is_grid)
        except Exception as error:
            raise SystemExit(error) from error

    on_run_start = partialmethod(_prepare, is_grid=False)
    on_multirun_start = partialmethod(_prepare, is_grid=True)


def _launcher(config: DictConfig) -> str:
    return str(config.hydra.launcher.get("_target_"))


def prepare(composed: DictConfig, call: Call, *, is_grid: bool) -> None:
    """Checks values, datasets and the output folder, and announces the plan; the call
    begins with them."""
    platforms.require("searching")
    values = grid.without_hydra(composed)
    if is_grid:
        loader = GlobalHydra.instance().config_loader()
        plan, samples = grid.check(grid.Composer(composed, loader))
    else:
        plan, samples = grid.check_single(values, composed.hydra)
    folder = _check_folder(composed, is_grid=is_grid)
    is_new = not folder.exists()
    if not is_new:  # before datasets are made, since another program may hold the lock
        call.lock(folder)
    call.view.announce(plan)
    _make_datasets(samples, call)
    if is_new:
        call.lock(folder)
    # with the lock, since another program may have made the folder meanwhile
    if not is_grid:
        configuration = grid.configuration_of(values, composed.hydra, call.facts)
        resuming.refuse_another(folder, configuration)
    call.plan, call.folder = plan, folder


def _check_folder(composed: DictConfig, *, is_grid: bool) -> Path:
    """Returns the output folder, which has no results of another machine or kind."""
    options = composed.hydra.sweep if is_grid else composed.hydra.run
    folder = Path(options.dir).absolute()
    nodes_differ = is_grid and not _launcher(composed).endswith(_LOCAL_LAUNCHERS)
    resuming.check(folder, host.describe, is_grid=is_grid, nodes_differ=nodes_differ)
    return folder


def _make_datasets(configurations: Sequence[Configuration], call: Call) -> None:
    """Makes each distinct dataset: its files may be missing, or be downloaded. The fork
    server starts once."""
    nodes = [configuration.dataset for configuration in configurations]
    nodes += [configuration.training_step for configuration in configurations]
    trial_process.preload(nodes)
    for configuration in configurations:
        call.facts(configuration, str(Path.cwd()))


def task(composed: DictConfig) -> float | None:
    """The Hydra job: searches one configuration and writes its files.

    Returns:
        Seconds of an epoch with the best setting, or of a sample if the length of an
        epoch is unknown, for sweepers that minimize a value, such as Optuna's; None if
        nothing could be measured.
    """
    if current:
        return _measure(composed, current)
    # submitit's handlers ignore SIGTERM, of which the trial processes have died, and
    # requeue the job at SIGUSR2.
    for name in ("SIGTERM", "SIGUSR2"):
        number = getattr(signal, name, None)  # Windows has no SIGUSR2
        if number and str(
            getattr(signal.getsignal(number), "__module__", "")
        ).startswith("submitit."):
            signal.signal(number, signal.SIG_DFL)
    # Closed at once: the launcher's worker process may live on, or wait for its
    # children.
    with contextlib.closing(Call()) as call:
        return _measure(composed, call)


def _measure(composed: DictConfig, call: Call) -> float | None:
    hydra_config = cast("DictConfig", HydraConfig.get())
    folder = Path(hydra_config.runtime.output_dir)
    if call.folder is None:  # the callback was removed from the configuration
        call.folder = folder
    configuration = grid.configuration_of(composed, hydra_config, call.facts)
    job = Job(folder, call, hydra_config.runtime.cwd)
    result = job.measure(configuration, composed)
    return _value(result) if result else None


def _value(result: SearchRecord) -> float | None:
    best = best_of(result)
    if best is None or best.measurement is None:
        return None
    if best.measurement.epoch_s:
        return best.measurement.epoch_s
    return (
        1 / best.measurement.samples_per_s if best.measurement.samples_per_s else None
    )


@dataclass(eq=False)
class GridState:
    """The results of a grid's points in their folders."""

    call: Call
    composer: grid.Composer
    folder: Path

    def ended(self, point: Point) -> storage.StoredRun | None:
        """Loads the result of a point whose search has ended, perhaps by its limit;
        None if there is no result."""
        folder = self.folder / schema.folder_name(point)
        # a hundred times faster than composing the configuration
        if not (folder / storage.RESULT).exists():
            return None
        configuration = self.composer.configuration(point, self.call.facts)
        return resuming.ended(folder, configuration, host.describe(configuration.ranks))

    def skip_if_final(self, point: Point) -> bool:
        """Shows and remembers the result of a point if it is final; False if the point
        needs a job."""
        run = self.ended(point)
        if run is None or not run.result.is_final:
            return False
        Job(run.folder, self.call).skip_final(run.result)
        return True

    def record_lost_job(self, point: Point, error: BaseException) -> None:
        """Records a job without a result as a failure; raises the error if no search
        has started: it may recur."""
        if not storage.holds_results(self.folder):
            raise error
        logger.debug("a job was lost", exc_info=error)
        configuration = self.composer.configuration(point, self.call.facts)
        Job(self.folder / schema.folder_name(point), self.call).record_lost(
            configuration, error
        )


def sweep(
    config: DictConfig, loader: ConfigLoader, launcher: Launcher, batch_size: int | None
) -> None:
    """Runs the jobs of a grid in batches; without a size single jobs in this process,
    else all jobs at once."""
    if current is None or current.folder is None:
        raise ConfigurationError(
            "hydra.callbacks: a grid needs the callback nws_sweep; others may be added"
        )
    grid_state = GridState(current, grid.Composer(config, loader), current.folder)
    is_local = _launcher(config).endswith(".BasicLauncher")
    # the last axis varies fastest, as in Hydra
    points = itertools.product(*grid.axes_of(config, loader).values())
    run_points(points, grid_state, launcher, batch_size or (1 if is_local else None))


def run_points(
    points: Iterable[Point],
    grid_state: GridState,
    launcher: Launcher,
    batch_size: int | None,
) -> None:
    """Launches the unfinished points in batches, each read when it is launched; None
    for a single batch."""
    unfinished = (
        (number, point)
        for number, point in enumerate(points)
        if not grid_state.skip_if_final(point)
    )
    while batch := list(itertools.islice(unfinished, batch_size)):
        _run_batch(
            [list(point) for _, point in batch], batch[0][0], grid_state, launcher
        )


def _run_batch(
    points: Sequence[list[str]],
    first_number: int,
    grid_state: GridState,
    launcher: Launcher,
) -> None:
    try:
        results = launcher.launch(points, initial_job_idx=first_number)
        errors = [_error_of(job_return) for job_return in results]
    except Exception as error:  # the libraries' errors have no common base
        lost = NwsSweepError(
            one_line(f"the launcher failed: {type(error).__name__}: {error}")
        )
        errors = [None if grid_state.ended(point) else lost for point in points]
    for point, ending in zip(points, errors, strict=True):
        if ending is not None:
            grid_state.record_lost_job(point, ending)


def _error_of(job_return: JobReturn) -> BaseException | None:
    if job_return.status is JobStatus.COMPLETED:
        return None
    # the property return_value would print and raise it
    error = job_return._return_value
    return (
        error
        if isinstance(error, BaseException)
        else NwsSweepError(f"the job returned no result: {error}")
    )
