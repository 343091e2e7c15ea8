"""A Jupyter kernel: classes of its cells, progress in the cell, results as tables and
figures."""

import re
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import run_kernel

from tests.conftest import ROOT

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


def run(client: Any, code: str) -> dict[str, list[dict[str, Any]]]:
    """Runs a cell and returns the contents of its messages by their types."""
    shown: dict[str, list[dict[str, Any]]] = {}

    def note(message: dict[str, Any]) -> None:
        shown.setdefault(message["msg_type"], []).append(message["content"])

    client.execute_interactive(code, timeout=240, output_hook=note)
    assert "error" not in shown, shown["error"]
    return shown


@pytest.mark.slow
@pytest.mark.extended
def test_a_notebook_shows_progress_and_results(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    own = {
        **environment,
        "PYTHONPATH": str(ROOT),
        "NWS_SWEEP_CACHE_DIR": str(tmp_path),
        "IPYTHONDIR": str(tmp_path),
    }
    kernel: Any = run_kernel(env=own, cwd=str(tmp_path), startup_timeout=240)
    with kernel as client:
        shown = run(client, SEARCH)
        assert {each["name"] for each in shown["stream"]} == {"stdout"}, shown["stream"]
        (best,) = re.findall(
            r"^num_workers=([02])\b",
            "".join(each["text"] for each in shown["stream"]),
            re.MULTILINE,
        )
        (result,) = shown["execute_result"]
        assert "<pre>" in result["data"]["text/html"]
        assert f"num_workers={best}" in result["data"]["text/html"]
        assert run(client, "result.plot()")["execute_result"][0]["data"]["image/png"]
        tuned = run(
            client,
            "print(nws_sweep.tune(DataLoader(Slow(), batch_size=10), num_workers=[0, 2]).num_workers)",
        )
        assert "".join(text["text"] for text in tuned["stream"]).split()[-1] in (
            "0",
            "2",
        )
