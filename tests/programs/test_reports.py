import pytest

from nws_sweep.programs import reports


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "SLURM_PROCID"])
def test_of_several_ranks_the_first_one_writes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(other, raising=False)
    assert reports.is_first_rank()
    monkeypatch.setenv(name, "1")
    assert not reports.is_first_rank()
