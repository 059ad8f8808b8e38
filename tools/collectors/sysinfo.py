"""sysinfo.csv of omniperf and rocprof-compute, in the column names of every generation."""

from __future__ import annotations

import re
from pathlib import Path

from .files import head, is_inside, small_table
from .names import plain_text

FACTS = {  # fact of analysis/gpus -> its names in sysinfo.csv, newest first
    "cu_per_gpu": ("cu_per_gpu", "numCU"),
    "simd_per_cu": ("simd_per_cu", "numSIMD"),
    "se_per_gpu": ("se_per_gpu", "numSE"),
    "wave_size": ("wave_size", "waveSize"),
    "max_waves_per_cu": ("max_waves_per_cu", "maxWavesPerCU"),
    "max_sclk": ("max_sclk", "sclk"),
    "max_mclk": ("max_mclk", "mclk"),
    "total_l2_chan": ("total_l2_chan", "L2Banks"),
    "lds_banks_per_cu": ("lds_banks_per_cu", "LDSBanks"),
    "sqc_per_gpu": ("sqc_per_gpu", "numSQC"),
    "pipes_per_gpu": ("pipes_per_gpu", "numPipes"),
    "num_xcd": ("num_xcd",),
    "num_hbm_channels": ("num_hbm_channels", "num_memory_channels"),
}
_TEXTS = {  # field of the manifest -> its names in sysinfo.csv
    "name": ("workload_name",),
    "command": ("command",),
    "arch": ("gpu_arch", "gpu_soc"),
    "device": ("gpu_model", "gpu_series", "name"),
    "host": ("hostname", "host_name"),
    "tool_version": ("rocm_version", "host_rocmver"),
    "timestamp": ("timestamp", "date"),
    "version": ("version",),
}
_ARCH = re.compile(r"gfx[0-9a-f]{3,5}")
_CHIPLET_CHANNELS = 16
_HBM_BYTES_PER_CLOCK = 32
_WHOLE = 1e-6


def read_sysinfo(folder: Path, notes: list[str]) -> dict[str, str]:
    """The one row of sysinfo.csv; empty, with a note, where there is none."""
    file = folder / "sysinfo.csv"
    if not file.is_file() or not is_inside(file, folder):
        notes.append("sysinfo.csv is missing: the device is unknown, so peaks and some metrics are empty.")
        return {}
    rows = small_table(file)
    if not rows:
        notes.append("sysinfo.csv is empty: the device is unknown, so peaks and some metrics are empty.")
        return {}
    return rows[0]


def text_of(info: dict[str, str], field: str) -> str | None:
    """One text of sysinfo.csv under any of its names, safe to show; None where it is empty or says N/A."""
    found = next((plain_text(info[n], 500) for n in _TEXTS[field] if info.get(n)), "")
    return None if found.upper() in ("", "N/A", "NA", "NONE", "NAN") else found


def arch_of(info: dict[str, str]) -> str | None:
    """The GPU target without its feature flags; None where sysinfo.csv names none."""
    found = _ARCH.match(text_of(info, "arch") or "")
    return found[0] if found else None


def facts_of(info: dict[str, str], notes: list[str]) -> dict[str, float]:
    """Device facts as positive numbers; what is absent, zero or text stays unknown and is told."""
    facts: dict[str, float] = {}
    for fact, names in FACTS.items():
        value = _number(next((info[n] for n in names if info.get(n)), ""))
        if value > 0:
            facts[fact] = value
    if "num_xcd" not in facts:
        chiplets = (arch_of(info) or "").startswith(("gfx94", "gfx95"))
        facts["num_xcd"] = max(1.0, facts.get("total_l2_chan", 0) // _CHIPLET_CHANNELS) if chiplets else 1.0
    if "num_hbm_channels" not in facts and "max_mclk" in facts:
        # Early generations state the bandwidth (GB/s) instead: clock x 32 bytes x channels.
        bandwidth = _number(info.get("hbm_bw") or info.get("hbmBW") or "")
        channels = 1000 * bandwidth / (facts["max_mclk"] * _HBM_BYTES_PER_CLOCK)
        if channels >= 1 and abs(channels - round(channels)) < _WHOLE:
            facts["num_hbm_channels"] = float(round(channels))
    if info and "max_sclk" not in facts:
        notes.append("sysinfo.csv states no clock (max_sclk): peaks that depend on it are empty.")
    return facts


def read_options(folder: Path) -> dict[str, str]:
    """The plain options of profiling_config.yaml (``key: value`` at the left margin); lists and null are left out."""
    file = folder / "profiling_config.yaml"
    if not file.is_file() or not is_inside(file, folder):
        return {}
    text = head(file, 1 << 20).decode("utf-8", errors="replace")
    found = re.findall(r"^(\w+): *(\S.*)$", text, flags=re.MULTILINE)
    return {key: plain_text(value.strip("'\" ")) for key, value in found if value[0] not in "[{" and value != "null"}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 < value < 1e15 else 0.0
