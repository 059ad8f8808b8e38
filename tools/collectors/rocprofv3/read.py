"""Reader of what rocprofv3 writes: rocpd databases, JSON and CSV; several passes, processes and ranks in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.problems import BadInput
from ....analysis.store import Manifest
from .. import rocprof_stats
from ..merge import Merged, write_tables
from ..passes import as_replays
from ..session import WORK
from ..xcd import channels_per_xcd
from .agents import Agent, profiled, read_agents
from .grouping import assign, by_pass
from .outputs import Output, find_outputs, holds_output
from .passes import stage_pass
from .recording import Recording
from .remarks import nothing, remarks
from .sources import collect

if TYPE_CHECKING:
    import duckdb

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
