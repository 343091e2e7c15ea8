"""The control groups that this process is in: limits that containers and batch systems set, in both versions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MOUNT = Path("sys/fs/cgroup")


def folders(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """The folders of the groups whose controller, such as ``cpu``, limits this process, with the groups' version.

    They go from its own up to the mount, which has its files where the path is the host's, seen in a container.
    """
    for line in read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mounts = {".": 2}
        elif controller in controllers.split(","):
            mounts = {controllers: 1, controller: 1}
        else:
            continue
        inside = PurePosixPath(group.lstrip("/"))
        for name, version in mounts.items():
            yield from ((version, root / _MOUNT / name / part) for part in (inside, *inside.parents))


def read(path: Path) -> str:
    """The file's text, empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def fields(path: Path) -> dict[str, int]:
    """A file of ``name value`` lines, such as cpu.stat or memory.stat; empty if it cannot be read."""
    pairs = (line.split() for line in read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
