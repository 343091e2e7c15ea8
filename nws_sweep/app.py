"""The Hydra application: checks and announces, searches one configuration per job, reports at the end.

A job records its failure and returns: it never raises into Hydra, whose basic sweeper would hide the other jobs
and skip its callbacks. The report is made after Hydra has returned: an exception in a callback is only a
warning there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from nws_sweep import arms, claims, config, embedding, grid, host, notices, processes, resuming, temporary
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, TrialError
from nws_sweep.grid import Composer, configuration_of
from nws_sweep.interrupts import Interrupted
from nws_sweep.invocation import Invocation
from nws_sweep.job import Job, measure
from nws_sweep.ledger import Ledger
from nws_sweep.records import Configuration, LoaderSettings
from nws_sweep.store import ResultStore, default_folder

if TYPE_CHECKING:
    from nws_sweep.terminal import View

logger = logging.getLogger(__name__)

# As conf/config.yaml has it: only then it is known beforehand where a point's files are.
_SUBDIR = "${nws_sweep.folder_name:${hydra.overrides.task}}"

# Hydra makes the callback and calls the task by itself; this is how both meet the call that they belong to. In another
# process (a launcher's worker) there is none, and a job works alone.
_current: ContextVar[Invocation | None] = ContextVar("nws_sweep_invocation", default=None)


def invocation() -> Invocation:
    """The current invocation; made here where a host program has Hydra call the callback."""
    current = _current.get()
    if current is None:
        current = Invocation()
        _current.set(current)
    return current


@contextlib.contextmanager
def _own_invocation() -> Iterator[Invocation]:
    """That of a job in a launcher's worker process, which may live on, or wait for its children: none is left to it."""
    processes.drop_foreign_start_method()
    current = Invocation()
    token = _current.set(current)
    try:
        with notices.heeded():
            yield current
    finally:
        _current.reset(token)
        current.close()


def run() -> int:
    """Runs what the command line (``sys.argv``) says.

    Returns:
        The exit status: 0 if every configuration was measured, 1 if one or more failed, 130 if interrupted.

    Raises:
        NwsSweepError: If the command line or the configuration is wrong.
    """
    current = Invocation()
    _current.set(current)
    config.register()
    temporary.remove_left()
    # Our preset has the name of the plugin's option on purpose, and its keys: they are checked by the plugin's schema.
    warnings.filterwarnings("ignore", r"\s*'hydra/launcher/ray' is validated against ConfigStore schema", UserWarning)
    with current.interrupts:
        try:
            return _run_and_conclude(current)
        finally:
            current.close()


def _run_and_conclude(current: Invocation) -> int:
    application = hydra.main(version_base="1.3", config_path=embedding.config_path(), config_name="config")(task)
    status = 0
    try:
        application()
        current.interrupts.check()  # one that came with the failure of the last job
    except KeyboardInterrupt as stop:
        status = stop.status if isinstance(stop, Interrupted) else 130
    except NwsSweepError:
        raise
    except Exception:
        # What was measured before, by other jobs of a grid, must not go unreported.
        if not current.has_begun:
            raise
        logger.exception("a job failed")
        status = 1
    if current.folder is None or not current.has_results():  # --help, --cfg, or nothing was begun
        return status
    if current.forced:
        resuming.mark(current.folder, current.forced)
    return max(status, conclude(current.folder, current.view))


def conclude(folder: Path, view: View) -> int:
    """Writes the report and shows its table; the exit status is 1 if anything failed."""
    from nws_sweep import report

    view.status("writing the report")
    try:
        summary, written = report.write(folder)
    except KeyboardInterrupt:
        view.note(f"the report is not finished: nws-sweep report {folder}")
        raise
    except OSError as error:  # a full disk, say
        summary, written = report.summary_of(folder), []
        view.note(f"the report could not be written ({error}); what was measured is there: nws-sweep report {folder}")
    view.conclude(summary, written)
    return 0 if summary.succeeded and written else 1


def prepare(composed: DictConfig, *, is_grid: bool) -> None:
    """Checks everything that is about to run and announces it; called before Hydra makes a folder.

    Raises:
        NwsSweepError: If a value, a dataset or the output folder is wrong.
    """
    current = invocation()
    if is_grid:
        current.composer = Composer(composed, GlobalHydra.instance().config_loader())
        plan, shown = grid.check(current.composer)
    else:
        plan, shown = grid.check_single(composed)
    folder = Path(plan.folder).absolute()
    _check_writable(folder)
    forced = _check_earlier(folder, composed, is_grid=is_grid)
    if not is_grid and not config.leaves_open(composed):  # else the job knows
        resuming.refuse_another(folder, shown[0])
    if folder.exists():  # whoever works in it is told of before anything is prepared
        current.claim = claims.take(folder)
    current.view.announce(plan)
    _check_datasets(shown, current)
    current.plan, current.folder, current.forced = plan, folder, forced
    current.claim = current.claim or claims.take(folder)
    if forced:
        resuming.mark(folder, forced)


def _check_earlier(folder: Path, composed: DictConfig, *, is_grid: bool) -> str:
    nodes_differ = is_grid and not grid.is_local(composed.hydra.launcher)
    force = bool(composed.resume.force)
    return resuming.check(folder, host.describe(), is_grid=is_grid, nodes_differ=nodes_differ, force=force)


def _check_writable(folder: Path) -> None:
    """Finds the nearest folder that exists and asks whether something may be made in it."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{folder}: the output folder cannot be made, since {existing} is not writable")


def _check_datasets(shown: list[Configuration], current: Invocation) -> None:
    """Makes each distinct dataset and consumer once: what is missing is told or downloaded before the first trial."""
    view = current.view
    distinct = {repr((c.dataset, c.consumer, c.collate_fn, c.services, c.ranks > 1)): c for c in shown}
    arms.preload(node for c in distinct.values() for node in (c.dataset, c.consumer))
    for configuration in distinct.values():
        name = configuration.columns["dataset"]
        view.status(f"preparing dataset {name}")
        try:
            current.facts(configuration, str(Path.cwd()))
        except TrialError as error:
            raise DatasetError(f"dataset {name} cannot be made: {error}") from error


def ledger(composed: DictConfig) -> Ledger:
    """What knows and keeps the state of a grid's points.

    Raises:
        ConfigurationError: If the callback was taken out of the configuration: nothing was checked then.
    """
    current = invocation()
    if current.composer is None or current.folder is None:
        raise ConfigurationError(
            "hydra.callbacks: without nws_sweep's own a grid cannot be run; allowed is to add others"
        )
    subdir = cast("dict[str, object]", OmegaConf.to_container(composed.hydra.sweep, resolve=False))["subdir"]
    return Ledger(current, current.composer, current.folder, folders_known=subdir == _SUBDIR)


def task(composed: DictConfig) -> None:
    """The Hydra job: searches one configuration and writes its files."""
    current = _current.get()
    if current is not None:
        return _search(composed, current)
    with _own_invocation() as own:
        return _search(composed, own)


def _search(composed: DictConfig, current: Invocation) -> None:
    hydra_config = cast("DictConfig", HydraConfig.get())
    folder = Path(hydra_config.runtime.output_dir)
    overrides, started_in = list(hydra_config.overrides.task), hydra_config.runtime.cwd
    configuration = configuration_of(composed, hydra_config, overrides)
    if config.leaves_open(composed):
        own = _own_settings(configuration, current, started_in)
        configuration = configuration_of(composed, hydra_config, overrides, own)
    if hydra_config.mode is RunMode.RUN:
        resuming.refuse_another(folder, configuration)
    if current.folder is None:  # without the callback nothing was checked, but the report is made all the same
        current.folder = folder
    chosen = Job(
        configuration=configuration,
        folder=folder,
        working_folder=started_in,
        lock_file=composed.paths.lock_file,
        store=ResultStore(default_folder(composed.paths.cache_dir)),
        reuse=composed.reuse,
        force=composed.resume.force,
    )
    measure(chosen, current)


def _own_settings(configuration: Configuration, current: Invocation, working_folder: str) -> LoaderSettings | None:
    """Those of the DataLoader that the dataset comes in; None if it comes by itself or cannot be made."""
    try:
        return current.facts(configuration, working_folder).loader
    except NwsSweepError:  # the search will tell
        return None
