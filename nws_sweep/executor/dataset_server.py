"""Where trial processes come from: a dataset is made once, and its trial processes are forked from the process that made it.

Some datasets take long to make: a folder of a million files must be listed. Where a fork would not do (see sharing.py)
every trial process makes a dataset of its own.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from nws_sweep.executor import ranks, trial_process
from nws_sweep.executor.trial_process import UNLIMITED, ChildProcess, Supervision
from nws_sweep.measurement.environment import ProcessFactory, TrialProcess
from nws_sweep.results import Configuration, ProcessSpec
from nws_sweep.system import processes

logger = logging.getLogger(__name__)


class DatasetServer(contextlib.ExitStack):
    """Starts trial processes. Keeps the latest dataset until another one is asked for, or the context is left."""

    def __init__(self) -> None:
        super().__init__()
        self._template: ChildProcess | None = None
        self._kept: tuple[object, ...] = ()
        self._unfit: list[tuple[object, ...]] = []

    @contextlib.contextmanager
    def start(self, spec: ProcessSpec, supervision: Supervision = UNLIMITED) -> Iterator[ChildProcess]:
        """Starts a trial process with its dataset made, and kills it in the end.

        Raises:
            DatasetError: If the dataset cannot be made.
            ConfigurationError: If the consumer or the collate_fn cannot be made.
            TrialError: If the process died while making them.
        """
        # What decides how a dataset comes out.
        dataset = (spec.dataset, spec.seed, spec.start_method or processes.start_method(), spec.working_folder)
        is_current = self._kept == dataset and self._template is not None and self._template.alive
        unfit = dataset in self._unfit or sys.platform != "linux"  # elsewhere nothing tells what a fork leaves behind
        if not is_current and not unfit:
            self.close()
            with contextlib.ExitStack() as making:
                process = making.enter_context(trial_process.launch(spec, supervision))
                if obstacle := process.make_template():
                    logger.debug("each trial process makes the dataset: making it leaves %s behind", obstacle)
                    self._unfit.append(dataset)
                    process.prepare()
                    yield process
                    return
                self._template, self._kept = process, dataset
                self.push(making.pop_all())
        with trial_process.start(spec, supervision, None if unfit else self._template) as process:
            yield process

    def factory(
        self, spec_of: Callable[[Configuration], ProcessSpec], on_progress: Callable[[str], None] = lambda text: None
    ) -> ProcessFactory:
        """How a search starts its trial processes here; ``on_progress`` gets lines of text while a dataset is being made."""

        def start_process(
            configuration: Configuration, memory_bytes: int | None
        ) -> AbstractContextManager[TrialProcess]:
            supervision = Supervision(
                timeout_s=configuration.measure.timeout_s, memory_budget_bytes=memory_bytes, on_progress=on_progress
            )
            if configuration.ranks > 1:  # each makes a dataset of its own: it may depend on the rank
                return ranks.start(spec_of(configuration), configuration.ranks, supervision)
            return self.start(spec_of(configuration), supervision)

        return start_process


def spec_of(configuration: Configuration, working_folder: str, log_path: str | None = None) -> ProcessSpec:
    """What the trial processes of a configuration are made of; see ``ProcessSpec`` for the folder and the file."""
    return ProcessSpec(
        dataset=configuration.dataset,
        consumer=configuration.consumer,
        collate_fn=configuration.collate_fn,
        seed=configuration.seed,
        start_method=multiprocessing.get_start_method(allow_none=True),
        working_folder=working_folder,
        log_path=log_path,
        # As they are now: the server that trial processes are forked from may have been started long ago, elsewhere.
        environment=dict(os.environ),
        logs_samples=configuration.check_samples is not False,
        import_path=tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
    )
