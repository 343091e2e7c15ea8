"""Folders of a user, with and without a home."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nws_sweep.homes import expanded


def test_a_home_is_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert expanded("~/.cache/x") == Path("/home/somebody/.cache/x")
    assert expanded("/data/x") == Path("/data/x")
    assert expanded("data/~x") == Path("data/~x")


def test_without_a_home_it_is_a_folder_of_that_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    assert expanded("~/.cache/x") == Path(tempfile.gettempdir()) / f"nws_sweep_home_of_{os.getuid()}" / ".cache" / "x"
