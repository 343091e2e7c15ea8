"""Starts trial processes, forked from a process that has made the dataset: listing a
million files takes long.

Where forking is unsafe (``forking``), each trial process makes the dataset.
"""

import contextlib
import logging
import math
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from nws_sweep.records import Configuration, ProcessSpec
from nws_sweep.system import platforms, processes, temporary
from nws_sweep.trials import process_state, trial_process
from nws_sweep.trials.environment import ProcessFactory, TrialProcess
from nws_sweep.trials.trial_process import (
    UNLIMITED,
    ChildProcess,
    ProcessWithBackground,
    Supervision,
)

logger = logging.getLogger(__name__)


class DatasetServer(contextlib.ExitStack):
    """Starts trial processes; keeps the template process of the latest dataset until
    another one is needed.

    Removes what killed programs have left.
    """

    def __init__(self) -> None:
        super().__init__()
        temporary.remove_stale()
        processes.drop_foreign_start_method()  # of joblib's worker process
        self._template: ChildProcess | None = None
        self._template_key: tuple[object, ...] = ()

    @contextlib.contextmanager
    def start(
        self, spec: ProcessSpec, supervision: Supervision = UNLIMITED
    ) -> Iterator[ChildProcess]:
        """Starts a trial process and prepares it; kills it at the end.

        The process of the first of several ranks starts the others when it is opened;
        the memory budget holds for all of them. DatasetError if the dataset cannot be
        made, ConfigurationError if the training step or the collate_fn cannot,
        TrialError if the process exited while making them.
        """
        with contextlib.ExitStack() as stack:
            process = stack.enter_context(self._start_rank(spec, supervision))
            if isinstance(process, ProcessWithBackground):
                process.unstarted = self._start_other_ranks(stack, spec, supervision)
            yield process

    def _start_other_ranks(
        self, stack: contextlib.ExitStack, spec: ProcessSpec, supervision: Supervision
    ) -> Iterator[ChildProcess]:
        quiet = replace(
            supervision, memory_budget_bytes=None, on_progress=UNLIMITED.on_progress
        )
        for rank in range(1, spec.configuration.ranks):
            yield stack.enter_context(self._start_rank(of_rank(spec, rank), quiet))

    @contextlib.contextmanager
    def _start_rank(
        self, spec: ProcessSpec, supervision: Supervision
    ) -> Iterator[ChildProcess]:
        configuration = spec.configuration
        method = spec.start_method or processes.start_method()
        key = (
            configuration.dataset,
            configuration.seed,
            configuration.ranks,
            method,
            spec.working_folder,
        )
        is_current = self._template_key == key and (
            self._template is None or self._template.alive
        )
        if platforms.IS_LINUX and not is_current:  # ``forking`` reads /proc
            self.close()
            with contextlib.ExitStack() as stack:
                process = stack.enter_context(
                    trial_process.start(spec, supervision, prepare=False)
                )
                obstacle = process.request("make_template")
                self._template, self._template_key = None if obstacle else process, key
                if obstacle:
                    logger.debug(
                        "each trial process makes the dataset: making it leaves %s behind",
                        obstacle,
                    )
                    process.prepare()
                    yield process
                    return
                self.push(stack.pop_all())
        with trial_process.start(spec, supervision, self._template) as process:
            yield process

    def factory(
        self, spec: ProcessSpec, on_progress: Callable[[str], None] = lambda text: None
    ) -> ProcessFactory:
        """Returns a function that starts a search's trial processes.

        ``on_progress`` gets lines of text while a dataset is made.
        """
        kill_after_s = spec.configuration.measure.kill_after_s or math.inf

        def start_process(
            memory_bytes: int | None, deadline_s: float
        ) -> AbstractContextManager[TrialProcess]:
            supervision = Supervision(
                kill_after_s=kill_after_s,
                memory_budget_bytes=memory_bytes,
                deadline_s=deadline_s,
                on_progress=on_progress,
            )
            return self.start(spec, supervision)

        return start_process


def spec_of(
    configuration: Configuration, working_folder: str, log_path: str | None = None
) -> ProcessSpec:
    """Makes the specification of a configuration's trial processes; see ``ProcessSpec``
    for the folder and the log."""
    spec = ProcessSpec(
        configuration=configuration,
        start_method=multiprocessing.get_start_method(allow_none=True),
        working_folder=working_folder,
        log_path=log_path,
        state=process_state.of_this_process(),
    )
    return spec if configuration.ranks == 1 else of_rank(spec, 0)


def of_rank(spec: ProcessSpec, rank: int) -> ProcessSpec:
    """Returns the specification of a rank's process, with the variables by which
    torchrun tells a process its rank.

    As with torchrun, ``OMP_NUM_THREADS`` is 1 unless it is set.
    """
    ranks = str(spec.configuration.ranks)
    environment = {
        "OMP_NUM_THREADS": "1",
        **spec.state.environment,
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
    }
    return replace(spec, rank=rank, state=replace(spec.state, environment=environment))
