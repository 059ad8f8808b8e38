"""Which rank each process of a profile was, and which ranks a workload can hold together."""

from __future__ import annotations

from pathlib import Path

from ....analysis.base.notes import Note
from ..merging.ranks import in_sequence, settle_ranks
from .agents import find_profiled_gpu
from .recording import ProcessRecording

_LISTED = 8


def settle_ranks_of_recordings(path: Path, recordings: list[ProcessRecording]) -> list[Note]:
    """Take back the ranks that cannot be believed; a warning says so. Where no name tells one, folders that are called
    0, 1, 2 do."""
    if not any(r.rank is not None for r in recordings):
        _take_ranks_of_folders(path, recordings)
        return []
    by_pass: dict[tuple[str, ...], list[ProcessRecording]] = {}
    for item in recordings:
        by_pass.setdefault((item.label, *item.counters), []).append(item)
    warnings: list[Note] = []
    for group in by_pass.values():
        places, doubts = settle_ranks([r.place for r in group])
        for item, place in zip(group, places, strict=True):
            item.set_place(place)
        warnings += doubts
    return list(dict.fromkeys(warnings))


def _take_ranks_of_folders(path: Path, recordings: list[ProcessRecording]) -> None:
    """Note the ranks that the uppermost folders are called by, where each holds one process of a pass."""
    below = [r.source.relative_to(path) for r in recordings] if path.is_dir() else []
    folders = list(dict.fromkeys(Path(p.parts[0]) for p in below if len(p.parts) > 1))
    numbers = in_sequence(folders) if all(len(p.parts) > 1 for p in below) else None
    if not numbers or len({(p.parts[0], r.label) for p, r in zip(below, recordings, strict=True)}) < len(recordings):
        return
    rank_of_folder = dict(zip(folders, numbers, strict=True))
    for item, place in zip(recordings, below, strict=True):
        item.rank = rank_of_folder[Path(place.parts[0])]


def keep_one_target(recordings: list[ProcessRecording]) -> tuple[list[ProcessRecording], list[Note]]:
    """Without the ranks that ran on another target than most; a warning names them. Others are left as they are."""
    by_target: dict[str, list[ProcessRecording]] = {}
    for item in recordings:
        agent, _ = find_profiled_gpu(item.agents, item.devices)
        if agent and agent.arch:
            by_target.setdefault(agent.arch, []).append(item)
    if len(by_target) < 2 or any(r.rank is None for group in by_target.values() for r in group):
        return recordings, []
    most, *others = sorted(by_target, key=lambda arch: (-len(by_target[arch]), arch))
    left_out = [r for arch in others for r in by_target[arch]]
    names = ", ".join(f"{r.place.words} ({arch})" for arch in others for r in by_target[arch][:_LISTED])
    text = f"Left out, since the other ranks ran on {most}: {names}. Import those alone."
    return [r for r in recordings if r not in left_out], [Note("ranks_other_device", text)]
