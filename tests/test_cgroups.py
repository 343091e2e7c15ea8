"""What tests/test_cores.py does not say about control groups: which folders, in which order, and odd files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nws_sweep import cgroups
from tests.roots import made_up


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("0::/\n", [(2, ".")]),
        ("0::/a/b\n", [(2, "a/b"), (2, "a"), (2, ".")]),
        ("5:memory:/\n", [(1, "memory")]),
        ("5:memory:/a\n", [(1, "memory/a"), (1, "memory")]),
        ("5:hugetlb,memory:/a\n", [(1, "hugetlb,memory/a"), (1, "hugetlb,memory"), (1, "memory/a"), (1, "memory")]),
        ("5:memory:/a\n0::/b\n", [(1, "memory/a"), (1, "memory"), (2, "b"), (2, ".")]),
        ("5:cpu:/a\n6:name=systemd:/b\n", []),
        ("5:memory2:/a\n", []),
        ("0::/with:colon\n", [(2, "with:colon"), (2, ".")]),
        ("", []),
    ],
)
def test_the_folders_go_from_the_own_group_up_to_the_mount(
    tmp_path: Path, own: str, expected: list[tuple[int, str]]
) -> None:
    assert list(cgroups.folders(tmp_path, "memory")) == []  # without /proc
    mount = made_up(tmp_path, {"proc/self/cgroup": own}) / "sys/fs/cgroup"
    found = [(version, str(folder.relative_to(mount))) for version, folder in cgroups.folders(tmp_path, "memory")]
    assert found == expected


def test_fields_are_the_lines_that_name_a_number(tmp_path: Path) -> None:
    assert cgroups.fields(tmp_path / "missing") == {}
    (tmp_path / "cpu.stat").write_text("nr_periods 12\nthrottled_usec 3400\n\nodd\nhigh max\nthree 1 2\nbelow -1\n")
    assert cgroups.fields(tmp_path / "cpu.stat") == {"nr_periods": 12, "throttled_usec": 3400}
