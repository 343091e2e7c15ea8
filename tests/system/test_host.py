import os
from pathlib import Path

import pytest

from nws_sweep.system import host
from tests.roots import made_up


@pytest.fixture(autouse=True)
def twelve_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The affinity is twelve CPUs; there is neither a batch system nor a launcher."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)))
    for variable in ("SLURM_CPUS_PER_TASK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)


def v1(folder: str, quota_us: int) -> dict[str, str]:
    return {
        f"{folder}/cpu.cfs_quota_us": f"{quota_us}\n",
        f"{folder}/cpu.cfs_period_us": "100000\n",
    }


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 12.0),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/host/path/of/container\n", {"cpu.max": "200000 100000\n"}, 2.0),
        ("4:cpu,cpuacct:/\n", v1("cpu,cpuacct", 250_000), 2.5),
        ("3:cpuset:/\n2:cpuacct:/\n", v1("cpuset", 100_000), 12.0),
        ("5:cpu2:/\n", v1("cpu2", 100_000), 12.0),
        ("", {}, 12.0),
        ("0::/\n", {"cpu.max": "\n"}, 12.0),
    ],
)  # fmt: skip
def test_quotas_of_groups_limit_the_cpus(
    tmp_path: Path, own: str, files: dict[str, str], expected: float
) -> None:
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    root = made_up(tmp_path, {"proc/self/cgroup": own, **files})
    assert host.shared_cores(root) == expected


@pytest.mark.parametrize(
    ("cpus", "expected"), [("64", 12.0), ("many", 12.0), ("0", 12.0), ("6", 6.0)]
)
def test_batch_systems_limit_the_cpus_which_nothing_enforces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: str, expected: float
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", cpus)
    assert (host.shared_cores(tmp_path), host.enforced_cores(tmp_path)) == (
        expected,
        12.0,
    )


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"),
    [(0.5, 1, (1, 0.5)), (1.5, 1, (1, 1.5)), (1.5, 2, (3, None)), (2, 1, (2, None))],
)
def test_a_fraction_of_the_usable_cpus_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    cores: float,
    ranks: int,
    expected: tuple[int, float | None],
) -> None:
    """A launcher with two ranks."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(host, "shared_cores", lambda **_: 2 * cores)
    found = host.describe(ranks)
    assert (found.usable_cpus, found.usable_cores) == expected


def test_ranks_share_the_cpus_of_all_of_a_launchers_ranks_also_if_they_are_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(host, "_quotas", lambda root: ())
    assert [host.usable_cpus(ranks) for ranks in (1, 3, 4, 32)] == [3, 4, 3, 1]
    for bound, expected in ((2, 2), (3, 3), (6, 3)):
        monkeypatch.setattr(
            os,
            "sched_getaffinity",
            lambda pid, own=bound: set(range(12 if pid else own)),
        )
        assert host.usable_cpus() == expected
