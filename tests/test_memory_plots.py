from __future__ import annotations

from dataclasses import replace

from nws_sweep import memory_plots
from nws_sweep.memory_plots import Field, Spot
from tests.factories import measurement, search_result, summary_of_grid, trial


def test_the_front_is_what_no_other_beats_in_time_and_memory() -> None:
    held = ((8.0, 100), (4.0, 200), (6.0, 300), (4.0, 250))
    trials = {memory: trial(2, s, measurement=measurement(s, memory_bytes=memory)) for s, memory in held}
    results = [search_result(one, columns={"seed": str(memory)}) for memory, one in trials.items()]
    unknown = search_result(trial(0, 1.0, measurement=measurement(1.0, memory_bytes=None)), columns={"seed": "x"})
    lean, quick, slow, large = (
        Spot(label=str(memory), num_workers=2, memory_bytes=memory, seconds=1000 * epoch_s / 8192)
        for epoch_s, memory in held
    )
    assert memory_plots.fields(summary_of_grid(*results, unknown)) == (
        Field(title="", key="seed", front=(lean, quick), others=(slow, large)),
    )


def test_each_dataset_is_by_itself_and_one_configuration_is_no_comparison() -> None:
    names = ("a", "a", "b")
    results = [search_result(trial(0, 8.0), columns={"dataset": n, "seed": i}) for i, n in enumerate(names)]
    assert [field.title for field in memory_plots.fields(summary_of_grid(*results))] == ["a"]


def test_what_nothing_beats_is_numbered_and_named() -> None:
    front = tuple(Spot(label=name, num_workers=2, memory_bytes=10**8, seconds=1.0) for name in ("$a$", ""))
    field = Field(title="photos", key="seed", front=front, others=())
    figure = memory_plots.draw_fields([field] * 9, "Memory")
    assert figure.get_supxlabel().endswith("(the first 6 of 9 datasets)")
    axes, *others = figure.axes
    assert len(others) == 5
    assert [text.get_text() for text in axes.texts] == ["1", "2"]
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "seed: num_workers"
    assert [text.get_text() for text in legend.get_texts()] == ["1  $a$: 2", "2  2"]
    assert axes.get_xlabel() == "memory of all processes, MB"
    many = [replace(front[0], num_workers=n) for n in range(30)]
    assert [spot.num_workers for spot in memory_plots.named(many)] == [0, 6, 12, 17, 23, 29]
