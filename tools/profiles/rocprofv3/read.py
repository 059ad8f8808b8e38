"""Read the output of rocprofv3 into the tables of a workload."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal, sql_path
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, LimitExceeded
from ....analysis.base.text import count_text
from ....analysis.store.store import Manifest
from ...base import size_limits
from ...base.profile_files import WORK
from ..merging.contract import LAUNCH, RESERVED, CounterRows, PassTable
from ..merging.counter_multiplexing import fill_rate_notes, incomplete_kernel_notes, is_multiplexed
from ..merging.merge import ACCUMULATE, MergedProfile, as_replays, without_launches, write_tables
from ..merging.xcd_instances import channels_per_xcd
from ..parsing.csv_file import usable_names
from ..parsing.sheet import SheetColumn
from ..rocprof import stats as rocprof_stats
from .activity import is_active, launches, write_activity, write_launching
from .agents import Rocprofv3Agent, find_profiled_gpu, read_agents
from .att import ThreadTrace, TracedLaunch, find_traces, write_traces
from .csv import read_csv, warn_of_cut_files
from .grouping import assign_processes, by_pass, main_first
from .hotspots import SampledProfile, write_samples
from .json import read_json
from .outputs import (
    ACTIVITY_KINDS,
    CSV_KINDS,
    LAUNCH_KINDS,
    SAMPLE_KINDS,
    Output,
    find_outputs,
    holds_output,
    trace_files,
)
from .recording import ProcessRecording, keep_one_target, settle_ranks_of_recordings
from .rocpd import read_rocpd

if TYPE_CHECKING:
    import duckdb


_KIND_WORDS = {"rocpd": "rocpd databases", "json": "JSON files", "csv": "CSV files"}
_LISTED = 8
_SKIPPED = " It was skipped."
"""What a warning about a damaged file adds to the problem."""
_IN_TURNS = "launch"
"""Value of ``multiplexed`` in the manifest if groups of counters take turns between launches."""


@dataclass(frozen=True)
class CollectedRecordings:
    """The recordings of a profile, warnings about its files, and other notes."""

    recordings: list[ProcessRecording]
    warnings: list[Note]
    notes: list[Note]


def collect_recordings(con: duckdb.DuckDBPyConnection, outputs: list[Output], work: Path) -> CollectedRecordings:
    """Return the recordings of all outputs, each from the best of its readable files."""
    recordings: list[ProcessRecording] = []
    warnings: list[Note] = []
    notes: list[Note] = []
    unread: Counter[str] = Counter()
    idle: list[str] = []
    for number, output in enumerate(outputs):
        kinds = list(
            dict.fromkeys(
                "csv" if k in CSV_KINDS else k
                for k in (*LAUNCH_KINDS, *ACTIVITY_KINDS, *SAMPLE_KINDS)
                if k in output.files
            )
        )
        for place, kind in enumerate(kinds):
            try:
                if kind == "csv":
                    warnings += warn_of_cut_files(output)
                items, doubts = _read(con, output, kind, work / f"file_{number}_{kind}")
            except (BadInput, LimitExceeded) as problem:
                warnings.append(Note("damaged", f"{problem.text}{_SKIPPED}"))
                continue
            doubts += _add_samples_of_other_files(
                con, output, items, kinds[place + 1 :], work / f"file_{number}_samples"
            )
            recordings += items
            warnings += doubts
            unread.update(kinds[place + 1 :])
            if not any(i.rows or i.activity or i.sampled for i in items):
                idle.append(items[0].source.name)
            break
    recordings, copies = _without_copies(recordings)
    if unread and recordings:
        best = ", ".join(sorted({_KIND_WORDS[r.kind] for r in recordings}))
        others = " and ".join(_KIND_WORDS[k] for k in unread)
        notes.append(Note("best_file", f"Read from {best}; {others} of the same runs were not needed."))
    if idle and any(r.rows for r in recordings):
        listed = ", ".join(idle[:_LISTED]) + (" ..." if len(idle) > _LISTED else "")
        notes.append(Note("idle", f"{count_text(len(idle), 'process')} launched no kernel: {listed}."))
    return CollectedRecordings(recordings, warnings + copies, notes)


def _add_samples_of_other_files(
    con: duckdb.DuckDBPyConnection, output: Output, items: list[ProcessRecording], others: list[str], work: Path
) -> list[Note]:
    """Add program counter samples from the next best file that has some, because a database may lack them."""
    for kind in others if not any(i.sampled for i in items) else ():
        if kind == "csv" and not any(k in output.files for k in SAMPLE_KINDS):
            continue
        try:
            other_recordings, doubts = _read(con, output, kind, work.with_name(f"{work.name}_{kind}"))
        except (BadInput, LimitExceeded) as problem:
            return [Note("left_out", f"{problem.text} Its samples were skipped.")]
        with_samples = [i for i in other_recordings if i.sampled]
        for one in with_samples:
            same = [i for i in items if i.pid == one.pid] or items if len(items) == 1 else []
            for item in same[:1]:
                item.sampled = one.sampled
        if with_samples:
            return [d for d in doubts if d.code == "damaged"]
    return []


def _read(
    con: duckdb.DuckDBPyConnection, output: Output, kind: str, work: Path
) -> tuple[list[ProcessRecording], list[Note]]:
    if kind == "csv":
        return read_csv(con, output, work)
    return (read_rocpd if kind == "rocpd" else read_json)(con, output.files[kind], output, work)


def _without_copies(recordings: list[ProcessRecording]) -> tuple[list[ProcessRecording], list[Note]]:
    """Remove copies of a database, recognised by session, process and times wherever the file is."""
    seen: dict[tuple[object, ...], str] = {}
    unique, warnings = [], []
    for item in recordings:
        key = (item.session, item.pid, item.span, item.rows, item.counters)
        if item.session and key in seen:
            text = f"{item.source.name} is a copy of {seen[key]}, so it was skipped."
            warnings.append(Note("copy", text))
        else:
            seen[key] = item.source.name
            unique.append(item)
    return unique, warnings


_NAME = re.compile(r"[A-Za-z]\w{0,119}(\[\d{1,4}\])?", re.ASCII)
_DURATION = (
    "CASE WHEN start_ns >= 0 AND end_ns > start_ns THEN end_ns - start_ns "
    "WHEN start_ns < 0 AND end_ns > start_ns THEN end_ns::DOUBLE - start_ns END::DOUBLE"
)


def as_pass(name: str, recordings: list[ProcessRecording], processes: list[int]) -> PassTable:
    """Return the launches of ``recordings`` with their counters; ``processes`` numbers them within the workload."""
    first = recordings[0].source
    counters, warnings = _usable_counters(first, sorted({c for r in recordings for c in r.counters}))
    places, values, rows = [], [], 0
    for recording, process in zip(recordings, processes, strict=True):
        low, high = recording.keys
        places.append(f"({sql_literal(recording.launches.name)}, {low}, {high}, {low - rows}, {process})")
        once = recording.kind == "csv"
        values.append(CounterRows(tuple(recording.values), recording.keys, rows, frozenset(recording.counters), once))
        rows += recording.rows
    own = {
        "row": "key - shift",
        "process": "p.process",
        "device_id": "device",
        "duration_ns": _DURATION,
        "cluster": "NULL::INT",
    }
    picks = ", ".join(f"{own.get(column, f'l.{column}')} AS {column}" for column in LAUNCH)
    files = ", ".join(sql_path(f) for f in dict.fromkeys(r.launches for r in recordings))
    launches = (
        f"(SELECT {picks} FROM read_parquet([{files}], hive_partitioning = false, filename = true) l "
        f"JOIN (VALUES {', '.join(places)}) p(file, low, high, shift, process) ON parse_filename(filename) = file "
        "AND key BETWEEN low AND high)"
    )
    columns = [SheetColumn(c, "instance" if c.endswith("]") else "counter") for c in counters]
    return PassTable(
        name,
        first,
        rows,
        launches,
        frozenset(LAUNCH),
        [c.header for c in columns if c.role == "counter"],
        {c.header: c.instance for c in columns if c.role == "instance"},
        values=values,
        warnings=warnings,
        places={number: r.place for number, r in zip(processes, recordings, strict=True)},
    )


def _usable_counters(source: Path, names: list[str]) -> tuple[list[str], list[Note]]:
    """Return counters in the order of columns: an accumulation directly follows the only level it can belong to."""
    if len(names) > size_limits.MOST_COLUMNS:
        raise BadInput(f"{source.name} names more than {size_limits.MOST_COLUMNS} counters", "no GPU has that many")
    counters, warnings = usable_names(
        source, names, lambda name: bool(_NAME.fullmatch(name)) and name.casefold() not in RESERVED
    )
    levels = [c for c in counters if "LEVEL" in c and not c.endswith("_ACCUM")]
    if ACCUMULATE in counters and len(levels) == 1:
        counters.remove(ACCUMULATE)
        counters.insert(counters.index(levels[0]) + 1, ACCUMULATE)
    return counters, warnings


_PROCESSES_LISTED = 8


def remarks(
    main: list[ProcessRecording], used: list[ProcessRecording], merged: MergedProfile, facts: dict[str, float]
) -> list[Note]:
    """Return notes on how to interpret this profile; none of them reports a fault."""
    notes = []
    if len(main) > 1 and not any(r.rank is not None for r in main):
        listed = "; ".join(f"{_process(r)}: {r.rows}" for r in main[:_PROCESSES_LISTED])
        more = " ..." if len(main) > _PROCESSES_LISTED else ""
        notes.append(
            Note("processes", f"Launches of {count_text(len(main), 'process')}, distinguished by pid: {listed}{more}.")
        )
    if any(r.lds_is_static for r in main):
        text = "lds_bytes is static LDS only, as in rocprofv3's CSV files; rocpd and JSON include dynamic LDS."
        notes.append(Note("static_lds", text))
    if merged.counters and facts.get("num_xcd", 1) > 1:
        text = "Counters are sums over the XCDs of a dispatch, so cycles are counted once per XCD."
        notes.append(Note("xcds", text))
    if not any(r.agents for r in used):
        text = "The files do not describe the GPU: rocprofv3 writes *_agent_info.csv next to its CSV files."
        notes.append(Note("device", text))
    return notes


def _process(recording: ProcessRecording) -> str:
    parts = [recording.host, None if recording.rank is None else f"rank {recording.rank}", f"pid {recording.pid}"]
    return " ".join(p for p in parts if p)


def no_launches_problem(path: Path, outputs: list[Output], warnings: list[Note]) -> BadInput:
    """Return the error for missing launches: damaged files, or a run without kernels or without their trace."""
    damaged = [w.text.removesuffix(_SKIPPED) for w in warnings if w.code == "damaged"]
    if damaged:
        return BadInput(f"No file of {path.name} could be read", " ".join(damaged[:4]))
    if not outputs:
        return BadInput(f"{path.name} is not an output of rocprofv3", "it contains no file that rocprofv3 writes")
    kinds = sorted({f.name for o in outputs for f in o.files.values()})
    return BadInput(
        f"{path.name} contains no kernel launches",
        f"it contains {', '.join(kinds[:6])}{' ...' if len(kinds) > 6 else ''}: traces of API calls, or a program "
        "that launched no kernel",
        "Profile with --kernel-trace, --sys-trace or with counters",
    )


def detect(path: Path) -> bool:
    """Return whether ``path`` is a file of rocprofv3, or a folder with one at any depth."""
    return holds_output(path)


def read(
    con: duckdb.DuckDBPyConnection, path: Path, out: Path, code: Sequence[Path] = ()
) -> tuple[Manifest, MergedProfile]:
    """Read the profile at ``path`` into tables under ``out``; ``code`` are files that may contain the code of samples.

    Data of one process in several files is read once: from the database, else JSON, else CSV. The main pass is the one
    without counters, else the one with most launches. A damaged file is named in the warnings; raises BadInput if
    nothing else remains.
    """
    outputs, warnings = find_outputs(path)
    collected = collect_recordings(con, outputs, out / WORK)
    warnings += collected.warnings + settle_ranks_of_recordings(path, collected.recordings)
    recordings, others_left = keep_one_target(collected.recordings)
    warnings += others_left
    idle = [r for r in recordings if not r.rows and (r.activity or r.ranges or r.sampled)]
    traces = find_traces(trace_files(path), path)
    if not any(r.rows for r in recordings) and not idle and not traces:
        statistics = [o.files["stats"] for o in outputs if "stats" in o.files]
        if not statistics:
            raise no_launches_problem(path, outputs, warnings)
        manifest, merged = _statistics(con, path, outputs, statistics, out)
        merged.warnings[:0] = warnings
        return manifest, merged
    groups, doubts = by_pass([r for r in recordings if r.rows])
    passes = _order_passes(groups)
    main = passes[0].recordings if passes else []
    used = [r for one in passes for r in one.recordings] or idle
    agent, other_agents = _agent(used)
    warnings += [*doubts, *other_agents]
    facts, arch = (dict(agent.facts), agent.arch) if agent else ({}, None)
    if passes:
        merged = _merge(con, passes, out, facts, arch)
    else:
        merged = without_launches(con, idle[0].source if idle else traces[0].source, out)
    merged.warnings[:0] = warnings
    merged.notes[:0] = collected.notes
    beside = [r for r in idle if not main or r.label == main[0].label]
    merged.places = [r.place for r in (*main, *beside)]
    merged.notes += remarks(main, used, merged, facts)
    if is_active([*main, *idle]):
        write_activity(con, out, main, idle, merged)
    others: list[tuple[ProcessRecording, int | None]] = [(r, None) for r in idle]
    others += [pair for one in passes[1:] for pair in zip(one.recordings, one.processes, strict=True)]
    write_samples(con, out, SampledProfile(path if path.is_dir() else path.parent, main, others, arch, code), merged)
    if traces:
        _add_traces(con, out, main, traces, merged)
    in_turns = bool(passes) and is_multiplexed(con, out)
    if in_turns:
        merged.warnings += incomplete_kernel_notes(con, out)
        merged.notes += fill_rate_notes(con, out)
    hosts, ranks = {r.host for r in used}, {r.rank for r in used}
    return Manifest(
        name=_name(path, outputs) if outputs else path.name if path.is_dir() else path.parent.name,
        format="rocprofv3",
        vendor="amd",
        arch=arch,
        device=agent.device if agent else None,
        command=next((r.command for r in used if r.command), None),
        tool=used[0].tool if used else "rocprofv3",
        host=hosts.pop() if len(hosts) == 1 else None,
        rank=ranks.pop() if len(ranks) == 1 else None,
        multiplexed=_IN_TURNS if in_turns else None,
        facts=facts,
    ), merged


@dataclass(frozen=True)
class _AssignedPass:
    """The recordings of one pass, each with the number of the process of the main pass that it repeats."""

    name: str
    recordings: list[ProcessRecording]
    processes: list[int]


def _order_passes(groups: dict[str, list[ProcessRecording]]) -> list[_AssignedPass]:
    """Return the passes, the main one first."""
    if not groups:
        return []
    first, *others = main_first(groups)
    main = groups[first]
    repeats = [_AssignedPass(name, groups[name], assign_processes(main, groups[name])) for name in others]
    return [_AssignedPass(first, main, list(range(len(main)))), *repeats]


def _merge(
    con: duckdb.DuckDBPyConnection, passes: list[_AssignedPass], out: Path, facts: dict[str, float], arch: str | None
) -> MergedProfile:
    """Write launches and counters of all passes, and the iteration of launches of the main pass."""
    tables = [as_pass(one.name, one.recordings, one.processes) for one in passes]
    instances = [number for table in tables for _, number in table.instances.values()]
    per_xcd = channels_per_xcd(facts, arch, instances)
    merged = write_tables(con, as_replays(tables), out, instances_per_xcd=per_xcd)
    write_launching(con, out, passes[0].recordings)
    return merged


def _add_traces(
    con: duckdb.DuckDBPyConnection,
    out: Path,
    main: list[ProcessRecording],
    traces: list[ThreadTrace],
    merged: MergedProfile,
) -> None:
    """Write decoded thread traces; BadInput if there is nothing else and none can be read."""
    if (out / "samples.parquet").exists():
        merged.notes.append(
            Note("thread_trace", "Thread traces were skipped, because there are samples too: import them separately.")
        )
        return
    launches_by_number: dict[int, TracedLaunch] = {}
    if len(main) == 1:
        rows = con.execute(f"SELECT dispatch_id, row, kernel FROM ({launches(main)}) WHERE dispatch_id IS NOT NULL")
        launches_by_number = {
            number: TracedLaunch(*launch) for number, *launch in rows.fetchmany(size_limits.EMPTY_CELLS)
        }
    write_traces(con, out, traces, merged, launches_by_number)
    if not main and not (out / "instructions.parquet").exists():
        raise BadInput("No thread trace could be read", " ".join(w.text for w in merged.warnings[:4]))


def _agent(recordings: list[ProcessRecording]) -> tuple[Rocprofv3Agent | None, list[Note]]:
    """Return the GPU of all recordings; None, with a warning, if several kinds match; BadInput for several targets."""
    gpus = [find_profiled_gpu(r.agents, r.devices) for r in recordings]
    agents = [agent for agent, _ in gpus if agent]
    if len(kinds := {a.arch or "unknown" for a in agents}) > 1:
        raise BadInput("The profile is from different GPUs", ", ".join(sorted(kinds)), "Import its parts separately")
    warnings = list(dict.fromkeys(w for _, doubts in gpus for w in doubts))
    if warnings or not agents:
        return None, warnings
    if len({a.model for a in agents}) > 1:
        text = "agents: The processes ran on GPUs of different kinds, so the device is unknown."
        return None, [Note("agents", text)]
    return agents[0], []


def _statistics(
    con: duckdb.DuckDBPyConnection, path: Path, outputs: list[Output], files: list[Path], out: Path
) -> tuple[Manifest, MergedProfile]:
    """Read kernel statistics, for profiles without a file of single launches."""
    agent_file = next((o.files["agents"] for o in outputs if "agents" in o.files), None)
    agent, doubts = find_profiled_gpu(read_agents(agent_file), ()) if agent_file else (None, [])
    manifest, merged = rocprof_stats.read_files(con, files, out)
    manifest.format = manifest.tool = "rocprofv3"
    if path.is_dir():
        manifest.name = path.name
    if agent:
        manifest.arch, manifest.device, manifest.facts = agent.arch, agent.device, dict(agent.facts)
    merged.warnings[:0] = doubts
    return manifest, merged


def _name(path: Path, outputs: list[Output]) -> str:
    """Return an informative name: that of the folder, or of the file without what rocprofv3 appends."""
    return path.name if path.is_dir() else outputs[0].stem or path.parent.name
