"""Read clocks, power, temperature and throttling causes from NVML or from the files of the amdgpu driver."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from ....analysis.catalogue import files


@dataclass(frozen=True)
class SensorReading:
    """Current readings of a device in MHz, W, °C and %; None if not available.

    ``held_back`` contains causes from analysis/launches/device_clocks.py; it is empty if nothing limits the clock.
    """

    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    busy_pct: float | None = None
    held_back: frozenset[str] | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the readings by their columns in the table clocks (launches/device_clocks.py)."""
        causes = None if self.held_back is None else ",".join(sorted(self.held_back))
        return {**asdict(self), "held_back": causes}


Read = Callable[[], SensorReading]


def reader(vendor: str, pci: str | None, sysfs: Path = Path("/sys")) -> Read | None:
    """Return a function that reads the device at a PCI address, or None if it has no sensors. It never writes."""
    if not pci:
        return None
    if vendor == "nvidia":
        return _nvidia(pci)
    return _amd(sysfs / "bus/pci/devices" / pci.lower()) if vendor == "amd" else None


@cache
def _facts() -> dict[str, Any]:
    return files.load(Path(__file__).with_suffix(".toml"))


def _nvidia(pci: str) -> Read | None:
    handle = handle_at(pci)
    if handle is None:
        return None
    import pynvml

    def number(name: str, *which: int, unit: float = 1.0) -> float | None:
        value = answer_or_none(getattr(pynvml, name), handle, *which)
        return None if value is None else value / unit

    def read() -> SensorReading:
        reasons = answer_or_none(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        use = answer_or_none(pynvml.nvmlDeviceGetUtilizationRates, handle)
        return SensorReading(
            clock_mhz=number("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
            memory_clock_mhz=number("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
            power_w=number("nvmlDeviceGetPowerUsage", unit=1000),
            temperature_c=number("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
            busy_pct=None if use is None else float(use.gpu),
            held_back=None if reasons is None else _causes(reasons, "nvml"),
        )

    return read


@cache
def handle_at(pci: str) -> Any:
    """Return NVML's handle of the GPU at a PCI address; None without the library or without such a GPU."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        # NVML writes the domain with eight digits, the kernel with four.
        domain, _, bus_address = pci.partition(":")
        return pynvml.nvmlDeviceGetHandleByPciBusId(f"{domain:0>8}:{bus_address}")
    except pynvml.NVMLError:
        return None


def answer_or_none(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return NVML's result, or None if this GPU or this driver does not provide it."""
    import pynvml

    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _causes(bits: int, source: str) -> frozenset[str]:
    return frozenset(entry["cause"] for entry in _facts()[source] if bits & entry["bits"])


def _amd(device: Path) -> Read | None:
    """Return a reader for an AMD GPU.

    It reads hwmon: freq1_input and freq2_input (core, memory) in Hz, power1_* in µW, and temp2_input (hot spot; temp1
    if missing) in thousandths of a degree; also gpu_busy_percent, pp_dpm_sclk and gpu_metrics.
    """
    folder = next(iter(sorted((device / "hwmon").glob("hwmon*"))), None)
    metrics = _GpuMetrics(device / "gpu_metrics")
    if folder is None and not (device / "pp_dpm_sclk").exists():
        return None

    def first(*names: str, unit: float) -> float | None:
        values = (_number(folder / name, unit) for name in names) if folder else ()
        return next((value for value in values if value is not None), None)

    def read() -> SensorReading:
        clock = first("freq1_input", unit=1e6)
        return SensorReading(
            clock_mhz=_level(device / "pp_dpm_sclk") if clock is None else clock,
            memory_clock_mhz=first("freq2_input", unit=1e6) or _level(device / "pp_dpm_mclk"),
            power_w=first("power1_input", "power1_average", unit=1e6),
            temperature_c=first("temp2_input", "temp1_input", unit=1e3),
            busy_pct=_number(device / "gpu_busy_percent", 1.0),
            held_back=metrics.causes(),
        )

    return read


def _number(path: Path, unit: float) -> float | None:
    try:
        return int(path.read_text()) / unit
    except (OSError, ValueError):
        return None


def _level(path: Path) -> float | None:
    """Return the MHz of the marked line in a table such as ``1: 1700Mhz *``."""
    with suppress(OSError, ValueError):
        for line in path.read_text(errors="replace").splitlines():
            if line.rstrip().endswith("*"):
                return float(line.partition(":")[2].lower().partition("mhz")[0])
    return None


_RESIDENCIES = ("hardware", "power", "temperature", "temperature", "temperature")


class _GpuMetrics:
    """The file gpu_metrics; in newer revisions it shows what happened since the previous read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: tuple[int, ...] | None = None

    def causes(self) -> frozenset[str] | None:
        """Return what limits the clock, or did since the last call; None if this revision does not report it."""
        try:
            with self._path.open("rb") as handle:
                raw = handle.read(4096)
        except OSError:
            return None
        if len(raw) < 4:
            return None
        form, offset = _facts()["fields"].get(f"{raw[2]}.{raw[3]}", ("", 0))
        if not form or len(raw) < offset + struct.calcsize(form):
            return None
        values = struct.unpack_from(form, raw, offset)
        if form == "<5I":
            return self._since(values)
        (mask,) = values
        if mask == (1 << 8 * struct.calcsize(form)) - 1:
            # The driver sets all bits of fields that a chip does not report.
            return None
        return _causes(mask, "independent" if form == "<Q" else "chip")

    def _since(self, values: tuple[int, ...]) -> frozenset[str] | None:
        last, self._last = self._last, values
        if last is None:
            return None
        pairs = zip(_RESIDENCIES, last, values, strict=True)
        return frozenset(name for name, old, new in pairs if new > old and new != 0xFFFFFFFF)


_EVERY_S = 0.25
_MOST = 20_000
"""Maximum samples per step: beyond it, every second sample is dropped and the sampling rate is halved."""
_PATIENCE_S = 1.0


@dataclass(frozen=True)
class Sensor:
    """A device whose sensors can be read."""

    vendor: str
    pci: str | None
    uuid: str | None = None
    sysfs: str = "/sys"


class SensorSampler:
    """Samples in a thread while its with block runs; ``rows`` are rows of the table clocks."""

    def __init__(self, sensors: list[Sensor], step: str, every_s: float = _EVERY_S, most: int = _MOST) -> None:
        self.rows: list[dict[str, Any]] = []
        self._sensors, self._step, self._every_s, self._most = sensors, step, every_s, most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="sensors")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # If the driver hangs, only this thread is blocked.
        self._thread.join(_PATIENCE_S)

    def _sample(self) -> None:
        reads = [(s, read) for s in self._sensors if (read := reader(s.vendor, s.pci, Path(s.sysfs)))]
        while reads and not self._over.is_set():
            for sensor, read in reads:
                row = {"t_ns": time.time_ns(), "step": self._step, "device_uuid": sensor.uuid, **read().as_row()}
                if len(self.rows) >= self._most:
                    self.rows = self.rows[::2]
                    self._every_s *= 2
                self.rows.append(row)
            self._over.wait(self._every_s)
