"""Ray's launcher, made to answer for each of its tasks."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from nws_sweep.errors import LostJob
from nws_sweep.replacing import replaced


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Within the block a task that dies becomes a failed answer, where the launcher would raise and ask no other."""
    core = importlib.import_module("hydra_plugins.hydra_ray_launcher._core")
    with replaced(core, "ray", _Answering(core.ray)):
        yield


class _Answering:
    """What the launcher takes for the module ``ray``, of which it uses ``get``."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ray, name)

    def get(self, task: Any) -> Any:
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            lost = LostJob(f"the task was lost: {type(error).__name__}: {error}")
            return JobReturn(status=JobStatus.FAILED, _return_value=lost)
