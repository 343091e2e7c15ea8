"""What a program has set in its process, for trial processes: their loader must run as in the program.

Libraries that the program has not imported have no settings. Settings that can no longer be changed in a process are
left.
"""

import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Mapping
from typing import Any

from nws_sweep.results import ProcessState

# What is read by ``get_...`` and set by ``set_...``, and the module of these functions.
_OF_TORCH = {
    "num_threads": "torch", "num_interop_threads": "torch", "default_dtype": "torch",
    "sharing_strategy": "torch.multiprocessing",
}  # fmt: skip


def of_this_process() -> ProcessState:
    """The state of this process."""
    import resource  # Windows, where nothing is measured, has none

    cv2 = sys.modules.get("cv2")
    return ProcessState(
        # The fork server may have been started with other variables and folders.
        environment=dict(os.environ),
        import_path=tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
        torch=_of_torch() if "torch" in sys.modules else {},
        opencv_threads=cv2.getNumThreads() if cv2 else None,
        cpus=os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
    )


def restore(state: ProcessState) -> None:
    """Gives this process the state; variables and folders first, since they decide how libraries are imported."""
    import resource

    os.environ.clear()
    os.environ.update(state.environment)
    sys.path[:] = state.import_path
    with contextlib.suppress(OSError, ValueError):  # a control group, or the fork server's own limit, allows less
        if state.cpus is not None:
            os.sched_setaffinity(0, state.cpus)
        if state.open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, state.open_files)
    for name, value in state.torch.items():
        if value != _of_torch()[name]:
            with contextlib.suppress(RuntimeError):  # some numbers of threads cannot be set after the first operation
                getattr(pkgutil.resolve_name(_OF_TORCH[name]), f"set_{name}")(value)
    if state.opencv_threads is not None:
        importlib.import_module("cv2").setNumThreads(state.opencv_threads)


def _of_torch() -> Mapping[str, Any]:
    return {name: getattr(pkgutil.resolve_name(module), f"get_{name}")() for name, module in _OF_TORCH.items()}
