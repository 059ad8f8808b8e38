"""Read the output of rocprofv3."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, LimitExceeded
from ...base import size_limits
from ..merging.contract import LAUNCH, RESERVED, Connection, CounterRows, PassTable
from ..merging.merge import ACCUMULATE
from ..merging.ranks import only_value
from ..merging.wording import note, refusal
from ..parsing.csv_file import usable_names
from ..parsing.sheet import SheetColumn
from ..reader import DETECT, Profile, ProfileFiles
from ..rocprof import stats as rocprof_stats
from ..samples.sample_tables import HotspotQueries
from .activity import counter_samples, launches, more_columns, timeline_of
from .agents import UNKNOWN, Rocprofv3Agent, find_profiled_gpu, read_agents
from .att import ThreadTrace, TracedLaunch, find_traces, trace_queries
from .csv import read_csv, warn_of_cut_files
from .hotspots import SampledProfile, sample_queries
from .json import read_json
from .outputs import (
    ACTIVITY_KINDS,
    CSV_KINDS,
    LAUNCH_KINDS,
    SAMPLE_KINDS,
    Output,
    find_outputs,
    holds_output,
    raw_traces,
    trace_files,
)
from .recording import (
    ProcessRecording,
    assign_processes,
    by_pass,
    keep_one_target,
    settle_ranks_of_recordings,
)
from .rocpd import read_rocpd
from .sampled_stacks import sampled_stacks

_SKIPPED = " It was skipped."
"""What a warning about a damaged file adds to the problem."""
_KIND_WORDS = {"rocpd": "rocpd databases", "json": "JSON files", "csv": "CSV files"}
HotspotReader = Callable[[str], HotspotQueries]


def collect_recordings(
    con: Connection, outputs: list[Output], work: Path
) -> tuple[list[ProcessRecording], list[Note], list[Note]]:
    """Return the recordings of all outputs, each from the best of its readable files; warnings; and other notes."""
    recordings: list[ProcessRecording] = []
    warnings: list[Note] = []
    notes: list[Note] = []
    unread: Counter[str] = Counter()
    idle: list[Path] = []
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
                warnings.append(note("damaged.one", problem=problem))
                continue
            doubts += _add_samples_of_other_files(
                con, output, items, kinds[place + 1 :], work / f"file_{number}_samples"
            )
            recordings += items
            warnings += doubts
            unread.update(kinds[place + 1 :])
            if not any(i.rows or i.activity or i.sampled for i in items):
                idle.append(items[0].source)
            break
    recordings, copies = _without_copies(recordings)
    if unread and recordings:
        best = sorted({_KIND_WORDS[r.kind] for r in recordings})
        notes.append(note("best_file", best=best, others=[_KIND_WORDS[k] for k in unread]))
    if idle and any(r.rows for r in recordings):
        notes.append(note("idle", processes=idle))
    return recordings, warnings + copies, notes


def _add_samples_of_other_files(
    con: Connection, output: Output, items: list[ProcessRecording], others: list[str], work: Path
) -> list[Note]:
    """Add program counter samples from the next best file that has some, because a database may lack them."""
    for kind in others if not any(i.sampled for i in items) else ():
        if kind == "csv" and not any(k in output.files for k in SAMPLE_KINDS):
            continue
        try:
            other_recordings, doubts = _read(con, output, kind, work.with_name(f"{work.name}_{kind}"))
        except (BadInput, LimitExceeded) as problem:
            return [note("left_out.samples", problem=problem)]
        with_samples = [i for i in other_recordings if i.sampled]
        for one in with_samples:
            same = [i for i in items if i.pid == one.pid] or items if len(items) == 1 else []
            for item in same[:1]:
                item.sampled = one.sampled
        if with_samples:
            return [d for d in doubts if d.code == "damaged"]
    return []


def _read(con: Connection, output: Output, kind: str, work: Path) -> tuple[list[ProcessRecording], list[Note]]:
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
            warnings.append(note("copy", file=item.source, other=seen[key]))
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
    values, rows = [], 0
    for recording in recordings:
        once = recording.kind == "csv"
        values.append(CounterRows(tuple(recording.values), recording.keys, rows, frozenset(recording.counters), once))
        rows += recording.rows
    own = {"device_id": "device", "duration_ns": _DURATION, "cluster": "NULL::INT"}
    picks = ", ".join(f"{own.get(column, column)} AS {column}" for column in LAUNCH)
    return PassTable(
        name,
        first,
        rows,
        f"(SELECT {picks} FROM ({launches(recordings, processes)}))",
        frozenset(LAUNCH),
        [c for c in counters if not c.endswith("]")],
        {c: SheetColumn(c, "instance").instance for c in counters if c.endswith("]")},
        values=values,
        warnings=warnings,
        places={number: r.place for number, r in zip(processes, recordings, strict=True)},
    )


def _usable_counters(source: Path, names: list[str]) -> tuple[list[str], list[Note]]:
    """Return counters in the order of columns: an accumulation directly follows the only level it can belong to."""
    if len(names) > size_limits.MOST_COLUMNS:
        raise refusal("too_many_counters", file=source, most=size_limits.MOST_COLUMNS)
    counters, warnings = usable_names(
        source, names, lambda name: bool(_NAME.fullmatch(name)) and name.casefold() not in RESERVED
    )
    levels = [c for c in counters if "LEVEL" in c and not c.endswith("_ACCUM")]
    if ACCUMULATE in counters and len(levels) == 1:
        counters.remove(ACCUMULATE)
        counters.insert(counters.index(levels[0]) + 1, ACCUMULATE)
    return counters, warnings


def remarks(main: list[ProcessRecording], used: list[ProcessRecording], facts: dict[str, float]) -> list[Note]:
    """Return notes on how to interpret this profile; none of them reports a fault."""
    notes = []
    if len(main) > 1 and not any(r.rank is not None for r in main):
        named = [(r.host, None if r.rank is None else f"rank {r.rank}", f"pid {r.pid}: {r.rows}") for r in main]
        notes.append(note("processes", processes=[" ".join(filter(None, parts)) for parts in named]))
    if any(r.lds_is_static for r in main):
        notes.append(note("static_lds"))
    if any(r.counters for r in used) and facts.get("num_xcd", 1) > 1:
        notes.append(note("xcds.rocprofv3"))
    if not any(r.agents for r in used):
        notes.append(note("device.not_described"))
    return notes


def no_launches_problem(path: Path, outputs: list[Output], warnings: list[Note]) -> BadInput:
    """Return the error for missing launches: damaged files, or a run without kernels or without their trace."""
    damaged = [w.text.removesuffix(_SKIPPED) for w in warnings if w.code == "damaged"]
    if damaged:
        return refusal("nothing_readable", path=path, problems=damaged[:4])
    if not outputs:
        return refusal("no_rocprofv3", path=path)
    if raw := raw_traces(path):
        return refusal("raw_trace_only", path=path, file=raw[0])
    kinds = sorted({f.name for o in outputs for f in o.files.values()})
    return refusal("no_kernels", path=path, files=kinds)


def detect(path: Path) -> bool:
    """Return whether ``path`` is a file of rocprofv3, or a folder with one at any depth."""
    return holds_output(path)


def read(files: ProfileFiles) -> Profile:
    """Return the profile at ``files.path``.

    Data of one process in several files is read once: from the database, else JSON, else CSV. The main pass is the one
    without counters, else the one with most launches. A damaged file is named in the warnings; raises BadInput if
    nothing else remains.
    """
    path, con = files.path, files.con
    outputs, warnings = find_outputs(path)
    recordings, doubts, notes = collect_recordings(con, outputs, files.work)
    warnings += doubts + settle_ranks_of_recordings(path, recordings)
    recordings, others_left = keep_one_target(recordings)
    warnings += others_left
    idle = [r for r in recordings if not r.rows and (r.activity or r.ranges or r.sampled)]
    traces = find_traces(trace_files(path), path)
    if not any(r.rows for r in recordings) and not idle and not traces:
        statistics = [o.files["stats"] for o in outputs if "stats" in o.files]
        if not statistics:
            raise no_launches_problem(path, outputs, warnings)
        return _statistics(files, outputs, statistics, warnings)
    groups, doubts = by_pass([r for r in recordings if r.rows])
    main = next(iter(groups.values()), [])
    numbers = {name: assign_processes(main, group) for name, group in groups.items()}
    used = [r for group in groups.values() for r in group] or idle
    agent, other_agents = _agent(used)
    warnings += [*doubts, *other_agents]
    tables = [as_pass(name, group, numbers[name]) for name, group in groups.items()]
    if tables:
        tables[0] = replace(tables[0], more_columns=more_columns(con, files.work, main))
    beside = [r for r in idle if not main or r.label == main[0].label]
    others: list[tuple[ProcessRecording, int | None]] = [(r, None) for r in idle]
    repeats = [pair for name, group in groups.items() for pair in zip(group, numbers[name], strict=True)]
    others += repeats[len(main) :]
    sampled = SampledProfile(path if path.is_dir() else path.parent, main, others, agent.arch, files.code)
    hotspots: HotspotReader | None = None
    if sampled.has_samples:
        hotspots = partial(sample_queries, con, files.work, sampled)
    if not traces and (raw := raw_traces(path)):
        warnings.append(note("not_decoded", file=raw[0]))
    notes += remarks(main, used, agent.facts)
    more_tables: dict[str, str | Callable[[str], str]] = {}
    if traces:
        hotspots, waves, remarks_on_traces = _with_traces(files, main, traces, hotspots)
        more_tables |= {"waves": waves} if waves else {}
        notes += [note for note in remarks_on_traces if note.code == "thread_trace"]
        warnings = warnings + [note for note in remarks_on_traces if note.code != "thread_trace"]
    if over_time := counter_samples(main):
        more_tables["counter_samples"] = over_time
    return Profile(
        name=path.name if path.is_dir() else (outputs[0].stem if outputs else "") or path.parent.name,
        vendor="amd",
        arch=agent.arch,
        device=agent.device,
        command=next((r.command for r in used if r.command), None),
        tool=used[0].tool if used else "rocprofv3",
        host=only_value(r.host for r in used),
        rank=only_value(r.rank for r in used),
        multiplexed=DETECT,
        facts=agent.facts,
        passes=tables or [PassTable("main", idle[0].source if idle else traces[0].source)],
        places=[r.place for r in (*main, *beside)],
        timeline=timeline_of(con, files.work, main, idle),
        stacks=sampled_stacks(con, files.work, [*main, *idle]),
        hotspots=hotspots,
        tables=more_tables,
        warnings=warnings,
        notes=notes,
    )


def _with_traces(
    files: ProfileFiles, main: list[ProcessRecording], traces: list[ThreadTrace], sampled: HotspotReader | None
) -> tuple[HotspotReader | None, Callable[[str], str] | None, list[Note]]:
    """Return decoded thread traces unless there are samples, their waves, and notes; BadInput if none can be read."""
    if sampled:
        return sampled, None, [note("thread_trace.skipped")]
    launches_by_number: dict[int, TracedLaunch] = {}
    if len(main) == 1:
        known = f"SELECT dispatch_id, row, kernel FROM ({launches(main)}) WHERE dispatch_id IS NOT NULL"
        launches_by_number = {
            number: TracedLaunch(*launch)
            for number, *launch in files.con.execute(known).fetchmany(size_limits.EMPTY_CELLS)
        }
    queries, waves, remarks_on_traces = trace_queries(files.con, files.work, traces, launches_by_number)
    if queries is None and not main:
        raise refusal("no_thread_trace", problems=remarks_on_traces[:4])
    return (None if queries is None else lambda _: queries), waves, remarks_on_traces


def _agent(recordings: list[ProcessRecording]) -> tuple[Rocprofv3Agent, list[Note]]:
    """Return the GPU of all recordings; UNKNOWN, with a warning, for several kinds; BadInput for several targets."""
    gpus = [find_profiled_gpu(r.agents, r.devices) for r in recordings]
    agents = [agent for agent, _ in gpus if agent.arch]
    if len(kinds := {str(a.arch) for a in agents}) > 1:
        raise refusal("different_gpus", kinds=sorted(kinds))
    warnings = list(dict.fromkeys(w for _, doubts in gpus for w in doubts))
    if warnings or not agents:
        return UNKNOWN, warnings
    if len({a.model for a in agents}) > 1:
        return UNKNOWN, [note("agents.several")]
    return agents[0], []


def _statistics(files: ProfileFiles, outputs: list[Output], sources: list[Path], warnings: list[Note]) -> Profile:
    """Return kernel statistics, for profiles without a file of single launches."""
    agent_file = next((o.files["agents"] for o in outputs if "agents" in o.files), None)
    agent, doubts = find_profiled_gpu(read_agents(agent_file) if agent_file else (), ())
    profile = rocprof_stats.read_files(files, sources)
    return replace(
        profile,
        tool="rocprofv3",
        name=files.path.name if files.path.is_dir() else profile.name,
        arch=agent.arch,
        device=agent.device,
        facts=agent.facts,
        warnings=[*warnings, *doubts],
    )
