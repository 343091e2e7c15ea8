"""Made-up folders: programs, and roots of a file system with what /proc and /sys say on
machines that are not here."""

from collections.abc import Mapping
from pathlib import Path


def made_up(root: Path, files: Mapping[str, str]) -> Path:
    """The root with these files in it, by their paths from there."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
