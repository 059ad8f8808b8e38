"""Read a rocprof-compute workload folder: passes, system information and measured ceilings."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, LimitExceeded
from ....analysis.catalogue.targets import find_target
from ...base.profile_files import head, is_inside, plain_or_packed, small_table
from ...base.untrusted_text import decimal, plain_text
from ..merging.contract import Connection
from ..merging.wording import note, refusal
from ..parsing.module_data import module_data
from ..reader import Profile, ProfileFiles
from ..rocprofv3 import read as rocprofv3
from ..rocprofv3.agents import number_of
from .passes import files_of, operator_ranges, read_passes, recordings, replays, sample_records, workload_folder

_LIMIT = 1 << 20
_SHOWN = 200
_KEY = re.compile(r"(?P<key>\w+):(?: +(?P<value>\S.*))?")
_NOTHING = ("", "null", "[]", "{}", "false", "~")
Options = dict[str, str]
"""Option -> its value as text, with the items of a list separated by commas. Unset options are omitted."""


def read_options(folder: Path) -> Options:
    """Return the options in profiling_config.yaml: keys without indentation with a plain value or a list of these.

    The profiler writes nothing else there, so this small strict parser replaces a complete YAML parser.
    """
    file = folder / "profiling_config.yaml"
    if not file.is_file() or not is_inside(file, folder):
        return {}
    options = {}
    key = ""
    for line in head(file, _LIMIT).decode("utf-8", errors="replace").splitlines():
        if match := _KEY.fullmatch(line.rstrip()):
            key = match["key"]
            options[key] = _plain(match["value"] or "")
        elif key and line.startswith(("- ", "  ")):
            item = _plain(line.removeprefix("- "))
            separator = ", " if line.startswith("- ") else " "
            options[key] = plain_text(f"{options[key]}{separator}{item}" if options[key] else item, _SHOWN)
    return {key: value for key, value in options.items() if value}


def option_notes(options: Options) -> list[Note]:
    """Return notes on what the options mean for the reader of the profile."""
    notes = []
    if filters := [key for key in ("kernel", "dispatch") if options.get(key)]:
        notes.append(note("filtered.options", filters=" and ".join(f"{key} ({options[key]})" for key in filters)))
    if blocks := options.get("filter_blocks") or options.get("set_selected"):
        notes.append(note("some_blocks", blocks=blocks))
    if options.get("attach_pid"):
        notes.append(note("attached"))
    return notes


def _plain(value: str) -> str:
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return "" if text in _NOTHING else plain_text(text, _SHOWN)


_ARCH = re.compile(r"gfx[0-9a-f]{3,5}")
_HBM_BYTES_PER_CLOCK = 32
_WHOLE = 1e-6


def read_sysinfo(folder: Path) -> tuple[dict[str, str], list[Note]]:
    """Return the one row of sysinfo.csv; empty, with a warning, if there is none."""
    file = plain_or_packed(folder / "sysinfo.csv")
    if not file.is_file() or not is_inside(file, folder):
        return {}, [note("device.sysinfo", state="missing")]
    rows = small_table(file)
    return (rows[0], []) if rows else ({}, [note("device.sysinfo", state="empty")])


def text_of(info: dict[str, str], field: str) -> str | None:
    """Return one text of sysinfo.csv under any of its names, safe to show; None if it is empty or N/A."""
    text = next(
        (plain_text(info[n], 500) for n in module_data(__file__, "sysinfo.toml")["texts"][field] if info.get(n)), ""
    )
    return None if text.upper() in ("", "N/A", "NA", "NONE", "NAN") else text


def arch_of(info: dict[str, str]) -> str | None:
    """Return the GPU target without its feature flags; None if sysinfo.csv states none."""
    match = _ARCH.match(text_of(info, "arch") or "")
    return match[0] if match else None


def facts_of(info: dict[str, str]) -> tuple[dict[str, float], list[Note]]:
    """Return device facts as positive numbers, with notes; absent, zero or non-numeric facts are unknown."""
    facts = {}
    for fact, names in module_data(__file__, "sysinfo.toml")["facts"].items():
        value = number_of(next((info[n] for n in names if info.get(n)), ""))
        if value > 0:
            facts[fact] = value
    if "num_xcd" not in facts:
        target = find_target(arch_of(info))
        channels = target.die.l2_channels.value if target and target.die and target.chiplets else None
        facts["num_xcd"] = max(1.0, facts.get("total_l2_chan", 0) // channels) if channels else 1.0
    if "num_hbm_channels" not in facts and "max_mclk" in facts:
        # Early versions state the bandwidth (GB/s) instead: clock x 32 bytes x channels.
        bandwidth = number_of(info.get("hbm_bw") or info.get("hbmBW") or "")
        channels = 1000 * bandwidth / (facts["max_mclk"] * _HBM_BYTES_PER_CLOCK)
        if channels >= 1 and abs(channels - round(channels)) < _WHOLE:
            facts["num_hbm_channels"] = float(round(channels))
    if not info or "max_sclk" in facts:
        return facts, []
    return facts, [note("no_clock")]


_DEVICES = 64


def stage_ceilings(
    con: Connection, folder: Path, gpu: str, measured_at: str | None
) -> tuple[dict[str, str], list[Note]]:
    """Return the table ceilings from roofline.csv, one row per device (GB/s, GFLOP/s, GOP/s), if any; and warnings."""
    file = plain_or_packed(folder / "roofline.csv")
    if not file.is_file():
        return {}, []
    if not is_inside(file, folder):
        return {}, [note("left_out.link_of_ceilings")]
    rows = [row for record in small_table(file)[:_DEVICES] for row in ceilings(record, gpu)]
    if not rows:
        return {}, [note("left_out.ceilings")]
    con.execute(
        "CREATE OR REPLACE TABLE ceiling_rows (device_uuid VARCHAR, device_id INT, gpu VARCHAR, ceiling VARCHAR, "
        "unit VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE, kind VARCHAR, n INT, median DOUBLE, p05 DOUBLE, "
        "p95 DOUBLE, clock_mhz DOUBLE, method VARCHAR, measured_at VARCHAR)"
    )
    con.executemany(
        "INSERT INTO ceiling_rows VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, 'empirical', NULL, NULL, NULL, NULL, NULL, "
        "'roofline.csv of rocprof-compute', ?)",
        [[*row, measured_at] for row in rows],
    )
    return {"ceilings": "FROM ceiling_rows"}, []


def ceilings(record: dict[str, str], gpu: str) -> list[list[object]]:
    """Return the ceilings of one device row; known misspellings of headers (hbmBwHigh, MFMAFI8OpsLow) are accepted."""
    values = {
        key.strip().lower().replace("mfmafi8", "mfmai8"): value
        for key, text in record.items()
        if (value := decimal(text)) is not None and math.isfinite(value)
    }
    device = int(min(max(values.get("device", 0), 0), _DEVICES))
    result = []
    for name, value in values.items():
        if not name.endswith(("bw", "flops", "ops")) or value <= 0:
            continue
        unit = "GB/s" if name.endswith("bw") else "GFLOP/s" if name.endswith("flops") else "GOP/s"
        low, high = values.get(name + "low"), values.get(name + "high")
        result.append([device, gpu, ceiling_name(name), unit, value, low, high])
    return result


def ceiling_name(header: str) -> str:
    """Convert ``hbmbw`` to hbm.bw, ``l1bw`` to vl1d.bw, ``fp32flops`` to valu.f32, ``mfmabf16flops`` to matrix.bf16."""
    stem = re.sub(r"(bw|flops|ops)$", "", header)
    levels = {"hbm": "hbm", "l2": "l2", "l1": "vl1d", "lds": "lds"}
    if header.endswith("bw"):
        return f"{levels.get(stem, stem)}.bw"
    kind = "matrix" if stem.startswith("mfma") else "valu"
    return f"{kind}.{stem.removeprefix('mfma').replace('fp', 'f')}"


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a folder, the parent of one, or a file in one."""
    return (folder := workload_folder(path)) is not None and bool(replays(folder) or recordings(folder))


def read(files: ProfileFiles) -> Profile:
    """Return the workload folder at ``files.path``.

    Raises BadInput naming the faulty file. Files that link outside the folder are skipped with a warning.
    """
    folder = workload_folder(files.path)
    if folder is None or not (replays(folder) or recordings(folder)):
        raise refusal("no_workload", path=files.path)
    (info, no_device), options = read_sysinfo(folder), read_options(folder)
    if replays(folder):
        profile = _read_counters(files, folder)
    else:  # databases that were kept, or the record of PC sampling
        sources = recordings(folder)
        profile = rocprofv3.read(replace(files, path=folder if len(sources) > 1 else sources[0]))
    if info and (profile.hotspots or profile.sampled):  # the option has a value without any samples too
        info[f"pc_sampling_{options.get('pc_sampling_method')}"] = options.get("pc_sampling_interval", "")
    arch, (facts, no_clock) = arch_of(info), facts_of(info)
    tables, no_ceilings = stage_ceilings(files.con, folder, arch or "", text_of(info, "timestamp"))
    name = text_of(info, "name")
    # A folder that states no name is named by its path: rocprof-compute writes workloads/NAME/MODEL.
    name_of_path = f"{folder.parent.name}/{folder.name}".lstrip("/")
    return replace(
        profile,
        name=name if name not in (None, "path") else options.get("name") or name_of_path,
        arch=arch,
        device=text_of(info, "device"),
        command=text_of(info, "command"),
        tool="rocprof-compute" if options or (text_of(info, "version") or "1") >= "2" else "omniperf",
        tool_version=text_of(info, "tool_version"),
        host=text_of(info, "host"),
        rank=None,
        facts={**profile.facts, **facts},
        multiplexed=options.get("iteration_multiplexing") or profile.multiplexed,
        tables={**profile.tables, **tables},
        warnings=[*no_device, *no_clock, *no_ceilings, *profile.warnings],
        notes=[*profile.notes, *option_notes(options)],
    )


def _read_counters(files: ProfileFiles, folder: Path) -> Profile:
    """Return the counters of the folder's CSV files, with the samples that a separate run collected, if any."""
    sources, left_out = files_of(folder)
    main, *others = read_passes(files.con, sources, files.work)
    operators = operator_ranges(files, folder, main)
    sampled = None
    for number, file in enumerate(sample_records(folder)):
        if number:
            left_out.append(note("left_out.process", file=file))
            continue
        work = files.work / "samples"
        work.mkdir()
        try:
            sampled = rocprofv3.read(ProfileFiles(file, files.con, work, files.code))
        except (BadInput, LimitExceeded) as problem:
            left_out.append(note("left_out.samples", problem=problem))
    return Profile(
        vendor="amd",
        passes=[replace(main, more_columns=operators.of_launches), *others],
        tables={"ranges": operators.table} if operators.table else {},
        sampled=sampled,
        warnings=left_out,
        notes=list(operators.notes),
    )
