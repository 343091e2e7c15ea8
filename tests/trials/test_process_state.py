"""What a program has set in its process, in the process of its trials."""

import subprocess
import sys

PROGRAM = """
import os, resource, sys
import numpy, threadpoolctl, torch
from nws_sweep.trials import process_state

before = process_state.of_this_process()
torch.set_num_threads(3)
torch.set_default_dtype(torch.float64)
torch.multiprocessing.set_sharing_strategy("file_system")
os.environ["NWS_STATE"] = "set"
sys.path.append("/added")
threadpoolctl.threadpool_limits(1, user_api="blas")
os.sched_setaffinity(0, {min(before.cpus)})
resource.setrlimit(resource.RLIMIT_NOFILE, (before.open_files[0] - 1, before.open_files[1]))
after = process_state.of_this_process()
for state in (before, after):
    process_state.restore(state)
    assert process_state.of_this_process() == state, (process_state.of_this_process(), state)
values = [after.libraries[f"torch:get_{name}"] for name in ("num_threads", "default_dtype")]
assert values == [3, torch.float64], after
assert (after.environment["NWS_STATE"], after.import_path[-1]) == ("set", "/added"), after
assert set(after.libraries["nws_sweep.trials.process_state:blas_threads"].values()) == {1}, after
assert (after.cpus, after.open_files[0]) == ({min(before.cpus)}, before.open_files[0] - 1), after
"""


def test_a_process_gets_what_another_had_set() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
