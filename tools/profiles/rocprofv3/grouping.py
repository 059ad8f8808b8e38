"""Group the recorded processes into passes, and match the processes of each pass with those of the main pass."""

from __future__ import annotations

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base.untrusted_text import plain_text
from .recording import ProcessRecording

_GROUPS_LISTED = 6


def by_pass(recordings: list[ProcessRecording]) -> tuple[dict[str, list[ProcessRecording]], list[Note]]:
    """Group recordings with launches by the names of their passes.

    A folder that numbers passes decides. Without one, processes of one run measure the same counters; a process with
    other counters is another pass, and one without counters belongs to the run that it overlaps in time. Raises
    BadInput if the folder contains profiles of unrelated runs.
    """
    passes: dict[str, list[ProcessRecording]] = {}
    for item in recordings:
        if item.label:
            passes.setdefault(item.label, []).append(item)
    loose = [r for r in recordings if not r.label]
    for group in _runs(loose):
        passes[_free_name(group, passes, alone=len(recordings) == len(group))] = group
    warnings = []
    for name, group in passes.items():
        trusted = any(r.label for r in group) and len({r.above for r in group}) == 1
        if not (trusted or _are_ranks(group)):
            warnings += _check_related(group)
        passes[name] = sorted((r for r in group if r.rows), key=_sort_key)
    passes = {name: group for name, group in passes.items() if group}
    _check_same_program(passes, loose)
    return passes, warnings


def assign_processes(main: list[ProcessRecording], others: list[ProcessRecording]) -> list[int]:
    """Return for every recording of a pass the number of the process of the main pass that it repeats.

    Ranks decide if both have them. Otherwise, a process matches a process of the main pass that has all of its kernels
    and sizes, in order; a process without a match gets the next free number.
    """
    free = list(range(len(main)))
    numbers: list[int] = []
    for item in others:
        ranked = [n for n in free if item.rank is not None and main[n].rank == item.rank]
        # A launch of one rank never matches a launch of another rank.
        possible = [n for n in free if item.rank is None or main[n].rank is None]
        alike = [n for n in possible if item.kernels.keys() <= main[n].kernels.keys()]
        same = [n for n in alike if main[n].kernels == item.kernels]
        number = next(iter(ranked or same or alike or possible), len(main) + len(numbers))
        numbers.append(number)
        if number in free:
            free.remove(number)
    return numbers


def _runs(loose: list[ProcessRecording]) -> list[list[ProcessRecording]]:
    """Group recordings without a pass folder by their counters; those without counters join a run they overlap."""
    groups: dict[tuple[str, ...], list[ProcessRecording]] = {}
    for item in loose:
        if item.counters:
            groups.setdefault(item.counters, []).append(item)
    plain: list[ProcessRecording] = []
    for item in loose:
        if not item.counters:
            home = next((g for g in groups.values() if any(item.overlaps(o) for o in g)), None)
            (plain if home is None else home).append(item)
    return [*([plain] if plain else []), *groups.values()]


def _free_name(group: list[ProcessRecording], passes: dict[str, list[ProcessRecording]], alone: bool) -> str:
    if alone:
        return "main"
    names = (f"pass_{n}" for n in range(1, len(passes) + 2)) if group[0].counters else ("timing", "trace")
    return next(n for n in names if n not in passes)


def _check_related(group: list[ProcessRecording]) -> list[Note]:
    """Return a warning, or raise BadInput, if processes that never ran at the same time are from several runs."""
    pieces = _overlapping_pieces(group)
    if len(pieces) < 2:
        return []
    commands = [{r.command for r in piece if r.command} for piece in pieces]
    kernels = [{name for r in piece for name, _ in r.kernels} for piece in pieces]
    known = [c for c in commands if c]
    other_program = any(not a & b for a in known for b in known)
    other_kernels = any(a and b and not a & b for a in kernels for b in kernels)
    labels = [f"{piece[0].source.name} ({_process_label(piece[0])})" for piece in pieces]
    names = ", ".join(labels[:_GROUPS_LISTED]) + (" ..." if len(labels) > _GROUPS_LISTED else "")
    if other_program or other_kernels or len({r.above for r in group}) > 1:
        raise BadInput(
            f"The folder contains {len(pieces)} unrelated runs",
            f"they did not overlap in time and are from different programs or folders: {names}",
            "Import them separately",
        )
    text = (
        f"several_runs: {count_text(len(pieces), 'process')} ran one after the other: {names}. They are treated as "
        "one run; if the "
        "program was profiled several times into this folder, import the files separately."
    )
    return [Note("several_runs", text)]


def _are_ranks(group: list[ProcessRecording]) -> bool:
    """Return whether every process has a distinct rank: then they are one run, whatever their clocks show."""
    ranks = [r.rank for r in group]
    return None not in ranks and len(set(ranks)) == len(ranks)


def _overlapping_pieces(group: list[ProcessRecording]) -> list[list[ProcessRecording]]:
    """Split the group into sets of processes that are connected by overlap in time."""
    pieces: list[list[ProcessRecording]] = []
    for item in group:
        touching = [p for p in pieces if any(item.overlaps(o) for o in p)]
        pieces = [p for p in pieces if p not in touching] + [[r for p in touching for r in p] + [item]]
    return pieces


def _check_same_program(passes: dict[str, list[ProcessRecording]], loose: list[ProcessRecording]) -> None:
    """Raise BadInput if passes that differ only in their counters have no kernel in common."""
    groups = [g for g in passes.values() if any(r in g for r in loose)]
    if len(groups) < 2:
        return
    kernels = [{name for r in g for name, _ in r.kernels} for g in groups]
    if not set.intersection(*kernels):
        raise BadInput(
            f"The folder contains {len(groups)} unrelated runs",
            "they measured different counters and have no kernel in common: "
            + ", ".join(g[0].source.name for g in groups[:_GROUPS_LISTED]),
            "Import them separately",
        )


def _sort_key(item: ProcessRecording) -> tuple[bool, int, str, int, int]:
    """Sort key: rank (unknown last), then host, then start time and pid."""
    start = item.span[0] if item.span else 0
    return item.rank is None, item.rank or 0, item.host or "", start, item.pid or 0


def _process_label(item: ProcessRecording) -> str:
    return plain_text(item.command, 40) if item.command else f"process {item.pid}" if item.pid else "process unknown"


def main_first(groups: dict[str, list[ProcessRecording]]) -> list[str]:
    """Return the names of the passes, the main pass first: one without counters, else the one with most launches."""
    launches = {name: sum(r.rows for r in group) for name, group in groups.items()}
    plain = [name for name, group in groups.items() if not any(r.counters for r in group)]
    main = max(plain or groups, key=lambda n: (n == "timing", launches[n]))
    return [main, *(name for name in groups if name != main)]
