"""Hands points of a grid to one of Hydra's launchers, so that one that dies takes no other along.

A launcher answers for all points of a batch at once, and raises as soon as it learns that one has died: then nothing is
heard of the others, which submitit and Ray let run on. So these two are made to answer for each by itself. Of other
launchers an exception says no more than that something died; who has no result yet gets another chance, alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from nws_sweep import ray_tasks, submitit_jobs
from nws_sweep.errors import ConfigurationError, LostJob, one_line

logger = logging.getLogger(__name__)

Point = Sequence[str]  # its overrides

# By the package of the launcher: within the context its launch answers for each point, and raises only if it could not
# launch any.
_ANSWERING = {
    "hydra_plugins.hydra_submitit_launcher": submitit_jobs.answering,
    "hydra_plugins.hydra_ray_launcher": ray_tasks.answering,
}


def launch_surviving(
    launcher: Launcher, points: Sequence[Point], first_index: int, is_finished: Callable[[Point], bool]
) -> list[BaseException | None]:
    """Runs all points, whatever becomes of some.

    Args:
        launcher: Set up by Hydra.
        points: The batch.
        first_index: The number of the first one in the grid.
        is_finished: Whether there is a finished result of a point.

    Returns:
        For each point what ended its job; None if that ended by itself, which is not to say that its search succeeded.

    Raises:
        ConfigurationError: If the launcher can launch nothing at all, such as with a partition that does not exist.
    """
    answering = _ANSWERING.get(".".join(type(launcher).__module__.split(".")[:2]))
    if answering is None:
        return _with_another_chance(launcher, points, first_index, is_finished)
    with answering():
        try:
            return _launched(launcher, points, first_index)
        except Exception as error:  # the libraries' errors have no common base
            raise ConfigurationError(one_line(f"hydra/launcher: nothing could be launched: {error}")) from error


def _with_another_chance(
    launcher: Launcher, points: Sequence[Point], first_index: int, is_finished: Callable[[Point], bool]
) -> list[BaseException | None]:
    try:
        return _launched(launcher, points, first_index)
    except Exception as error:
        if len(points) == 1:
            return [error]
        logger.warning(
            "a launcher gave up: what has no result is launched once more, each by itself: %s", one_line(error)
        )
    return [
        None if is_finished(point) else _with_another_chance(launcher, [point], first_index + index, is_finished)[0]
        for index, point in enumerate(points)
    ]


def _launched(launcher: Launcher, points: Sequence[Point], first_index: int) -> list[BaseException | None]:
    answers = launcher.launch([list(point) for point in points], initial_job_idx=first_index)
    return [_error_of(answer) for answer in answers]


def _error_of(answer: JobReturn) -> BaseException | None:
    if answer.status is JobStatus.COMPLETED:
        return None
    error = answer._return_value  # return_value would print and raise it
    return error if isinstance(error, BaseException) else LostJob(f"the job came to no end: {error}")
