import inspect
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose
from PIL import Image

import nws_sweep
from nws_sweep import __version__
from nws_sweep.config import schema
from nws_sweep.programs import COMMANDS
from nws_sweep.records import STRATEGIES, BatchCost, codec
from scripts.pages import command_line, figures, reference
from tests.conftest import ROOT
from tests.factories import recorded_trial, search_result, store_grid, trial
from tests.one_process import SharedProcess
from tests.real_files import write_mnist

DOCUMENTS = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
FENCED = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Removed: it would need a process of its own.
TASKSET = re.compile(r"^taskset -c \S+ (?=nws-sweep)")
# ``-q`` and ``-v`` may stand before the command
OF_PROGRAM = re.compile(rf"^nws-sweep (-\w )?({'|'.join(COMMANDS)})\b")
ON_CLUSTERS = "hydra/launcher="  # tests/cluster composes these commands
ELSEWHERE = (ON_CLUSTERS, "s3://")
OF_MY_MODULE = re.compile(
    r"^```python\n([^`]*^(?:def training_data|class MyStep)\b[^`]*)^```", re.MULTILINE
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def every_command(documents: Sequence[Path] = DOCUMENTS) -> list[str]:
    """Each distinct ``nws-sweep`` line of the documents without its comment, but those
    that run a program."""
    blocks = [
        block for path in documents for block in FENCED.findall(path.read_text("utf-8"))
    ]
    lines = [
        TASKSET.sub("", line.partition(" #")[0].strip())
        for block in blocks
        for line in block.splitlines()
    ]
    commands = [line for line in lines if line.startswith("nws-sweep")]
    return list(dict.fromkeys(line for line in commands if not OF_PROGRAM.match(line)))


EXPERIMENTS = {
    "experiment=batch_timeline": [
        "dataset.seconds_per_sample=0.01",
        "training_step.seconds_per_batch=0.0025",
        # longer than a worker of a busy machine gets ahead
        "measure.window_s=0.1",
        "measure.trial_limit_s=1",
    ],
    "experiment=full_search": [
        "paths.data_dir=data",
        "dataset._target_=tests.user_datasets.Pictures",
    ],
    "experiment=mnist_training": ["paths.data_dir=data"],
}


def shrunk(arguments: list[str]) -> list[str]:
    """The same command on less data; values of the command are kept."""
    text = " ".join(arguments)
    if (
        arguments[:1] and arguments[0] in ("report", "best", "compare", "predict")
    ) or "--" in text:
        return arguments
    if "experiment=remote_store" in text:
        arguments = ["-m", "experiment=remote_store", "services.store.objects=64", "services.store.latency_s=0.002",
                     "num_workers=[0,4]"]  # fmt: skip
    arguments += [
        small for argument in arguments for small in EXPERIMENTS.get(argument, ())
    ]
    given = {argument.lstrip("+").partition("=")[0] for argument in arguments}
    small = {
        "measure": "quick",
        "measure.window_s": "0.01",
        "measure.trial_limit_s": "0.1",
    }
    small["max_workers"] = (
        "1" if "-m" not in arguments or "experiment" in given else "0"
    )
    if "dataset=photos" in arguments or not {"dataset", "experiment"} & given:
        small["dataset.count"] = "32"
    elif "dataset=sleep" in text:
        # two plus signs: Hydra first composes a grid with the default dataset
        small["++dataset.length"] = "128"
        if "dataset=sleep" in arguments:
            small["++dataset.seconds_per_sample"] = "0.0005"
    if "num_workers" in given:
        small.pop("max_workers")
    return [
        *arguments,
        *(f"{key}={value}" for key, value in small.items() if key not in given),
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Files of the examples: a folder of images, a module with a dataset, finished
    grids."""
    for name in ("cat", "dog"):
        folder = tmp_path / "images" / "train" / name
        folder.mkdir(parents=True)
        Image.new("RGB", (64, 48)).save(folder / "1.jpg")
    write_mnist(tmp_path / "data")
    module = "from tests.user_datasets import Plain\n\nclass MyDataset(Plain):\n    def __init__(self, root):\n"
    shown = OF_MY_MODULE.findall((ROOT / "docs/guides/data.md").read_text("utf-8"))
    assert len(shown) == 2
    module += "\n".join(["        super().__init__()", *shown])
    (tmp_path / "my_module.py").write_text(module)
    recorded = replace(
        recorded_trial(2, BatchCost(cpu_s=0.0, wait_s=0.064)),
        measurement=trial(2, 2.0).measurement,
    )
    grid = store_grid(tmp_path, search_result(trial(0, 4.0), recorded))
    grid.rename(tmp_path / "DIR")
    for name in ("DIR_A", "DIR_B", "shared/icelake", "shared/rome"):
        shutil.copytree(tmp_path / "DIR", tmp_path / name)
    return tmp_path


SHOWN_FIRST = every_command([ROOT / "README.md"])
# By what is run of them; the first of several that differ in what shrinking replaces.
DIFFERENT = {
    tuple(shrunk(shlex.split(line)[1:])): line
    for line in reversed(every_command())
    if not any(place in line for place in ELSEWHERE)
}


def alone(command: str) -> object:
    """The command as a parameter; only the README's run by default."""
    mark = (
        pytest.mark.xdist_group("shared")
        if command in SHOWN_FIRST
        else pytest.mark.extended
    )
    return pytest.param(command, marks=mark)


@pytest.mark.slow
@pytest.mark.parametrize("command", [alone(line) for line in DIFFERENT.values()])
def test_every_command_of_the_documents_works(
    shared_process: SharedProcess,
    project: Path,
    environment: dict[str, str],
    command: str,
) -> None:
    arguments = shlex.split(command)[1:]
    done = shared_process.run(shrunk(arguments), project, environment, whole_grid=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout


def test_the_documents_stay_short() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) <= 31
    assert sum(len(path.read_text("utf-8").split()) for path in pages) <= 35_000


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_has_a_target(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_every_column_is_explained() -> None:
    text = (ROOT / "docs" / "reference" / "files.md").read_text("utf-8")
    for column in (*codec.TIMING_COLUMNS, *codec.BATCH_COLUMNS):
        assert f"`{column}`" in text, column


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs" / "project" / "architecture.md").read_text("utf-8")
    paths = re.findall(r"[\w/]+/\w+\.(?:py|yaml)\b|`[\w/]+/(?=`)", text)
    assert len(paths) > 90
    for path in (path.lstrip("`") for path in paths if "NAME" not in path):
        assert (ROOT / path).exists() or (ROOT / "nws_sweep" / path).exists(), path


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_is_explained(strategy: str) -> None:
    files = [
        ROOT / name
        for name in (
            "conf/base.yaml",
            "conf/search.yaml",
            "docs/understand/searching.md",
        )
    ]
    for text in (
        *(path.read_text("utf-8") for path in files),
        inspect.getdoc(nws_sweep.search) or "",
    ):
        assert strategy in text


def test_the_references_are_what_the_script_writes() -> None:
    for written in (reference, command_line):
        assert written.PAGE.read_text("utf-8") == written.page(), (
            "scripts/reference writes it again"
        )


@pytest.mark.parametrize("path", figures.documents(), ids=lambda path: path.name)
def test_measured_figures_are_those_of_the_evidence(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == figures.filled(text), "scripts/reference fills them in again"


def test_the_reference_has_every_group() -> None:
    groups = {
        path.parent.relative_to(reference.CONF).as_posix()
        for path in reference.CONF.glob("*/**/*.yaml")
    }
    with_options = {
        group
        for group in groups
        if not group.startswith(("hydra", "paths", "local", "experiment"))
    }
    assert with_options == {*reference.GROUPS, *reference.AXES}


def test_every_dotted_key_that_the_documents_name_exists() -> None:
    known = set(schema.RANGES)
    for path in set(DOCUMENTS) - {ROOT / "CHANGELOG.md"}:  # it has earlier names
        for key in re.findall(r"`((?:measure|paths)\.\w+)", path.read_text("utf-8")):
            assert key in known, f"{path.name}: {key}"


@pytest.mark.usefixtures("composing")
def test_the_file_of_a_dataset_with_its_collate_fn_composes(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "data.md").read_text("utf-8")
    (file,) = re.findall(
        r"^```yaml\n(# @package .*?)^```", text, re.MULTILINE | re.DOTALL
    )
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine.yaml").write_text(file)
    composed = compose(
        "config", overrides=[f"hydra.searchpath=[file://{tmp_path}]", "dataset=mine"]
    )
    assert schema.configuration(composed, "mine").collate_fn == {
        "_target_": "my_module.pad",
        "_partial_": True,
    }


def test_the_changelog_has_this_version() -> None:
    assert f"\n## {__version__} " in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f'\nversion = "{__version__}"\n' in (ROOT / "pyproject.toml").read_text(
        "utf-8"
    )


def test_a_mark_takes_columns_and_rows_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    (tmp_path / "tools.csv").write_text("name,kind,cost\nab,fast,1\nab,slow,3\n")
    table, cell = "<!-- table: tools | cost, name | kind = slow -->", "tools | ab/fast"
    assert figures.filled(f"{table}<!-- end -->") == (
        f"{table}\n\n| cost | name |\n|---|---|\n| 3 | ab |\n\n<!-- end -->"
    )
    filled = figures.filled(f"<!-- cell: {cell} | cost --><!-- end -->")
    assert filled == f"<!-- cell: {cell} | cost -->1<!-- end -->"
    for wrong in ("cell: tools | ab | cost", "table: tools | price", "table: others"):
        with pytest.raises(ValueError, match=r"rows begin|not 'price'|no table"):
            figures.filled(f"<!-- {wrong} --><!-- end -->")
