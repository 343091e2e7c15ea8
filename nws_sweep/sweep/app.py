"""The Hydra application: checks and announces, searches one configuration per job, reports at the end.

A job records its failure and returns: it never raises into Hydra, whose basic sweeper would hide the other jobs
and skip its callbacks. The report is made after Hydra has returned: an exception in a callback is only a
warning there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from nws_sweep.config import embedding, schema
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, TrialError
from nws_sweep.executor import trial_process
from nws_sweep.results import Configuration, storage
from nws_sweep.sweep import grid, job, resuming
from nws_sweep.sweep.grid import Composer, configuration_of
from nws_sweep.sweep.invocation import Invocation, parts_of
from nws_sweep.system import extras, host, processes, temporary
from nws_sweep.system.termination import Interrupted

if TYPE_CHECKING:
    from nws_sweep.sweep.terminal import View

logger = logging.getLogger(__name__)

# Hydra makes the callback and calls the task by itself; this is how both meet the call that they belong to. In another
# process (a launcher's worker) there is none, and a job works alone.
invocation: ContextVar[Invocation] = ContextVar("nws_sweep_invocation")

_LOCAL_LAUNCHERS = (".BasicLauncher", ".JoblibLauncher", ".LocalLauncher")


def run() -> int:
    """Runs what the command line (``sys.argv``) says; NwsSweepError if that or the configuration is wrong.

    The exit status is 0 if every configuration was measured, 1 if one or more failed, 130 if interrupted.
    """
    current = Invocation()
    invocation.set(current)
    schema.register()
    temporary.remove_stale()
    # Our preset has the name of the plugin's option on purpose, and its keys: they are checked by the plugin's schema.
    warnings.filterwarnings("ignore", r"\s*'hydra/launcher/ray' is validated against ConfigStore schema", UserWarning)
    with current.interrupts, contextlib.closing(current):
        return _run_and_conclude(current)


def _run_and_conclude(current: Invocation) -> int:
    application = hydra.main(version_base="1.3", config_path=embedding.config_path(), config_name="config")(task)
    status = 0
    try:
        application()
        current.interrupts.check()  # one that came with the failure of the last job
    except KeyboardInterrupt as stop:
        status = stop.status if isinstance(stop, Interrupted) else 130
    except Exception as error:
        # What was measured before, by other jobs of a grid, must not go unreported.
        if isinstance(error, NwsSweepError) or not current.has_started:
            raise
        logger.exception("a job failed")
        status = 1
    if current.folder is None or not storage.holds_results(current.folder):  # --help, --cfg, or nothing was begun
        return status
    if current.forced:
        resuming.mark(current.folder, current.forced)
    return max(status, conclude(current.folder, current.view))


def conclude(folder: Path, view: View) -> int:
    """Writes the report and shows its table; the exit status is 1 if anything failed."""
    from nws_sweep.analysis.summary import summarise
    from nws_sweep.report import writer
    from nws_sweep.results import storage

    view.status("writing the report")
    try:
        summary, written = writer.write(folder)
    except KeyboardInterrupt:
        view.note(f"the report is not finished: nws-sweep report {folder}")
        raise
    except OSError as error:  # a full disk, say
        summary, written = summarise(storage.find(folder)), []
        view.note(f"the report could not be written ({error}); what was measured is there: nws-sweep report {folder}")
    view.conclude(summary, written)
    return 0 if summary.succeeded and written else 1


class GridCallback(Callback):
    """Checks and announces what is about to run, and stops everything before anything is written if a value is wrong.

    Hydra turns an exception in a callback into a warning, but lets SystemExit through: its code is the error, which the
    command line prints (``python -m nws_sweep``) or Python itself does (a host program).
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """A single configuration is about to run."""
        self._prepare(config, is_grid=False)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """A grid is about to run."""
        self._prepare(config, is_grid=True)

    def _prepare(self, config: DictConfig, *, is_grid: bool) -> None:
        try:
            extras.require("hydra/launcher", ".".join(str(config.hydra.launcher.get("_target_")).split(".")[:2]))
            prepare(config, is_grid=is_grid)
        except Exception as error:
            raise SystemExit(error) from error


def prepare(composed: DictConfig, *, is_grid: bool) -> None:
    """Checks everything that is about to run, values, datasets and the output folder, and announces it."""
    current = invocation.get()
    if is_grid:
        current.composer = Composer(composed, GlobalHydra.instance().config_loader())
        plan, shown = grid.check(current.composer)
    else:
        plan, shown = grid.check_single(composed)
    folder = Path(plan.folder).absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{folder}: the output folder cannot be made, since {existing} is not writable")
    nodes_differ = is_grid and not str(composed.hydra.launcher.get("_target_")).endswith(_LOCAL_LAUNCHERS)
    forced = resuming.check(
        folder, host.describe(), is_grid=is_grid, nodes_differ=nodes_differ, force=bool(composed.resume.force)
    )
    if not is_grid and not schema.leaves_open(composed):  # else the job knows
        resuming.refuse_another(folder, shown[0])
    if folder.exists():  # what works in it is told of before anything is prepared
        current.folder_lock = resuming.folder_lock(folder)
    current.view.announce(plan)
    _check_datasets(shown, current)
    current.plan, current.folder, current.forced = plan, folder, forced
    current.folder_lock = current.folder_lock or resuming.folder_lock(folder)
    if forced:
        resuming.mark(folder, forced)


def _check_datasets(shown: list[Configuration], current: Invocation) -> None:
    """Makes each distinct dataset and consumer once: what is missing is told or downloaded before the first trial."""
    distinct = {parts_of(configuration): configuration for configuration in shown}.values()
    trial_process.preload(node for each in distinct for node in (each.dataset, each.consumer))
    for configuration in distinct:
        name = configuration.columns["dataset"]
        current.view.status(f"preparing dataset {name}")
        try:
            current.facts(configuration, str(Path.cwd()))
        except TrialError as error:
            raise DatasetError(f"dataset {name} cannot be made: {error}") from error


def task(composed: DictConfig) -> None:
    """The Hydra job: searches one configuration and writes its files."""
    if current := invocation.get(None):
        return _measure(composed, current)
    processes.drop_foreign_start_method()
    # submitit's own handlers let a job go on at SIGTERM, whose trial processes have died of it, and queue it once more at SIGUSR2.
    for number in [getattr(signal, name) for name in ("SIGTERM", "SIGUSR2") if hasattr(signal, name)]:
        if str(getattr(signal.getsignal(number), "__module__", "")).startswith("submitit."):
            signal.signal(number, signal.SIG_DFL)
    # The process of a launcher's worker may live on, or wait for its children: none is left to it.
    with contextlib.closing(Invocation()) as current:
        _measure(composed, current)


def _measure(composed: DictConfig, current: Invocation) -> None:
    hydra_config = cast("DictConfig", HydraConfig.get())
    folder = Path(hydra_config.runtime.output_dir)
    overrides, started_in = list(hydra_config.overrides.task), hydra_config.runtime.cwd
    configuration = configuration_of(composed, hydra_config, overrides)
    if schema.leaves_open(composed):
        with contextlib.suppress(NwsSweepError):  # the search will tell
            own = current.facts(configuration, started_in).loader  # of the DataLoader that the dataset comes in
            configuration = configuration_of(composed, hydra_config, overrides, own)
    if hydra_config.mode is RunMode.RUN:
        resuming.refuse_another(folder, configuration)
    if current.folder is None:  # without the callback nothing was checked, but the report is made all the same
        current.folder = folder
    job.measure(configuration, folder, composed, current, started_in)
