"""How long an accelerator waits for data, with a simulated queue of a device."""

import math
from typing import Any

import pytest

from nws_sweep.dataloading.device_clock import DeviceClock
from nws_sweep.dataloading.windows import LoaderSession, made_without_workers
from nws_sweep.records import WindowKind, WindowRequest
from tests.fakes import Device, FakeClock, SimulatedLoader


def test_a_device_whose_queue_is_not_known_may_have_waited_all_the_time() -> None:
    clock = DeviceClock(Device(FakeClock()).event)
    assert clock.waited_s() == math.inf
    clock.ask()
    clock.finish()
    assert clock.waited_s() == math.inf


def session(
    batches: int, step_s: float, host_s: float = 0.0, **loader: Any
) -> tuple[FakeClock, LoaderSession]:
    """Over a simulated loader, with training steps that take these times on the device and of the host."""
    device = Device(FakeClock())

    def step(_: Any) -> None:
        device.launch(step_s)
        device.clock.advance(host_s)

    simulated = SimulatedLoader(device.clock, batches, **loader)
    find_device = lambda: DeviceClock(device.event)  # noqa: E731
    return device.clock, LoaderSession(
        simulated, step, device.clock.moment, find_device=find_device
    )


STEADY = WindowRequest(kind=WindowKind.STEADY, min_batches=10)


@pytest.mark.parametrize(
    ("load_s", "step_s", "host_s", "num_workers", "batch_s", "wait_s"),
    [
        (0.1, 0.5, 0.0, 1, 0.5, 0.0),  # as slow as the device
        (0.5, 0.1, 0.0, 1, 0.5, 0.4),  # as slow as the worker
        (0.2, 0.5, 0.0, 0, 0.5, 0.0),  # the device works while the process loads
        (0.5, 0.2, 0.0, 0, 0.5, 0.3),  # it has finished before
        (
            0.25,
            1.0,
            1.0,
            0,
            1.25,
            0.25,
        ),  # the host waits for the device within the step
    ],
)
def test_a_window_has_the_pace_of_the_slower_of_loading_and_queued_steps(
    load_s: float,
    step_s: float,
    host_s: float,
    num_workers: int,
    batch_s: float,
    wait_s: float,
) -> None:
    clock, measured = session(
        100, step_s, host_s, make_s=load_s, num_workers=num_workers
    )
    measured.window(WindowRequest(kind=WindowKind.WARM_UP, min_batches=4))
    began_s = clock.now
    window = measured.window(STEADY)
    assert window.elapsed_s == pytest.approx(clock.now - began_s)
    assert window.elapsed_s == pytest.approx(window.wait_s[0] + 9 * batch_s + step_s)
    assert window.wait_s[1:] == pytest.approx([wait_s] * 9)
    assert sum(window.step_s) == pytest.approx(
        10 * step_s
    )  # a queued step may count as a part of the next one
    if not num_workers:
        costs = [record.cost for record in made_without_workers(window, 4)]
        assert [cost.wait_s for cost in costs] == pytest.approx([load_s] * 10)


def test_the_end_of_an_epoch_contains_the_last_step_only_as_a_step() -> None:
    clock, measured = session(5, 0.5, make_s=0.1, num_workers=1, end_s=0.7)
    epoch = WindowRequest(kind=WindowKind.EPOCH)
    measured.window(epoch)
    began_s, window = clock.now, measured.window(epoch)
    assert sum(window.step_s) == pytest.approx(5 * 0.5)
    assert window.end_s == pytest.approx(0.2)
    assert window.elapsed_s == pytest.approx(clock.now - began_s)
