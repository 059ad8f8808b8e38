"""Read the output of rocprof (v1, v2): counters per launch, and the rocminfo output next to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.problems import Problem
from ....analysis.catalogue.targets import find_target
from ...base.profile_files import head, is_inside, plain_or_packed
from ...base.untrusted_text import plain_text
from ..merging.contract import Connection, PassTable, all_rows, count_rows
from ..merging.wording import note, refusal
from ..parsing.csv_file import read_headers, stage
from ..parsing.sheet import LaunchSheet, classify, merge_xcds
from ..reader import Profile, ProfileFiles

_LIMIT = 4 << 20
_FACTS = {
    "Compute Unit": "cu_per_gpu",
    "SIMDs per CU": "simd_per_cu",
    "Shader Engines": "se_per_gpu",
    "Wavefront Size": "wave_size",
    "Max Waves Per CU": "max_waves_per_cu",
    "Max Clock Freq. (MHz)": "max_sclk",
}


@dataclass(frozen=True)
class RocminfoAgent:
    """One GPU as rocminfo describes it."""

    node: int
    arch: str | None
    device: str | None
    facts: dict[str, float]


def read_agents(path: Path) -> list[RocminfoAgent]:
    """Return the GPUs in a file with rocminfo's output, in order."""
    return parse_agents(head(path, _LIMIT).decode("utf-8", errors="replace"))


def parse_agents(text: str) -> list[RocminfoAgent]:
    """Return the GPUs in rocminfo's output, in order; colour codes and unknown lines are ignored."""
    lines = "\n".join(plain_text(line, 300) for line in text.splitlines())
    sections = re.split(r"^\*{3,}\nAgent \d+\n\*{3,}$", lines, flags=re.MULTILINE)[1:]
    return list(filter(None, map(_rocminfo_agent, sections)))


def agent_of(agents: list[RocminfoAgent], nodes: list[int]) -> RocminfoAgent | None:
    """Return the GPU that a profile ran on: the only kind of GPU, else the one whose node number the profile states.

    None if GPUs of several kinds match.
    """
    if len({(a.arch, a.facts.get("cu_per_gpu")) for a in agents}) == 1:
        return agents[0]
    matching_agents = [a for a in agents if a.node in nodes]
    return matching_agents[0] if len({a.arch for a in matching_agents}) == 1 else None


def _rocminfo_agent(section: str) -> RocminfoAgent | None:
    fields: dict[str, str] = {}
    for line in section.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            # The first occurrence counts: pools, ISAs and dimensions below repeat keys such as Name.
            fields.setdefault(key.strip(), value.strip())
    arch = re.match(r"gfx[0-9a-f]+", fields.get("Name", ""))
    if fields.get("Device Type") != "GPU" or arch is None:
        return None
    numbers = {fact: _number(fields.get(key, "")) for key, fact in _FACTS.items()}
    facts = {fact: number for fact, number in numbers.items() if number > 0}
    target = find_target(arch[0])
    per_xcd = target.die.compute_units if target and target.die else None
    if per_xcd and "cu_per_gpu" in facts and facts["cu_per_gpu"] % per_xcd.value == 0:
        facts["num_xcd"] = facts["cu_per_gpu"] / per_xcd.value
    return RocminfoAgent(int(_number(fields.get("Node", ""))), arch[0], fields.get("Marketing Name") or None, facts)


def _number(text: str) -> float:
    digits = re.match(r"\d{1,9}", text)
    return float(digits[0]) if digits else 0.0


_PASS_FOLDER = re.compile(r"timing|(?:pmc|pass)_(\d+)")
_MAIN = "results.csv"
_LOOKED_AT = 200


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with one, or with one per pass (timing, pmc_1, pass_1)."""
    return bool(_files(path))


def read(files: ProfileFiles) -> Profile:
    """Return the dispatches at ``files.path``; results.sysinfo.txt next to them states the device.

    Raises BadInput naming the faulty file.
    """
    path, con = files.path, files.con
    sources = files.or_itself(_files(path))
    if not sources:
        raise refusal("no_rocprof", path=path)
    sheets = [merge_xcds(con, stage(con, f, files.work, _pass_name(f, sources))) for f in sources]
    main, xcds = sheets[0], max(s.xcds for s in sheets)
    second = main.header("xcc") or any(c.header == "Kernel_Name" for c in main.columns)
    agent, warnings = _agent(con, sources[0], main)
    facts, notes = dict(agent.facts), []
    if xcds > 1:
        facts["num_xcd"] = float(xcds)
    if not main.headers_of("start", "duration"):
        notes.append(note("no_times"))
    if xcds > 1:
        notes.append(note("xcds.rocprof"))
    return Profile(
        name=_name(path, sources[0]),
        vendor="amd",
        arch=agent.arch,
        device=agent.device,
        tool="rocprofv2" if second else "rocprof",
        facts=facts,
        passes=[s.as_pass() for s in sheets],
        warnings=warnings,
        notes=notes,
    )


def read_beside(files: ProfileFiles) -> Profile | None:
    """Return the table of launches that rocprof v1 writes beside the trace ``files.path``; None if there is none."""
    trace = files.path
    table = plain_or_packed(trace.with_name(f"{trace.name.removesuffix('.gz').removesuffix('.json')}.csv"))
    if not table.is_file() or not is_inside(table, trace.parent) or not _holds_dispatches(table):
        return None
    return read(replace(files, path=table))


def with_sizes(con: Connection, kernels: str, table: Profile) -> tuple[str, list[Note]]:
    """Return SQL for ``kernels`` with the sizes and registers that ``table`` states for launches of the same times.

    ``kernels`` is a SELECT with start_ns, end_ns and these columns. The notes tell what the table has no row for, and
    that its counters are not read.
    """
    (stated,) = table.passes
    assert isinstance(stated, PassTable)
    sizes = ("grid", "workgroup_size", "vgpr", "lds_bytes")
    once = f"SELECT DISTINCT ON (start_ns, end_ns) start_ns, end_ns, {', '.join(sizes)} FROM {stated.launches}"
    picks = ", ".join(f"coalesce(k.{c}, t.{c}) AS {c}" for c in sizes)
    joined = f"({kernels}) k LEFT JOIN ({once}) t USING (start_ns, end_ns)"
    lacking = count_rows(con, f"{joined} WHERE t.grid IS NULL")
    notes = []
    if lacking:
        notes.append(note("left_out.sizes", launches=lacking, file=stated.source))
    if stated.counters:
        notes.append(note("left_out.counters", count=len(stated.counters), file=stated.source))
    return f"SELECT k.* REPLACE ({picks}) FROM {joined}", notes


def _files(path: Path) -> list[Path]:
    """Return the file of dispatches at ``path``, or one per pass folder; BadInput for a mix of several profiles."""
    if path.is_file():
        return [path] if _holds_dispatches(path) else []
    if not path.is_dir():
        return []
    tables = sorted(f for f in path.iterdir() if f.name.endswith((".csv", ".csv.gz")) and f.is_file())
    candidates = [f for f in tables[:_LOOKED_AT] if is_inside(f, path) and _holds_dispatches(f)]
    if path / _MAIN in candidates:
        return [path / _MAIN]
    if len(candidates) > 1:
        raise refusal("several_files", path=path, count=len(candidates), files=candidates[:8])
    if candidates:
        return candidates
    # The run without counters comes first, because its durations become those of the workload.
    folders = {
        int(m[1] or 0): p for p in path.iterdir() if (m := _PASS_FOLDER.fullmatch(p.name)) and is_inside(p, path)
    }
    return [f for _, p in sorted(folders.items()) if p.is_dir() for f in _files(p)]


def _holds_dispatches(file: Path) -> bool:
    try:
        headers = read_headers(file)
    except Problem:
        return False
    # A rocprofv3 trace has kernel names too, but also a column Kind and, for counters, one row per value.
    roles = {c.role for c in classify(headers)}
    return "kernel" in roles and "grid" in roles and "counter_name" not in roles and "Kind" not in headers


def _agent(con: Connection, file: Path, main: LaunchSheet) -> tuple[RocminfoAgent, list[Note]]:
    """Return the GPU according to the rocminfo output that rocprof v1 writes next to its results."""
    unknown = RocminfoAgent(0, None, None, {})
    beside = file.with_name(f"{file.name.removesuffix('.gz').removesuffix('.csv')}.sysinfo.txt")
    if not beside.is_file() or not is_inside(beside, file.parent):
        return unknown, []
    device, agents = main.header("device_id"), read_agents(beside)
    number = f"TRY_CAST(regexp_extract({device}, '(\\d+)', 1) AS INT)" if device else "0"
    nodes = all_rows(con, f"SELECT DISTINCT {number} FROM {main.relation([device] if device else [])}")
    agent = agent_of(agents, [node for (node,) in nodes])
    if agent is not None:
        return agent, []
    kinds = sorted({str(a.arch) for a in agents}) or ["none"]
    return unknown, [note("device.rocminfo", file=beside, kinds=kinds)]


def _pass_name(file: Path, files: list[Path]) -> str:
    """Return the folder of the pass; rocprofv2 creates its own folder (pmc_1) inside that of a run."""
    if len(files) == 1:
        return file.name.split(".")[0]
    outer = file.parent.parent.name
    return outer if _PASS_FOLDER.fullmatch(outer) else file.parent.name


def _name(path: Path, file: Path) -> str:
    """Return an informative name: that of the file, or of its folder if the file has rocprof's default name."""
    stem = file.name.removesuffix(".gz").removesuffix(".csv")
    if path.is_dir():
        return path.name
    return file.parent.name if re.fullmatch(r"results(_\d+)?|pmc_perf", stem) else stem
