"""What killed processes leave in the temporary folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from nws_sweep import temporary


def test_folders_of_the_dead_are_removed_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(["true"]) as gone:
        pass
    mine = Path(temporary.make())
    (mine / "socket").touch()
    for name in (f"nws_sweep-{gone.pid}-abc", "nws_sweep-x-abc", f"other-{gone.pid}-abc"):
        (tmp_path / name).mkdir()
    (tmp_path / f"nws_sweep-{gone.pid}-abc" / "socket").touch()
    temporary.remove_left()
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, "nws_sweep-x-abc", f"other-{gone.pid}-abc"}
    assert mine.name.startswith(f"nws_sweep-{os.getpid()}-")
