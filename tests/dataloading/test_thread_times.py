"""The number of torch's threads without workers, on simulated clocks."""

from types import SimpleNamespace

import pytest

from nws_sweep.dataloading import thread_times as module
from nws_sweep.dataloading.thread_times import thread_times
from nws_sweep.searching.slices import threads_warning


class Program:
    """Samples take 10 ms of CPU time; with several threads each waits for a busy program, 20 ms in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
        self.threads, self.now_s, self.cpu_s, self.others_s = threads, 0.0, 0.0, 0.0
        clocks = {
            "perf_counter": lambda: self.now_s,
            "process_time": lambda: self.cpu_s,
            "thread_time": lambda: self.cpu_s - self.others_s,
        }
        monkeypatch.setattr(module, "time", SimpleNamespace(**clocks))
        changed = SimpleNamespace(
            get_num_threads=lambda: self.threads,
            set_num_threads=lambda n: setattr(self, "threads", n),
        )
        monkeypatch.setattr(module, "torch", changed)

    def load(self, _: int) -> None:
        self.now_s += 0.01 if self.threads == 1 else 0.02
        self.cpu_s += 0.01
        self.others_s += 0.01 * (self.threads - 1) / self.threads


def test_fewer_threads_are_recommended_where_they_load_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program(monkeypatch, 4)
    times_s = thread_times(program.load, 1000, (1, 2), 0.5)
    assert times_s == pytest.approx({4: 0.02, 1: 0.01, 2: 0.02})
    assert program.threads == 4
    assert program.now_s < 1.0
    assert threads_warning(times_s) == (
        "without workers, torch.set_num_threads(1), or OMP_NUM_THREADS=1, would save 50 % of loading: a sample takes "
        "10.0 ms instead of 20.0 ms with 4 threads"
    )
    assert threads_warning({4: 0.02, 1: 0.019}) == threads_warning({}) == ""
    # One thread, and samples that take too long, are not compared.
    assert thread_times(Program(monkeypatch, 1).load, 1000, (1, 2), 0.5) == {}
    assert thread_times(Program(monkeypatch, 4).load, 1000, (1, 2), 0.1) == {}
