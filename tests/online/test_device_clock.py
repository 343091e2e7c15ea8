"""How long an accelerator waits for data, with a simulated queue of a device."""

from dataclasses import dataclass, field

import pytest

from nws_sweep.online.device_clock import DeviceClock


@dataclass
class Device:
    """Runs what is queued, one after the other, while the time of the host passes."""

    now_s: float = 0.0
    free_s: float = 0.0  # when it will have finished what is queued

    def launch(self, seconds: float) -> None:
        self.free_s = max(self.free_s, self.now_s) + seconds

    def event(self) -> "FakeEvent":
        return FakeEvent(self)


@dataclass
class FakeEvent:
    device: Device
    passed_s: float = field(default=0.0)

    def record(self) -> None:
        self.passed_s = max(self.device.free_s, self.device.now_s)

    def query(self) -> bool:
        return self.device.now_s >= self.passed_s

    def synchronize(self) -> None:
        self.device.now_s = max(self.device.now_s, self.passed_s)

    def elapsed_time(self, end_event: "FakeEvent") -> float:
        return 1e3 * (end_event.passed_s - self.passed_s)


@pytest.mark.parametrize(
    ("step_s", "load_s", "waited_s"),
    [
        (0.5, 0.2, 0.0),  # the device computes for longer than loading takes: the host alone waits
        (0.2, 0.5, 0.3),  # it has finished before
        (0.0, 0.5, 0.5),
    ],
)
def test_only_what_a_device_waits_after_its_work_counts(step_s: float, load_s: float, waited_s: float) -> None:
    device = Device()
    clock = DeviceClock(device.event)
    for _ in range(3):
        device.launch(step_s)
        clock.ask()
        device.now_s += load_s
        found_s = clock.waited_s()
    assert found_s == pytest.approx(waited_s)


def test_a_step_that_blocks_is_no_waiting() -> None:
    """The host waits for the device within the step; then it loads while the device has nothing to do."""
    device = Device()
    clock = DeviceClock(device.event)
    device.launch(1.0)
    device.event().synchronize()
    device.now_s = 1.0
    clock.ask()
    device.now_s += 0.25
    assert clock.waited_s() == pytest.approx(0.25)


def test_a_batch_that_was_not_asked_for_has_no_waiting() -> None:
    assert DeviceClock(Device().event).waited_s() == 0.0
