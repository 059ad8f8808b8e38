"""Read what rocprofv3 left: outputs grouped into passes of one program."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_literal, sql_name
from ....analysis.problems import BadInput, LimitExceeded
from ....analysis.store import Manifest, write_table
from ..rocprof import stats as rocprof_stats
from ..tables.files import WORK
from ..tables.merge import ACCUMULATE, Merged, as_replays, write_tables
from ..tables.names import plain_text
from ..tables.staged import Column, Staged, measure
from ..tables.xcd import channels_per_xcd
from .agents import Agent, profiled, read_agents
from .csv import read_csv
from .json import read_json
from .outputs import LAUNCHES, Output, find_outputs, holds_output
from .recording import LAUNCH, Recording, relation
from .rocpd import read_rocpd

if TYPE_CHECKING:
    import duckdb


_SPOKEN = {"rocpd": "rocpd databases", "json": "JSON files", "csv": "CSV files"}
_LISTED = 8


def collect(
    con: duckdb.DuckDBPyConnection, outputs: list[Output], work: Path, warnings: list[str], notes: list[str]
) -> list[Recording]:
    """The recordings of all outputs, each from the best of its files that can be read."""
    found: list[Recording] = []
    unread: Counter[str] = Counter()
    idle: list[str] = []
    for number, output in enumerate(outputs):
        kinds = list(dict.fromkeys("csv" if k in ("counters", "trace") else k for k in LAUNCHES if k in output.files))
        for place, kind in enumerate(kinds):
            try:
                items = _read(con, output, kind, work / f"file_{number}_{kind}", warnings)
            except (BadInput, LimitExceeded) as problem:
                warnings.append(f"{problem.text} It was left out.")
                continue
            found += items
            unread.update(kinds[place + 1 :])
            if not any(i.rows for i in items):
                idle.append(items[0].source.name)
            break
    found = _once(found, warnings)
    if unread and found:
        best = ", ".join(sorted({_SPOKEN[r.kind] for r in found}))
        others = " and ".join(_SPOKEN[k] for k in unread)
        notes.append(f"Read from {best}; {others} of the same runs were not needed.")
    if idle and any(r.rows for r in found):
        listed = ", ".join(idle[:_LISTED]) + (" ..." if len(idle) > _LISTED else "")
        notes.append(f"{len(idle)} processes launched no kernel: {listed}.")
    return found


def _read(
    con: duckdb.DuckDBPyConnection, output: Output, kind: str, work: Path, warnings: list[str]
) -> list[Recording]:
    if kind == "rocpd":
        return read_rocpd(con, output.files[kind], output, work)
    if kind == "json":
        return read_json(con, output.files[kind], output, work)
    return read_csv(con, output, work, warnings)


def _once(recordings: list[Recording], warnings: list[str]) -> list[Recording]:
    """Without copies of a database: its session, process and times name a recording wherever it lies."""
    seen: dict[tuple[object, ...], str] = {}
    kept = []
    for item in recordings:
        key = (item.session, item.pid, item.span, item.rows, item.counters)
        if item.session and key in seen:
            warnings.append(f"{item.source.name} is a copy of {seen[key]} and was left out.")
        else:
            seen[key] = item.source.name
            kept.append(item)
    return kept


_COLUMNS = {  # column of a staged pass -> (its role, SQL over a recording's launches)
    "Process": ("process", "{process}"), "PID": ("pid", "pid"), "Dispatch_ID": ("dispatch_id", "dispatch_id"),
    "Kernel_Name": ("kernel", "kernel"), "GPU_ID": ("device_id", "CAST(device AS VARCHAR)"),
    "Queue_ID": ("queue_id", "queue_id"), "Grid_Size": ("grid", "grid"),
    "Workgroup_Size": ("workgroup_size", "workgroup_size"), "LDS_Per_Workgroup": ("lds_bytes", "lds_bytes"),
    "Scratch_Per_Workitem": ("scratch_bytes", "scratch_bytes"), "Arch_VGPR": ("vgpr", "vgpr"),
    "Accum_VGPR": ("agpr", "agpr"), "SGPR": ("sgpr", "sgpr"),
    "Start_Timestamp": ("start", "CAST(start_ns AS VARCHAR)"), "End_Timestamp": ("end", "CAST(end_ns AS VARCHAR)"),
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z]\w{0,119}(\[\d{1,4}\])?", re.ASCII)
_RESERVED = {
    "row",
    "file_row_number",
    "workload",
    "filename",
    "duration_ns",
    "kernel_id",
    *LAUNCH,
    *(c.casefold() for c in _COLUMNS),
}
_VALUES_AT_ONCE = 3_000_000
_MOST_COUNTERS = 20_000


def stage_pass(
    con: duckdb.DuckDBPyConnection, name: str, recordings: list[Recording], processes: list[int], work: Path
) -> Staged:
    """Write the launches of ``recordings`` with their counters; ``processes`` numbers them within the workload.

    Counter values are spread over columns a few thousand launches at a time, so that memory stays bounded.
    """
    warnings: list[str] = []
    counters = _usable(sorted({c for r in recordings for c in r.counters}), recordings, warnings)
    parts: list[Path] = []
    repeated = 0
    for recording, process in zip(recordings, processes, strict=True):
        for low, high in _slices(con, recording):
            parts.append(work / f"part_{name}_{len(parts)}.parquet")
            repeated += _write_part(con, recording, process, (low, high), counters, parts[-1])
    whole = work / f"stage_{name}.parquet"
    rows = write_table(con, f"FROM {relation(parts)}", whole)
    for part in parts:
        part.unlink()
    if repeated:
        warnings.append(
            f"{recordings[0].source.name}: {repeated} counters are stated several times for one launch; "
            "the values were added up, as those of instances are."
        )
    columns = [Column(header, role) for header, (role, _) in _COLUMNS.items()]
    columns += [Column(c, "instance" if c.endswith("]") else "counter") for c in counters]
    staged = Staged(name, recordings[0].source, whole, columns, rows, warnings)
    measure(con, staged)
    return staged


def _usable(names: list[str], recordings: list[Recording], warnings: list[str]) -> list[str]:
    """Counters in the order of columns: an accumulation directly after the only level it can belong to."""
    source = recordings[0].source.name
    if len(names) > _MOST_COUNTERS:
        raise BadInput(f"{source} names more than {_MOST_COUNTERS} counters", "no GPU has so many")
    found: dict[str, str] = {}
    for name in names:
        if _NAME.fullmatch(name) and name.casefold() not in _RESERVED:
            found.setdefault(name.casefold(), name)
    counters = list(found.values())
    if strange := [plain_text(n, 40) for n in names if n not in counters]:
        warnings.append(
            f"{source}: {len(strange)} names that are no counters were left out: {', '.join(strange[:8])}"
            f"{' ...' if len(strange) > 8 else ''}."
        )
    levels = [c for c in counters if "LEVEL" in c and not c.endswith("_ACCUM")]
    if ACCUMULATE in counters and len(levels) == 1:
        counters.remove(ACCUMULATE)
        counters.insert(counters.index(levels[0]) + 1, ACCUMULATE)
    return counters


def _slices(con: duckdb.DuckDBPyConnection, recording: Recording) -> list[tuple[int, int]]:
    """Ranges of keys that hold about as many values as fit in memory at ease."""
    low, high = recording.keys
    if not recording.counters:
        return [(low, high)]
    (values,) = con.execute(
        f"SELECT count(*) FROM {relation(recording.values)} WHERE key BETWEEN {low} AND {high}"
    ).fetchone() or (0,)
    step = max(1, int(_VALUES_AT_ONCE / max(1.0, values / recording.rows)))
    return [(start, min(high, start + step - 1)) for start in range(low, high + 1, step)]


def _write_part(
    con: duckdb.DuckDBPyConnection, recording: Recording, process: int, keys: tuple[int, int], counters: list[str],
    path: Path,
) -> int:  # fmt: skip
    """One slice of a recording; returns how many counters were stated several times for one launch of a CSV file."""
    low, high = keys
    launched = ", ".join(f"{sql.format(process=process)} AS {header}" for header, (_, sql) in _COLUMNS.items())
    select = f"SELECT key, {launched} FROM {relation([recording.launches])} WHERE key BETWEEN {low} AND {high}"
    own = [c for c in counters if c in recording.counters]
    empty = "".join(f", NULL::DOUBLE AS {sql_name(c)}" for c in counters)
    if not own:
        write_table(con, f"SELECT * EXCLUDE (key){empty} FROM ({select}) ORDER BY key", path)
        return 0
    names = ", ".join(f"({sql_literal(c)}, {i})" for i, c in enumerate(counters))
    con.execute(
        "CREATE OR REPLACE TABLE summed AS SELECT key, code, sum(value) AS value, count(*) AS n "
        f"FROM {relation(recording.values)} JOIN (VALUES {names}) c(counter, code) USING (counter) "
        f"WHERE key BETWEEN {low} AND {high} GROUP BY key, code"
    )
    codes = [i for i, c in enumerate(counters) if c in recording.counters]
    picks = "".join(
        f", w.{sql_name(str(i))} AS {sql_name(c)}" if i in codes else f", NULL::DOUBLE AS {sql_name(c)}"
        for i, c in enumerate(counters)
    )
    wide = (
        f"PIVOT (SELECT key, code, value FROM summed) ON code IN ({', '.join(map(str, codes))}) "
        "USING first(value) GROUP BY key"
    )
    con.execute(f"CREATE OR REPLACE TABLE spread AS {wide}")
    write_table(
        con, f"SELECT l.* EXCLUDE (key){picks} FROM ({select}) l LEFT JOIN spread w USING (key) ORDER BY l.key", path
    )
    (again,) = con.execute("SELECT count(*) FROM summed WHERE n > 1").fetchone() or (0,)
    con.execute("DROP TABLE summed; DROP TABLE spread")
    return int(again) if recording.kind == "csv" else 0


_PROCESSES_LISTED = 8


def remarks(main: list[Recording], used: list[Recording], merged: Merged, facts: dict[str, float]) -> list[str]:
    """How to read this profile; nothing of it is a fault."""
    found = []
    if len(main) > 1:
        listed = "; ".join(f"{_process(r)}: {r.rows}" for r in main[:_PROCESSES_LISTED])
        more = " ..." if len(main) > _PROCESSES_LISTED else ""
        found.append(f"Launches of {len(main)} processes, kept apart by pid: {listed}{more}.")
    if any(r.lds_is_static for r in main):
        found.append(
            "lds_bytes is static LDS only, as the CSV of rocprofv3 states it; rocpd and JSON include dynamic LDS."
        )
    if merged.counters and facts.get("num_xcd", 1) > 1:
        found.append("Counters are sums over the XCDs of a dispatch, so cycles count once for every XCD.")
    if not any(r.agents for r in used):
        found.append("The files do not describe the GPU: rocprofv3 writes *_agent_info.csv beside its CSV files.")
    return found


def _process(recording: Recording) -> str:
    parts = [recording.host, None if recording.rank is None else f"rank {recording.rank}", f"pid {recording.pid}"]
    return " ".join(p for p in parts if p)


def nothing(path: Path, outputs: list[Output], warnings: list[str]) -> BadInput:
    """Why no launch was found: damaged files, or a run without kernels or without their trace."""
    damaged = [w.removesuffix(" It was left out.") for w in warnings if w.endswith("It was left out.")]
    if damaged:
        return BadInput(f"{path.name} holds nothing that can be read", " ".join(damaged[:4]))
    if not outputs:
        return BadInput(f"{path.name} is no output of rocprofv3", "no file in it is one that rocprofv3 writes")
    kinds = sorted({f.name for o in outputs for f in o.files.values()})
    return BadInput(
        f"{path.name} holds no kernel launches",
        f"found are {', '.join(kinds[:6])}{' ...' if len(kinds) > 6 else ''}: traces of API calls, or a program "
        "that launched no kernel",
        "Profile with --kernel-trace or with counters",
    )


_GROUPS_LISTED = 6


def by_pass(recordings: list[Recording], warnings: list[str]) -> dict[str, list[Recording]]:
    """Recordings with launches under the names of their passes.

    A folder that numbers passes decides. Where there is none, processes of one run measure the same counters; what
    measures others is another pass, and one without counters belongs to the run that it overlaps in time.
    Raises BadInput where the folder holds profiles of unrelated runs.
    """
    found: dict[str, list[Recording]] = {}
    for item in recordings:
        if item.label:
            found.setdefault(item.label, []).append(item)
    loose = [r for r in recordings if not r.label]
    for group in _runs(loose):
        found[_free_name(group, found, alone=len(recordings) == len(group))] = group
    for name, group in found.items():
        trusted = any(r.label for r in group) and len({r.above for r in group}) == 1
        if not trusted:
            _check_related(group, warnings)
        found[name] = sorted((r for r in group if r.rows), key=_order)
    found = {name: group for name, group in found.items() if group}
    _check_same_program(found, loose)
    return found


def assign(main: list[Recording], others: list[Recording]) -> list[int]:
    """For every recording of a pass, the number of the process of the main pass that it repeats.

    Ranks decide where both have them. Else a process with nothing but kernels and sizes of one of the main pass is
    that one, in order; what fits none gets the next free number.
    """
    free = list(range(len(main)))
    taken: list[int] = []
    for item in others:
        ranked = [n for n in free if item.rank is not None and main[n].rank == item.rank]
        alike = [n for n in free if item.kernels.keys() <= main[n].kernels.keys()]
        same = [n for n in alike if main[n].kernels == item.kernels]
        number = next(iter(ranked or same or alike or free), len(main) + len(taken))
        taken.append(number)
        if number in free:
            free.remove(number)
    return taken


def _runs(loose: list[Recording]) -> list[list[Recording]]:
    """Recordings without a pass folder: one list for every set of counters, those without any where they overlap."""
    groups: dict[tuple[str, ...], list[Recording]] = {}
    for item in loose:
        if item.counters:
            groups.setdefault(item.counters, []).append(item)
    plain: list[Recording] = []
    for item in loose:
        if not item.counters:
            home = next((g for g in groups.values() if any(item.overlaps(o) for o in g)), None)
            (plain if home is None else home).append(item)
    return [*([plain] if plain else []), *groups.values()]


def _free_name(group: list[Recording], taken: dict[str, list[Recording]], alone: bool) -> str:
    if alone:
        return "main"
    names = (f"pass_{n}" for n in range(1, len(taken) + 2)) if group[0].counters else ("timing", "trace")
    return next(n for n in names if n not in taken)


def _check_related(group: list[Recording], warnings: list[str]) -> None:
    """Processes that never ran at the same time are several runs, unless nothing speaks against one run."""
    pieces = _connected(group)
    if len(pieces) < 2:
        return
    commands = [{r.command for r in piece if r.command} for piece in pieces]
    kernels = [{name for r in piece for name, _ in r.kernels} for piece in pieces]
    known = [c for c in commands if c]
    other_program = any(not a & b for a in known for b in known)
    other_kernels = any(a and b and not a & b for a in kernels for b in kernels)
    listed = [f"{piece[0].source.name} ({_what(piece[0])})" for piece in pieces]
    names = ", ".join(listed[:_GROUPS_LISTED]) + (" ..." if len(listed) > _GROUPS_LISTED else "")
    if other_program or other_kernels or len({r.above for r in group}) > 1:
        raise BadInput(
            f"The folder holds {len(pieces)} unrelated runs",
            f"they did not overlap in time and are of different programs or folders: {names}",
            "Import them one by one",
        )
    warnings.append(
        f"several_runs: {len(pieces)} processes ran one after the other: {names}. They are taken as one run; if the "
        "program was profiled several times into this folder, import the files one by one."
    )


def _connected(group: list[Recording]) -> list[list[Recording]]:
    """The group split into pieces; a piece is what overlap in time ties together."""
    pieces: list[list[Recording]] = []
    for item in group:
        touching = [p for p in pieces if any(item.overlaps(o) for o in p)]
        pieces = [p for p in pieces if p not in touching] + [[r for p in touching for r in p] + [item]]
    return pieces


def _check_same_program(found: dict[str, list[Recording]], loose: list[Recording]) -> None:
    """Passes told apart by their counters alone must at least share a kernel with the others."""
    groups = [g for g in found.values() if any(r in g for r in loose)]
    if len(groups) < 2:
        return
    kernels = [{name for r in g for name, _ in r.kernels} for g in groups]
    if not set.intersection(*kernels):
        raise BadInput(
            f"The folder holds {len(groups)} unrelated runs",
            "they measured different counters and have no kernel in common: "
            + ", ".join(g[0].source.name for g in groups[:_GROUPS_LISTED]),
            "Import them one by one",
        )


def _order(item: Recording) -> tuple[bool, int, str, int, int]:
    """Ranks first, then hosts, then the order in which the processes were started."""
    start = item.span[0] if item.span else 0
    return item.rank is None, item.rank or 0, item.host or "", start, item.pid or 0


def _what(item: Recording) -> str:
    return plain_text(item.command, 40) if item.command else f"process {item.pid}" if item.pid else "process unknown"


FORMAT = "rocprofv3"
TITLE = "output of rocprofv3: rocpd database, JSON or CSV (*_results.db, *_counter_collection.csv)"


def detect(path: Path) -> bool:
    """Whether ``path`` is a file of rocprofv3, or a folder that holds one at any depth."""
    return holds_output(path)


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, Merged]:
    """Read the profile at ``path`` into tables under ``out``.

    What several files say of one process is read once: from its database, else JSON, else CSV. The pass without
    counters, else the one with most launches, is the main one. A damaged file is named in the warnings;
    raises BadInput where nothing else remains.
    """
    warnings: list[str] = []
    notes: list[str] = []
    outputs = find_outputs(path, warnings)
    recordings = collect(con, outputs, out / WORK, warnings, notes)
    if not any(r.rows for r in recordings):
        statistics = [o.files["stats"] for o in outputs if "stats" in o.files]
        if not statistics:
            raise nothing(path, outputs, warnings)
        return _statistics(con, path, statistics, _one_agent(outputs, warnings), out, warnings)
    groups = by_pass(recordings, warnings)
    names = _main_first(groups)
    main = groups[names[0]]
    numbers = {name: assign(main, groups[name]) if name != names[0] else list(range(len(main))) for name in names}
    passes = as_replays([stage_pass(con, name, groups[name], numbers[name], out / WORK) for name in names])
    used = [r for name in names for r in groups[name]]
    agent = _agent(used, warnings)
    facts, arch = (dict(agent.facts), agent.arch) if agent else ({}, None)
    instances = [n for p in passes for _, n in p.instances.values()]
    merged = write_tables(con, passes, out, instances_per_xcd=channels_per_xcd(facts, arch, instances))
    merged.warnings[:0] = warnings
    merged.notes[:0] = notes
    merged.notes += remarks(main, used, merged, facts)
    hosts, ranks = {r.host for r in used}, {r.rank for r in used}
    manifest = Manifest(
        name=_name(path, outputs),
        format=FORMAT,
        vendor="amd",
        arch=arch,
        device=agent.device if agent else None,
        command=next((r.command for r in main if r.command), None),
        tool="rocprofv3",
        host=hosts.pop() if len(hosts) == 1 else None,
        rank=ranks.pop() if len(ranks) == 1 else None,
        facts=facts,
    )
    return manifest, merged


def _main_first(groups: dict[str, list[Recording]]) -> list[str]:
    """The names of the passes: the one without counters first, else the one with most launches."""
    launches = {name: sum(r.rows for r in group) for name, group in groups.items()}
    plain = [name for name, group in groups.items() if not any(r.counters for r in group)]
    main = max(plain or groups, key=lambda n: (n == "timing", launches[n]))
    return [main, *(name for name in groups if name != main)]


def _agent(recordings: list[Recording], warnings: list[str]) -> Agent | None:
    """The GPU of all recordings; None, with a warning, where it is not one. Targets of two kinds are two profiles."""
    told: list[str] = []
    agents = [a for r in recordings if (a := profiled(r.agents, r.devices, told))]
    if len(kinds := {a.arch or "unknown" for a in agents}) > 1:
        raise BadInput("The profile is of different GPUs", ", ".join(sorted(kinds)), "Import its parts one by one")
    warnings += dict.fromkeys(told)
    if told or not agents:
        return None
    if len({a.model for a in agents}) > 1:
        warnings.append("agents: The processes ran on GPUs of different kinds: the device is left open.")
        return None
    return agents[0]


def _statistics(
    con: duckdb.DuckDBPyConnection, path: Path, files: list[Path], agent: Agent | None, out: Path, warnings: list[str]
) -> tuple[Manifest, Merged]:
    """Kernel statistics where no file holds single launches."""
    manifest, merged = rocprof_stats.read_files(con, files, out)
    manifest.format, manifest.tool = FORMAT, "rocprofv3"
    if path.is_dir():
        manifest.name = path.name
    if agent:
        manifest.arch, manifest.device, manifest.facts = agent.arch, agent.device, dict(agent.facts)
    merged.warnings[:0] = warnings
    return manifest, merged


def _one_agent(outputs: list[Output], warnings: list[str]) -> Agent | None:
    files = [o.files["agents"] for o in outputs if "agents" in o.files]
    return profiled(read_agents(files[0]), (), warnings) if files else None


def _name(path: Path, outputs: list[Output]) -> str:
    """A name that tells something: the folder's, or the file's without what rocprofv3 appends."""
    return path.name if path.is_dir() else outputs[0].stem or path.parent.name
