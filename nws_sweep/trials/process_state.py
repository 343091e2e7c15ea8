"""Copies what a program has set in its process to trial processes: their loader must
run as in the program.

Libraries that the program has not imported have no settings. Settings that can no
longer be changed in a process are left.
"""

import contextlib
import os
import pkgutil
import sys
from collections.abc import Mapping

from nws_sweep.records import ProcessState

# The functions that read the settings of libraries, and those that set them.
_SETTERS: Mapping[str, str] = {
    "torch:get_num_threads": "torch:set_num_threads",
    "torch:get_num_interop_threads": "torch:set_num_interop_threads",
    "torch:get_default_dtype": "torch:set_default_dtype",
    "torch.multiprocessing:get_sharing_strategy": "torch.multiprocessing:set_sharing_strategy",
    "cv2:getNumThreads": "cv2:setNumThreads",
    "nws_sweep.trials.process_state:blas_threads": "threadpoolctl:threadpool_limits",
}


def blas_threads() -> Mapping[str, int]:
    """Returns the number of threads of each BLAS library of this process, by the prefix
    of its file."""
    import threadpoolctl

    pools = threadpoolctl.threadpool_info()
    return {
        pool["prefix"]: pool["num_threads"]
        for pool in pools
        if pool["user_api"] == "blas"
    }


def of_this_process() -> ProcessState:
    """Returns the state of this process."""
    import resource  # Windows, where nothing is measured, has none

    imported = [
        reader for reader in _SETTERS if reader.partition(":")[0] in sys.modules
    ]
    return ProcessState(
        # The fork server may have been started with other variables and folders.
        environment=dict(os.environ),
        import_path=tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
        libraries={reader: pkgutil.resolve_name(reader)() for reader in imported},
        cpus=os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
    )


def restore(state: ProcessState) -> None:
    """Gives this process the state; variables and folders first, since they decide how
    libraries are imported."""
    import resource

    os.environ.clear()
    os.environ.update(state.environment)
    sys.path[:] = state.import_path
    # a control group, or the fork server's own limit, allows less
    with contextlib.suppress(OSError, ValueError):
        if state.cpus is not None:
            os.sched_setaffinity(0, state.cpus)
        if state.open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, state.open_files)
    for reader, value in state.libraries.items():
        if pkgutil.resolve_name(reader)() != value:
            # some numbers of threads cannot be set after the first operation
            with contextlib.suppress(RuntimeError):
                pkgutil.resolve_name(_SETTERS[reader])(value)
