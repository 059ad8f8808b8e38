"""Which rank each process of a profile was, and which ranks a workload can hold together."""

from __future__ import annotations

from pathlib import Path

from ....analysis.notes import Note
from ..tables.ranks import in_sequence, settled
from .agents import profiled
from .recording import Recording

_LISTED = 8


def settle(path: Path, recordings: list[Recording]) -> list[Note]:
    """Take back the ranks that cannot be believed; a warning says so. Where no name tells one, folders that are called
    0, 1, 2 do."""
    if not any(r.rank is not None for r in recordings):
        _by_folder(path, recordings)
        return []
    by_pass: dict[tuple[str, ...], list[Recording]] = {}
    for item in recordings:
        by_pass.setdefault((item.label, *item.counters), []).append(item)
    warnings: list[Note] = []
    for group in by_pass.values():
        places, doubts = settled([r.place for r in group])
        for item, place in zip(group, places, strict=True):
            item.stands(place)
        warnings += doubts
    return list(dict.fromkeys(warnings))


def _by_folder(path: Path, recordings: list[Recording]) -> None:
    """Note the ranks that the uppermost folders are called by, where each holds one process of a pass."""
    below = [r.source.relative_to(path) for r in recordings] if path.is_dir() else []
    folders = list(dict.fromkeys(Path(p.parts[0]) for p in below if len(p.parts) > 1))
    numbers = in_sequence(folders) if all(len(p.parts) > 1 for p in below) else None
    if not numbers or len({(p.parts[0], r.label) for p, r in zip(below, recordings, strict=True)}) < len(recordings):
        return
    of = dict(zip(folders, numbers, strict=True))
    for item, place in zip(recordings, below, strict=True):
        item.rank = of[Path(place.parts[0])]


def of_one_target(recordings: list[Recording]) -> tuple[list[Recording], list[Note]]:
    """Without the ranks that ran on another target than most; a warning names them. Others are left as they are."""
    of: dict[str, list[Recording]] = {}
    for item in recordings:
        agent, _ = profiled(item.agents, item.devices)
        if agent and agent.arch:
            of.setdefault(agent.arch, []).append(item)
    if len(of) < 2 or any(r.rank is None for group in of.values() for r in group):
        return recordings, []
    most, *others = sorted(of, key=lambda arch: (-len(of[arch]), arch))
    left = [r for arch in others for r in of[arch]]
    listed = ", ".join(f"{r.place.words} ({arch})" for arch in others for r in of[arch][:_LISTED])
    text = f"Left out, since the other ranks ran on {most}: {listed}. Import those alone."
    return [r for r in recordings if r not in left], [Note("ranks_other_device", text)]
