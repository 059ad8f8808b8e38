"""Clocks, power and heat of a GPU while the kernels of a benchmark run."""

from __future__ import annotations

import threading
from types import TracebackType

import pynvml

from ....analysis.launches.device_clocks import ClockState, summary
from ..machine.sensors import Read, SensorReading, answer_or_none, handle_at

_EVERY_S = 0.02


class BenchmarkClocks:
    """Samples while its with block runs; without a reader there are none."""

    def __init__(self, read: Read | None) -> None:
        self._read, self._over = read, threading.Event()
        self._readings: list[SensorReading] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> BenchmarkClocks:
        if self._read:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._read:
            self._thread.join(1.0)

    @property
    def state(self) -> ClockState | None:
        """What was sampled. All of it counts: a benchmark leaves no time to be idle, whatever a slow sensor says."""
        return summary(
            [
                {
                    "clock_mhz": one.clock_mhz,
                    "power_w": one.power_w,
                    "temperature_c": one.temperature_c,
                    "busy_pct": None,
                    "held_back": None if one.held_back is None else ",".join(sorted(one.held_back)),
                }
                for one in list(self._readings)
            ]
        )

    def _sample(self) -> None:
        assert self._read is not None
        while True:
            self._readings.append(self._read())
            if self._over.wait(_EVERY_S):
                return


def driver_and_partition(pci: str) -> tuple[str | None, str | None]:
    """The driver's version, and whether the NVIDIA GPU at a PCI address is split into instances (MIG)."""
    handle = handle_at(pci)
    mig = answer_or_none(pynvml.nvmlDeviceGetMigMode, handle) if handle else None
    partition = None if mig is None else "MIG enabled" if mig[0] else "MIG disabled"
    return answer_or_none(pynvml.nvmlSystemGetDriverVersion), partition
