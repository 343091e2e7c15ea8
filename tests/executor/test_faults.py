"""Real faults in real searches: each gives a row with state and reason, and the other candidates are measured."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.executor import trial_process
from nws_sweep.results import LoaderSettings, MeasureRules, Trial, TrialState
from tests import factories
from tests.conftest import ROOT
from tests.searching import real_search

pytestmark = pytest.mark.usefixtures("no_leftovers")

MEASURE: dict[str, Any] = {"window_s": 0.02, "windows": 2, "trial_limit_s": 0.3, "kill_after_s": 60.0}


def searched(dataset: str, candidates: tuple[int, ...], measure: Any = None, **arguments: Any) -> dict[int, Trial]:
    """The trials of a whole search over a dataset of tests/user_datasets.py, by num_workers."""
    spec = factories.process_spec(dataset, **arguments).configuration
    configuration = factories.configuration(
        dataset=spec.dataset,
        training_step=spec.training_step,
        loader=LoaderSettings(batch_size=8),
        measure=MeasureRules(**(MEASURE | (measure or {}))),
        search=factories.search_rules(candidates),
    )
    trials = real_search(configuration)
    assert sorted(trials) == sorted(candidates)
    return trials


def test_a_worker_that_hangs_and_ignores_signals_is_a_timeout() -> None:
    for trial in searched("Hangs", (0, 1), {"kill_after_s": 1.0}).values():
        reason = "not finished within measure.kill_after_s=1 s; the candidate was killed"
        assert (trial.state, trial.reason, trial.measurement) == (TrialState.TIMEOUT, reason, None)


# The size of a batch is unknown before the first candidate.
SEARCH = """
from tests.executor.test_faults import searched
trial = searched("Heavy", (8,), length=4000, values=32768)[8]
print(trial.state.value, trial.reason)
"""


def test_too_little_shared_memory_fails_a_candidate_with_the_reason() -> None:
    """In a mount namespace whose /dev/shm has 8 MB; of batches of 1 MB, 8 workers have 17 in flight."""
    mount = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$0" -c "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, sys.executable, SEARCH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("failed ")
    assert "/dev/shm" in done.stdout or "shared memory" in done.stdout


def test_a_lock_held_by_a_paused_candidate_does_not_block_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_process, "STALL_S", 0.5)
    trials = searched("Locks", (0, 3, 4), path=str(tmp_path / "lock"), length=2000)
    assert [trial.reason for trial in trials.values()] == [""] * 3
    assert any("held a lock" in note for trial in trials.values() for note in trial.notes)
