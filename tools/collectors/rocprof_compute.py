"""Reader of rocprof-compute and omniperf workload folders: pmc_perf.csv, level files, sysinfo, roofline."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import Manifest, sql_literal, write_table
from .csvfile import Staged, stage
from .longform import widen
from .merge import Merged, Pass, write_tables

if TYPE_CHECKING:
    import duckdb

FORMAT = "rocprof-compute"
TITLE = "rocprof-compute or omniperf workload folder (pmc_perf.csv)"
_LEVEL_FILE = re.compile(r"SQC?_\w*LEVEL\w*|SQC_\w+INFLIGHT_LEVEL")
_REPLAY_FILE = re.compile(r"pmc_perf_\d+")
_FACTS = {  # fact of analysis/gpus -> its names in sysinfo.csv, newest first
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


def detect(path: Path) -> bool:
    """Whether ``path`` is such a folder, or a file of one."""
    return _folder(path) is not None


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, Merged]:
    """Read the workload folder at ``path`` into tables under ``out``.

    Raises BadInput naming the file at fault. Files that are links out of the folder are left out with a warning.
    """
    folder = _folder(path)
    if folder is None:
        raise BadInput(f"{path.name} is no rocprof-compute workload", "it holds no pmc_perf.csv")
    notes: list[str] = []
    info = _sysinfo(folder, notes)
    facts = _facts(info, notes)
    passes = [_pass(con, f, out, main=i == 0) for i, f in enumerate(_pass_files(folder, notes))]
    channels, xcds = int(facts.get("total_l2_chan", 16)), int(facts.get("num_xcd", 1))
    merged = write_tables(con, passes, out, instances_per_xcd=max(1, channels // max(1, xcds)))
    _roofline(con, folder, info, out, notes)
    merged.warnings[:0] = notes
    device = info.get("gpu_model") or info.get("gpu_series")
    manifest = Manifest(
        name=_text(info.get("workload_name")) if _text(info.get("workload_name")) not in (None, "path") else folder.parent.name,
        format=FORMAT,
        vendor="amd",
        arch=info.get("gpu_arch") or info.get("gpu_soc") or None,
        device=_text(device),
        command=_text(info.get("command")),
        tool="rocprof-compute" if (info.get("version") or "1") >= "2" else "omniperf",
        tool_version=_text(info.get("rocm_version")),
        host=_text(info.get("hostname")),
        facts=facts,
    )
    return manifest, merged


def _folder(path: Path) -> Path | None:
    """The folder that holds pmc_perf.csv: ``path`` itself, its parent, or its only such sub-folder."""
    if path.is_file():
        return path.parent if path.name.startswith("pmc_perf") else None
    if _main_file(path):
        return path
    below = [p for p in sorted(path.glob("*")) if p.is_dir() and _main_file(p)] if path.is_dir() else []
    if len(below) > 1:
        raise BadInput(f"{path.name} holds {len(below)} workloads", ", ".join(p.name for p in below[:8]),
                       "Import them one by one")
    return below[0] if below else None


def _main_file(folder: Path) -> Path | None:
    for name in ("pmc_perf.csv", "pmc_perf.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    replays = sorted(folder.glob("pmc_perf_*.csv"))
    return replays[0] if replays else None


def _pass_files(folder: Path, notes: list[str]) -> list[Path]:
    """The main file first, then level files and the run without counters; links out of the folder left out."""
    main = _main_file(folder)
    assert main is not None
    files = [main]
    for file in sorted(folder.rglob("*.csv*")):
        stem = file.name.split(".")[0]
        replay = _REPLAY_FILE.fullmatch(stem) and not main.name.startswith("pmc_perf.csv") and file != main
        if _LEVEL_FILE.fullmatch(stem) or stem == "timestamps" or replay:
            files.append(file)
    inside = []
    for file in files:
        if file.resolve().is_relative_to(folder.resolve()):
            inside.append(file)
        elif file == main:
            raise BadInput(f"{file.name} is a link out of the workload folder", fix="Copy the file itself into the folder")
        else:
            notes.append(f"{file.name} is a link out of the workload folder and was left out.")
    return inside


def _pass(con: duckdb.DuckDBPyConnection, file: Path, out: Path, *, main: bool) -> Pass:
    name = "pmc_perf" if main else file.name.split(".")[0]
    staged = stage(con, file, out, name)
    if staged.header("counter_name"):
        staged = widen(con, staged)
    counters = {c: _stored_name(c, staged, main) for c in staged.counters()}
    instances = {c.header: c.instance for c in staged.columns if c.role == "instance"} if main else {}
    return Pass(staged, counters, instances)


def _stored_name(counter: str, staged: Staged, main: bool) -> str:
    """SQ_ACCUM_PREV_HIRES is the time integral of the level that names its file: ``<LEVEL>_ACCUM``, as rocpd calls it."""
    if counter == "SQ_ACCUM_PREV_HIRES" and not main:
        return f"{staged.name}_ACCUM"
    return counter if main else f"{counter}@{staged.name}"


def _sysinfo(folder: Path, notes: list[str]) -> dict[str, str]:
    file = folder / "sysinfo.csv"
    if not file.is_file():
        notes.append("sysinfo.csv is missing: the device is unknown, so peaks and some metrics are empty.")
        return {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            row = next(csv.DictReader(handle), None)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput("sysinfo.csv is damaged", str(error)) from error
    if not row:
        notes.append("sysinfo.csv is empty: the device is unknown, so peaks and some metrics are empty.")
        return {}
    return {k: v.strip() for k, v in row.items() if isinstance(k, str) and isinstance(v, str)}


def _facts(info: dict[str, str], notes: list[str]) -> dict[str, float]:
    """Device facts as positive numbers; what is absent, zero or text stays unknown and is told."""
    facts: dict[str, float] = {}
    for fact, names in _FACTS.items():
        text = next((info[n] for n in names if info.get(n)), "")
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if value > 0:
            facts[fact] = value
    facts.setdefault("num_xcd", 1.0)
    if info and "max_sclk" not in facts:
        notes.append("sysinfo.csv states no clock (max_sclk): peaks that depend on it are empty.")
    return facts


def _roofline(con: duckdb.DuckDBPyConnection, folder: Path, info: dict[str, str], out: Path, notes: list[str]) -> None:
    """roofline.csv, one row per device, into empirical ceilings (GB/s, GFLOP/s, GOP/s)."""
    file = folder / "roofline.csv"
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        return
    rows = []
    with file.open(encoding="utf-8-sig", newline="", errors="replace") as handle:
        for record in csv.DictReader(handle):
            rows += _ceilings(record, info.get("gpu_arch") or "")
    if not rows:
        notes.append("roofline.csv holds no usable ceiling and was left out.")
        return
    con.execute(
        "CREATE OR REPLACE TABLE ceiling_rows (device_uuid VARCHAR, device_id INT, gpu VARCHAR, ceiling VARCHAR, unit VARCHAR, "
        "value DOUBLE, low DOUBLE, high DOUBLE, kind VARCHAR, n INT, median DOUBLE, p05 DOUBLE, p95 DOUBLE, "
        "clock_mhz DOUBLE, method VARCHAR, measured_at VARCHAR)"
    )
    measured = sql_literal(_text(info.get("timestamp")) or "")
    con.executemany(
        "INSERT INTO ceiling_rows VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, 'empirical', NULL, NULL, NULL, NULL, NULL, "
        f"'roofline.csv of rocprof-compute', NULLIF({measured}, ''))",
        rows,
    )
    write_table(con, "FROM ceiling_rows", out / "ceilings.parquet")


def _ceilings(record: dict[str, str | None], gpu: str) -> list[list[object]]:
    """The ceilings of one device row; the known misspellings of headers (hbmBwHigh, MFMAFI8OpsLow) are accepted."""
    values: dict[str, float] = {}
    for key, text in record.items():
        try:
            values[(key or "").strip().lower().replace("mfmafi8", "mfmai8")] = float(text or "")
        except ValueError:
            continue
    device = int(values.get("device", 0))
    result: list[list[object]] = []
    for header in record:
        name = (header or "").strip()
        low = name.lower().replace("mfmafi8", "mfmai8")
        if low == "device" or low.endswith(("low", "high")) or low not in values:
            continue
        unit = "GB/s" if low.endswith("bw") else "GFLOP/s" if low.endswith("flops") else "GOP/s"
        result.append([device, gpu, _ceiling_name(low), unit, values[low], values.get(low + "low"), values.get(low + "high")])
    return result


def _ceiling_name(header: str) -> str:
    """``HBMBw`` -> hbm, ``L1Bw`` -> vl1d, ``FP32Flops`` -> valu_f32, ``MFMABF16Flops`` -> matrix_bf16."""
    stem = re.sub(r"(bw|flops|ops)$", "", header)
    levels = {"hbm": "hbm", "l2": "l2", "l1": "vl1d", "lds": "lds"}
    if header.endswith("bw"):
        return f"{levels.get(stem, stem)}.bw"
    kind = "matrix" if stem.startswith("mfma") else "valu"
    return f"{kind}.{stem.removeprefix('mfma').replace('fp', 'f')}"


def _text(value: str | None) -> str | None:
    """A text of sysinfo without control characters; None where it is empty."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", value).strip()[:500] or None if value else None
