"""The Python examples of the documents, unchanged, on small files."""

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hydra import compose
from omegaconf import OmegaConf
from PIL import Image
from torch.utils.data import DataLoader

import nws_sweep
from tests.conftest import ROOT
from tests.factories import search_result, trial
from tests.user_datasets import Slow

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The warnings are those of other packages.
pytestmark = [
    pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("examples"),
    pytest.mark.usefixtures("short_searches"),
]  # fmt: skip

WORKERS = (0, 1, 2)  # too little data for a certain result
SLOW = Slow(256, seconds=0.004)


def blocks(document: str, containing: str) -> list[str]:
    return [
        block
        for block in PYTHON.findall((ROOT / document).read_text("utf-8"))
        if containing in block
    ]


def run(block: str, **given: Any) -> dict[str, Any]:
    names = {"__name__": "example", **given}
    exec(
        compile(
            "import nws_sweep\nfrom torch.utils.data import DataLoader\n" + block,
            "example",
            "exec",
        ),
        names,
    )
    return names


def shown(document: str, containing: str) -> str:
    """The only such example of a document."""
    (block,) = blocks(document, containing)
    return block


@pytest.mark.parametrize(
    ("document", "batches"),
    [
        ("README.md", 32),
        pytest.param("docs/get-started/python.md", 4, marks=pytest.mark.extended),
    ],
)
def test_a_script(document: str, batches: int) -> None:
    found = run(
        shown(document, "nws_sweep.search(dataset").replace("224, 224", "8, 8"),
        dataset=SLOW,
    )
    assert found["result"].num_workers in WORKERS
    assert (found["loader"].num_workers in WORKERS, len(found["loader"])) == (
        True,
        batches,
    )


@pytest.mark.extended
@pytest.mark.usefixtures("composing")
def test_a_program_that_passes_its_config() -> None:
    node = {"num_workers": [1], "measure": {"window_s": 0.02, "trial_limit_s": 0.2}}
    cfg = OmegaConf.create({"nws_sweep": OmegaConf.merge(compose("base"), node)})
    found = run(
        shown("docs/guides/hydra.md", "cfg.get"),
        loader=DataLoader(SLOW, batch_size=64),
        cfg=cfg,
    )
    assert found["loader"].num_workers == 1


@pytest.mark.extended
@pytest.mark.parametrize(
    "block",
    blocks("docs/guides/troubleshooting.md", ""),
    ids=["threads", "randomness", "validation"],
)
def test_an_answer_to_a_question(
    block: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(block, dataset=SLOW, held_out=SLOW, torch=torch)
    loaders = [value for value in found.values() if isinstance(value, DataLoader)]
    assert all(loader.num_workers in WORKERS for loader in loaders)
    assert loaders or capsys.readouterr().out.count("num_workers") >= 2


@pytest.mark.extended
def test_accelerate() -> None:
    found = run(shown("docs/guides/frameworks.md", "Accelerator"), dataset=SLOW)
    loader = found["loader"]
    assert type(loader).__name__ == "DataLoaderShard"
    assert loader.num_workers in WORKERS
    assert sum(len(batch) for batch in loader) == 256
    again = found["nws_sweep"].tune(loader)
    assert type(again) is type(loader)
    assert (
        again.base_dataloader is loader.base_dataloader,
        sum(len(batch) for batch in again),
    ) == (False, 256)


@pytest.mark.extended
def test_webdataset() -> None:
    import webdataset

    Path("shards").mkdir()
    picture = io.BytesIO()
    Image.new("RGB", (32, 24)).save(picture, "JPEG")
    for shard in range(4):
        with webdataset.TarWriter(f"shards/{shard:04d}.tar") as tar:
            for index in range(32):
                tar.write(
                    {
                        "__key__": f"{shard}{index:03d}",
                        "jpg": picture.getvalue(),
                        "cls": str(shard).encode(),
                    }
                )
    found = run(shown("docs/guides/data.md", "webdataset"))
    assert found["result"].record.facts.iterable
    assert not [
        line
        for line in found["result"].warnings
        if "more than once" in line or "no samples" in line
    ]
    loader = found["loader"]
    assert (type(loader), sum(len(labels) for _, labels in loader)) == (
        webdataset.WebLoader,
        128,
    )


@pytest.mark.extended
def test_hugging_face_datasets() -> None:
    Path("parquet").mkdir()
    for part in range(2):
        rows = {
            "x": [[float(index)] * 8 for index in range(64)],
            "y": range(64 * part, 64 * (part + 1)),
        }
        pd.DataFrame(rows).to_parquet(f"parquet/{part}.parquet")
    found = run(shown("docs/guides/data.md", "load_dataset"), torch=torch)
    assert sorted(
        label for batch in found["loader"] for label in batch["y"].tolist()
    ) == list(range(128))
    assert found["result"].record.facts.iterable
    assert found["result"].num_workers in WORKERS
    assert found["halved"].num_workers in WORKERS
    assert torch.equal(found["halves"][3]["x"], torch.full((8,), 1.5))


@pytest.mark.extended
def test_a_dataset_and_a_training_step_of_the_user() -> None:
    for name in ("cat", "dog"):
        folder = Path("images", "train", name)
        folder.mkdir(parents=True)
        Image.new("RGB", (300, 300)).save(folder / "1.jpg")
    dataset = run(shown("docs/guides/data.md", "def training_data"))["training_data"](
        "images/train"
    )
    assert len(dataset) == 2
    assert dataset[0][0].shape[0] == 3
    step = run(shown("docs/guides/data.md", "class MyStep"))["MyStep"](lr=0.01)
    before = step.model.weight.clone()
    step((torch.ones(4, 784), torch.zeros(4, dtype=torch.long)))
    assert not torch.equal(before, step.model.weight)


@pytest.mark.extended
def test_a_folder_of_images_with_a_gpu() -> None:
    """Without one the step computes on the CPUs, and its batches stay there."""
    for name in ("cat", "dog"):
        folder = Path("images", "train", name)
        folder.mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (48, 48)).save(folder / f"{number}.jpg")
    page = "docs/guides/gpu.md"
    parts = [shown(page, "class Step"), shown(page, "training_step=Step()")]
    parts.append(shown(page, "for images, labels in loader"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    script = "".join(parts).replace("batch_size=64", "batch_size=2")
    script = script.replace("Crop(224)", "Crop(32)").replace(
        'to("cuda"', f'to("{device}"'
    )
    found = run(script)
    assert found["result"].num_workers in WORKERS
    assert len(found["images"]) == 2


@pytest.fixture
def result() -> nws_sweep.SearchResult:
    return nws_sweep.SearchResult(search_result(trial(0, 8.0), trial(2, 4.0)))


@pytest.mark.extended
def test_weights_and_biases(
    result: nws_sweep.SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run(shown("docs/guides/frameworks.md", "wandb.init"), wandb=wandb, result=result)
    wandb.finish()
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


@pytest.mark.extended
def test_mlflow(
    result: nws_sweep.SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    run(
        shown("docs/guides/frameworks.md", "mlflow.start_run"),
        mlflow=mlflow,
        result=result,
    )
    (found,) = mlflow.search_runs(output_format="list")
    assert found.data.params["num_workers"] == "2"
    assert found.data.metrics["samples_per_s"] > 0
    assert list(tmp_path.glob("mlruns/*/*/artifacts/report.html"))


@pytest.mark.extended
def test_tensorboard(result: nws_sweep.SearchResult, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    run(
        shown("docs/guides/frameworks.md", "SummaryWriter"),
        SummaryWriter=SummaryWriter,
        result=result,
    )
    assert list(tmp_path.glob("runs/*/events.out.tfevents.*"))
