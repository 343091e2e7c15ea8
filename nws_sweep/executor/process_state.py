"""What a program has set in its process, for trial processes: their loader must run as it does in the program.

Libraries that the program has not imported have set nothing. Settings that a process cannot take any more stay as they
are.
"""

import contextlib
import importlib
import locale
import os
import sys
from collections.abc import Mapping
from typing import Any

from nws_sweep.results import ProcessState


def of_this_process() -> ProcessState:
    """The state of this process."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    return ProcessState(
        # The fork server may have been started with other variables and folders.
        environment=dict(os.environ),
        import_path=tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
        locale=locale.setlocale(locale.LC_ALL),
        torch=_of_torch(torch) if torch else {},
        opencv_threads=cv2.getNumThreads() if cv2 else None,
        blas_threads=_blas_threads() if "numpy" in sys.modules else {},
    )


def restore(state: ProcessState) -> None:
    """Gives this process the state; variables and folders first, since they decide how libraries are imported."""
    os.environ.clear()
    os.environ.update(state.environment)
    sys.path[:] = state.import_path
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, state.locale)
    if state.torch:
        _restore_torch(state.torch)
    if state.opencv_threads is not None:
        importlib.import_module("cv2").setNumThreads(state.opencv_threads)
    if state.blas_threads and state.blas_threads != _blas_threads():
        import threadpoolctl

        threadpoolctl.threadpool_limits({**state.blas_threads})


def _of_torch(torch: Any) -> Mapping[str, Any]:
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "sharing_strategy": torch.multiprocessing.get_sharing_strategy(),
    }


def _restore_torch(values: Mapping[str, Any]) -> None:
    torch: Any = importlib.import_module("torch")
    # Numbers of threads that stay are not set: torch refuses some after its first operation.
    if values["threads"] != torch.get_num_threads():
        torch.set_num_threads(values["threads"])
    if values["interop_threads"] != torch.get_num_interop_threads():
        with contextlib.suppress(RuntimeError):  # operations have run already
            torch.set_num_interop_threads(values["interop_threads"])
    torch.set_default_dtype(getattr(torch, values["default_dtype"]))
    torch.multiprocessing.set_sharing_strategy(values["sharing_strategy"])


def _blas_threads() -> Mapping[str, int]:
    """The threads of each BLAS library of this process, by the prefix of its file."""
    import threadpoolctl

    pools = threadpoolctl.threadpool_info()
    return {pool["prefix"]: pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}
