import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nws_sweep.analysis.summary import summarise
from nws_sweep.errors import NotARunError
from nws_sweep.records import (
    BatchCost,
    LoopCosts,
    ProjectFacts,
    SearchRecord,
    Span,
    StageTime,
    Verdict,
    WindowKind,
    codec,
    storage,
)
from nws_sweep.report import page, tables
from tests import factories
from tests.factories import (
    FACTS,
    HOST,
    failed_trial,
    loader_settings,
    search_result,
    store_run,
    trial,
    window,
    windows,
)


def whole() -> SearchRecord:
    """A result with all kinds of values and windows, and two candidates with equal
    num_workers."""
    began = window(
        WindowKind.WARM_UP, 3, startup_s=0.25, batch_bytes=4096, batch_tensors=2
    )
    spans = (Span(measured_s=0.5, replayed_s=0.25, batches=8, round=1),)
    other, columns = (
        replace(loader_settings(2), prefetch_factor=4),
        {"dataset.sizes": [1, 2], "größe": None},
    )
    read = StageTime(name="read", calls=8, wait_s=0.09, file="/a.py", line=40)
    first = factories.batch_record(
        0, BatchCost(0.1, 1 / 3, 0.25), epoch=1, stages=(read,)
    )
    records = (
        first,
        factories.batch_record(
            1, BatchCost(1e-5, 0.0), epoch=1, position=1 / 7, was_stopped=True
        ),
    )
    return search_result(
        trial(
            0,
            0.1 + 0.2,
            windows=(began, window(batches=7, end_s=0.125, produced=9)),
            batches=7,
        ),
        failed_trial(1, "worker died"),
        trial(
            2,
            1 / 3,
            windows=windows(),
            records=records,
            loop=LoopCosts(0.001, 0.02),
            spans=spans,
        ),
        trial(
            2,
            0.7,
            settings=other,
            windows=(window(WindowKind.EPOCH, 5, startup_s=1.5),),
        ),
        host=replace(HOST, usable_cores=8.5),
        facts=replace(
            FACTS,
            iterable=True,
            samples=None,
            project=ProjectFacts(keys={"num_workers": "a.num_workers"}),
        ),
        configuration=factories.configuration(
            columns, collate_fn={"_target_": "package.pad"}
        ),
        verdict=Verdict(
            recommended=other, fastest=loader_settings(4), tied=(loader_settings(3),)
        ),
    )


def nested(levels: int) -> dict[str, Any]:
    """Mappings within mappings."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def test_numbers_of_numpy_are_read_back_as_numbers() -> None:
    rules = factories.search_rules(
        tolerance=np.float32(0.25),
        time_limit_s=np.float64(30.5),
        candidates=(np.int64(2),),
    )
    written = search_result(
        trial(2, 1.0), configuration=factories.configuration(search=rules)
    )
    found = codec.from_text(codec.to_text(written)).configuration
    assert found == written.configuration
    assert found.fingerprint == written.configuration.fingerprint


def without_batches(result: SearchRecord) -> SearchRecord:
    return replace(
        result,
        trials=tuple(replace(each, windows=(), records=()) for each in result.trials),
    )


@pytest.mark.parametrize(
    "result",
    [whole(), search_result(facts=None, stop_reason="", error="no folder: 'ä, \"b\"'")],
)
def test_loading_and_saving_a_result_changes_no_byte(
    tmp_path: Path, result: SearchRecord
) -> None:
    folder = store_run(tmp_path, result)
    assert storage.find(folder).runs == (
        storage.StoredRun(folder=folder, result=without_batches(result)),
    )
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(before) == ["batches.csv", "costs.csv", "result.json", "timings.csv"]
    loaded = storage.load(folder)
    assert not loaded.batches_error
    storage.save(folder, loaded.result)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("trials.0.measurement.batch_s.value", -1.0), ("trials.0.measurement.samples_per_s", 0.0),
        ("trials.0.measurement.startup_s", 1e30), ("trials.0.measurement.memory_growth_bytes", float("nan")),
        ("trials.0.noise.steal", float("inf")), ("trials.2.settings.batch_size", 0), ("host.usable_cpus", 0),
        ("configuration.search.candidates", []), ("configuration.search.candidates", [-1]), ("cost_s", -1.0),
        ("trials", {}), ("host", "here"), ("cost_s", "8.0"), ("stop_reason", None), ("configuration", {}),
        ("host.usable_cores", 0.0), ("trials.0.batches", 0),
        # What a configuration may not be, either.
        ("configuration.ranks", 10**12), ("trials.2.settings.num_workers", 10**15), ("verdict.fastest.timeout", -1.0),
        ("trials.2.settings.multiprocessing_context", "x hydra.callbacks.x._target_=shutil.copyfile"),
        ("configuration.search.settings", ["batch_size"]), ("configuration.search.strategy", "online\n"),
        ("configuration.measure.cache", "hot"), ("configuration.loader.prefetch_factor", 0),
        # Keys of another program.
        *(("facts.project.keys", {"num_workers": key}) for key in (
            "hydra.num_workers", "num_workers=1 ++x", "a.num_workers\n", "num_workers.$(id)", "trainer.lr",
            "größe.num_workers",
        )),
        ("facts.project.unclear", {"num_workers": ["b[0]"]}),
        # Too much of something.
        ("host.usable_cores", 1e15), ("stop_reason", "x" * 10**6), ("configuration.columns", {"x" * 10**6: 1}),
        ("configuration.dataset", nested(101)), ("stop_reason", "\ud800"),
        ("trials.1.settings", loader_settings(0).keywords),
    ],
)  # fmt: skip
def test_values_of_another_type_or_out_of_range_are_refused(
    place: str, value: Any
) -> None:
    data = node = json.loads(codec.to_text(whole()))
    *path, name = place.split(".")
    for part in path:
        node = node[int(part) if part.isdecimal() else part]
    node[name] = value
    with pytest.raises(codec.UNREADABLE):
        codec.from_text(json.dumps(data))


def test_values_that_are_nested_deeply_are_refused() -> None:
    text = codec.to_text(whole()).replace(
        '"all 4 candidates were measured"', "[" * 10**5 + "]" * 10**5
    )
    with pytest.raises(codec.UNREADABLE):
        codec.from_text(text)


@pytest.mark.parametrize("parent", [1, 2, 10**6, -2])
def test_stages_that_call_each_other_in_a_circle_are_refused(parent: int) -> None:
    """They would be followed for ever."""
    inner = StageTime(name="read", parent=parent), StageTime(name="decode", parent=1)
    record = factories.batch_record(
        0, BatchCost(0.1, 0.0), stages=(StageTime(name="load"), *inner)
    )
    costs = codec.costs_text(search_result(trial(0, 1.0, records=(record,))))
    with pytest.raises(codec.UNREADABLE):
        codec.with_records(search_result(trial(0, 1.0)), costs)


def test_damaged_results_are_refused_or_reported_without_a_traceback(
    tmp_path: Path,
) -> None:
    """Bytes are changed or removed at random; a readable result makes a report."""
    rng, text = random.Random(8), codec.to_text(whole()).encode()
    (tmp_path / "run").mkdir()
    refused = 0
    for _ in range(300):
        at, size = rng.randrange(len(text)), rng.choice((1, 5, 50, 10**9))
        instead = rng.choice(
            [b"", b"7", b"-", b".", b'"', b"{", b"]", b",", b"n", b"\xff"]
        )
        (tmp_path / "run" / "result.json").write_bytes(
            text[:at] + instead + text[at + size :]
        )
        try:
            summary = summarise(storage.find(tmp_path))
        except NotARunError:
            refused += 1
            continue
        page.markdown(summary)
        tables.trials(summary)
    assert 100 < refused < 300
