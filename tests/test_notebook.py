"""A Jupyter kernel: classes of its cells, progress in the cell, results as tables and figures."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import run_kernel

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SEARCH = """
import time, torch, nws_sweep
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):  # a class of the notebook
    def __len__(self):
        return 300
    def __getitem__(self, index):
        time.sleep(0.004)
        return index

torch.rand(500, 500) @ torch.rand(500, 500)
result = nws_sweep.search(Slow(), batch_size=10, num_workers=[0, 2], measure=nws_sweep.MeasureRules(window_s=0.02))
result
"""


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[[str], dict[str, list[dict[str, Any]]]]]:
    """Runs a cell and returns the contents of its messages by their types."""
    own = {**environment, "PYTHONPATH": str(ROOT), "NWS_SWEEP_CACHE_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path)}
    kernel: Any = run_kernel(env=own, cwd=str(tmp_path), startup_timeout=240)
    with kernel as client:

        def run(code: str) -> dict[str, list[dict[str, Any]]]:
            shown: dict[str, list[dict[str, Any]]] = {}

            def note(message: dict[str, Any]) -> None:
                shown.setdefault(message["msg_type"], []).append(message["content"])

            client.execute_interactive(code, timeout=240, output_hook=note)
            assert "error" not in shown, shown["error"]
            return shown

        yield run


@pytest.mark.extended
def test_a_notebook_shows_progress_and_results(run: Callable[[str], dict[str, list[dict[str, Any]]]]) -> None:
    shown = run(SEARCH)
    assert {each["name"] for each in shown["stream"]} == {"stdout"}, shown["stream"]
    (best,) = re.findall(r"best: num_workers=([02])\b", "".join(each["text"] for each in shown["stream"]))
    (result,) = shown["execute_result"]
    assert "<pre>" in result["data"]["text/html"]
    assert f"num_workers={best}" in result["data"]["text/html"]
    picture = run("result.plot()")["execute_result"][0]["data"]
    assert picture["image/png"]
    tuned = run("print(nws_sweep.tune(DataLoader(Slow(), batch_size=10), num_workers=[0, 2]).num_workers)")
    assert "".join(text["text"] for text in tuned["stream"]).split()[-1] in ("0", "2")
