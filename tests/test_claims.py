"""One program at a time in a folder."""

from __future__ import annotations

import errno
import fcntl
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nws_sweep import claims
from nws_sweep.errors import ConfigurationError


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "_GRACE_S", 0.0)


def test_a_folder_is_claimed_by_one_program_alone(tmp_path: Path) -> None:
    """Two that start in the same second would write over each other."""
    folder = tmp_path / "runs" / "now"
    claim = claims.take(folder)
    with pytest.raises(ConfigurationError, match=r"another program measures into this folder now.*hydra\.run\.dir"):
        claims.take(folder)
    claim.release()
    claim.release()
    claims.take(folder).release()


def test_a_program_that_is_killed_holds_nothing_back(tmp_path: Path) -> None:
    script = (
        f"from nws_sweep import claims; from pathlib import Path; c = claims.take(Path({str(tmp_path)!r})); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}; print()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        while True:
            try:
                claims.take(tmp_path).release()
            except ConfigurationError:
                break
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    claims.take(tmp_path).release()


@pytest.mark.parametrize("error", [OSError(code, "no locks") for code in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)])
def test_where_there_are_no_locks_nobody_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fcntl, "flock", refuse)
    claims.take(tmp_path).release()
    claims.take(tmp_path).release()


def test_a_claim_that_is_sent_to_another_process_holds_nothing(tmp_path: Path) -> None:
    claim = claims.take(tmp_path)
    pickle.loads(pickle.dumps(claim)).release()
    with pytest.raises(ConfigurationError):
        claims.take(tmp_path)
    claim.release()
