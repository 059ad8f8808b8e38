"""Sampling sensors beside a program: a thread that only reads, a few times a second."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .sensors import Read, reader

_EVERY_S = 0.25
_MOST = 20_000
"""Samples kept of a step: beyond, every second one goes and the next ones come half as often."""
_PATIENCE_S = 1.0


@dataclass(frozen=True)
class Sensor:
    """A device whose sensors are to be read."""

    vendor: str
    pci: str | None
    uuid: str | None = None
    sysfs: str = "/sys"

    def open_reader(self) -> Read | None:
        """What reads it, or None."""
        return reader(self.vendor, self.pci, Path(self.sysfs))


class SensorSampler:
    """Samples while its with block runs; ``rows`` are those of the table clocks (launches/device_clocks.py)."""

    def __init__(self, sensors: list[Sensor], step: str, every_s: float = _EVERY_S, most: int = _MOST) -> None:
        self.rows: list[dict[str, Any]] = []
        self._sensors, self._step, self._every_s, self._most = sensors, step, every_s, most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="sensors")

    def __enter__(self) -> SensorSampler:
        if self._sensors:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._sensors:
            # A driver that hangs keeps the thread, and nobody else.
            self._thread.join(_PATIENCE_S)

    def _sample(self) -> None:
        reads = [(sensor, read) for sensor in self._sensors if (read := sensor.open_reader())]
        while reads and not self._over.is_set():
            for sensor, read in reads:
                self._keep(sensor, read)
            self._over.wait(self._every_s)

    def _keep(self, sensor: Sensor, read: Read) -> None:
        now = time.time_ns()
        values = asdict(read())
        cause_set = values.pop("held_back")
        causes = None if cause_set is None else ",".join(sorted(cause_set))
        row = {"t_ns": now, "step": self._step, "device_uuid": sensor.uuid, **values, "held_back": causes}
        if len(self.rows) >= self._most:
            self.rows = self.rows[::2]
            self._every_s *= 2
        self.rows.append(row)
