"""The control groups of this process (versions 1 and 2), in which containers and batch systems set limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MOUNT = Path("sys/fs/cgroup")


def folders(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """The folders, with the version, of the groups that limit this process by a controller such as ``cpu``.

    From its own group up to the mount: inside a container the path may be the host's, and only the mount has files.
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
    """The text of a file; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def fields(path: Path) -> dict[str, int]:
    """The numbers in a file of ``name value`` or ``name: value kB`` lines; empty if it cannot be read."""
    pairs = (line.split()[:2] for line in read(path).splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
