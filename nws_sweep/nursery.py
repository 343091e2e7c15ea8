"""Where arms come from: a dataset is made once, and its arms are forked from the process that made it.

Some datasets take long to make: a folder of a million files must be listed. Where a fork would not do (see sharing.py)
every arm makes a dataset of its own.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType

from nws_sweep import arms, processes, ranks
from nws_sweep.arms import UNLIMITED, Arm, Supervision
from nws_sweep.records import ArmSpec, Configuration
from nws_sweep.surroundings import ArmFactory, TrialArm

logger = logging.getLogger(__name__)


class Nursery:
    """Starts arms. Keeps the latest dataset until another one is asked for, or the context is left."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._keeper: Arm | None = None
        self._kept: tuple[object, ...] = ()
        self._unfit: list[tuple[object, ...]] = []

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets the kept dataset go, and with it all arms that were forked from it."""
        self._keeper, self._kept = None, ()
        self._stack.close()

    @contextlib.contextmanager
    def start(self, spec: ArmSpec, supervision: Supervision = UNLIMITED) -> Iterator[Arm]:
        """Starts an arm with its dataset made, and kills it in the end.

        Args:
            spec: What it is made of.
            supervision: What it may take, and who is told how it comes on.

        Raises:
            DatasetError: If the dataset cannot be made.
            ConfigurationError: If the consumer or the collate_fn cannot be made.
            TrialError: If the process died while making them.
        """
        if _dataset_of(spec) in self._unfit:
            starting = arms.start(spec, supervision)
        elif self._keeps(spec):
            starting = arms.start(spec, supervision, self._keeper)
        else:
            starting = self._first(spec, supervision)
        with starting as arm:
            yield arm

    def factory(
        self, spec_of: Callable[[Configuration], ArmSpec], on_progress: Callable[[str], None] = lambda text: None
    ) -> ArmFactory:
        """How a search starts its arms here.

        Args:
            spec_of: What the arms of a configuration are made of.
            on_progress: Called with a line of text while a dataset is being made.
        """

        def open_arm(configuration: Configuration, memory_bytes: int | None) -> AbstractContextManager[TrialArm]:
            supervision = Supervision(
                timeout_s=configuration.measure.timeout_s, memory_budget_bytes=memory_bytes, on_progress=on_progress
            )
            if configuration.ranks > 1:  # each makes a dataset of its own: it may depend on the rank
                return ranks.start(spec_of(configuration), configuration.ranks, supervision)
            return self.start(spec_of(configuration), supervision)

        return open_arm

    def _keeps(self, spec: ArmSpec) -> bool:
        return self._keeper is not None and self._kept == _dataset_of(spec) and self._keeper.alive

    @contextlib.contextmanager
    def _first(self, spec: ArmSpec, supervision: Supervision) -> Iterator[Arm]:
        """The first arm of a dataset: forked from the one that makes it, or that one itself if it is no keeper."""
        self.close()
        with contextlib.ExitStack() as making:
            arm = making.enter_context(arms.launch(spec, supervision))
            if obstacle := arm.keep():
                logger.debug("each arm makes the dataset: making it leaves %s behind", obstacle)
                self._unfit.append(_dataset_of(spec))
                arm.prepare()
                yield arm
                return
            self._keeper, self._kept = arm, _dataset_of(spec)
            self._stack.push(making.pop_all())
        with arms.start(spec, supervision, arm) as forked:
            yield forked


def spec_of(configuration: Configuration, working_folder: str, log_path: str | None = None) -> ArmSpec:
    """What the arms of a configuration are made of.

    Args:
        configuration: Whose dataset, consumer and collate_fn can be instantiated anywhere.
        working_folder: Where relative paths of its dataset begin.
        log_path: File that what they print is appended to; None to drop it.
    """
    return ArmSpec(
        dataset=configuration.dataset,
        consumer=configuration.consumer,
        collate_fn=configuration.collate_fn,
        seed=configuration.seed,
        start_method=multiprocessing.get_start_method(allow_none=True),
        working_folder=working_folder,
        log_path=log_path,
        # As they are now: the server that arms are forked from may have been started long ago, elsewhere.
        environment=dict(os.environ),
        logs_samples=configuration.check_samples is not False,
        import_path=tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
    )


def _dataset_of(spec: ArmSpec) -> tuple[object, ...]:
    """What decides how a dataset comes out."""
    start_method = spec.start_method or processes.start_method()
    return spec.dataset, spec.seed, start_method, spec.working_folder
