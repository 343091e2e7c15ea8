from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nws_sweep import batch_plots, drawing, storage
from nws_sweep.batch_plots import Timeline
from nws_sweep.records import BurstKind
from tests.factories import burst, bursts, search_result, store_run, trial


def timeline(num_workers: int, batches: int = 20) -> Timeline:
    return Timeline(num_workers, (0.1,) * batches, (0.05,) * batches, (True, True, *(False,) * (batches - 2)))


def test_timelines_are_the_batches_of_each_candidate_with_what_was_warm_up(tmp_path: Path) -> None:
    epoch = burst(BurstKind.EPOCH, 2, startup_s=0.25, end_s=0.5)
    folder = store_run(tmp_path, search_result(trial(4, 8.0, bursts=bursts()[:2]), trial(0, 8.0, bursts=(epoch,))))
    warm_up = (True, True, False, False, False)
    assert batch_plots.timelines(storage.read_batches(folder)) == [
        Timeline(0, (0.25, 1.25), (0.125, 0.125), (False, False)),
        Timeline(4, (0.25, 1.25, 0.25, 1.25, 2.25), (0.125,) * 5, warm_up),
    ]
    assert batch_plots.timelines([]) == []


def test_more_batches_than_can_be_seen_are_means() -> None:
    line = Timeline(1, (1.0, 3.0, 5.0), (0.0, 2.0, 4.0), (True, False, False))
    assert batch_plots.coarser(line, 2) == Timeline(1, (2.0, 5.0), (1.0, 4.0), (True, False), together=2)
    assert batch_plots.coarser(line, 3) == line


def test_of_many_candidates_the_ends_and_the_recommended_one_are_shown() -> None:
    lines = [timeline(n, 10_000) for n in range(30)]
    assert [line.num_workers for line in batch_plots.picked(lines, 3)] == [0, 3, 7, 14, 22, 29]
    figure = batch_plots.draw_timelines(lines, "Times", 3)
    assert (len(figure.axes), figure.get_suptitle()) == (6, "Times (6 of 30 candidates)")
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["0 workers", "3 workers (best)"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "waiting for the loader, s (means of up to 38 batches)",
        "consumer, s",
        "warm-up, not counted",
    ]
    assert len(drawing.rendered(figure, "svg").decode()) < 150_000


def test_the_axis_ends_at_the_slowest_batch_that_counts() -> None:
    line = Timeline(0, (9.0, 0.5), (0.0, 0.5), (True, False))
    assert batch_plots.highest([line]) == 1.0
    assert batch_plots.highest([replace(line, warm_up=(True, True))]) == 9.0
    (axes,) = batch_plots.draw_timelines([line], "Times").axes
    assert axes.get_ylim() == (0.0, 1.05)
