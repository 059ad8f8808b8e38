"""The launches and counters of a workload that is being written, for the checks to query, and the result of a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....analysis.base.database import sql_name
from ....analysis.base.notes import Note
from ....analysis.base.text import first_few
from ....analysis.store.doubts import Doubt
from ....analysis.store.store import Manifest
from ..merging.contract import Connection, all_rows, one_row, parquet
from ..merging.merge import StoredProfile

WAVE = 64
"""Work-items of a wave, for profiles that do not state it."""
LISTED = 6


@dataclass(frozen=True)
class CheckResult:
    """Result of one check: a sentence for the user, and the figures that it casts doubt on, if any."""

    code: str
    text: str
    doubts: tuple[Doubt, ...] = ()

    @property
    def note(self) -> Note:
        """The warning, which starts with the code of its check."""
        return Note(self.code, f"{self.code}: {self.text}")


CheckResults = Iterator[CheckResult]
Words = Mapping[str, object]
"""What the placeholders of a text stand for."""


@dataclass(frozen=True)
class TableCheck:
    """A check that checks.toml describes, with the fields that are explained there."""

    code: str
    text: str
    brief: str
    vendors: Sequence[str] = ()
    gpus: Sequence[str] = ()
    judge: str = ""
    each: str = ""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fact: str = ""
    wrong: str = ""
    found: str = ""
    figure: str = "NULL"
    thing: str = "dispatch"
    counters: Sequence[str] = ()
    matching: str = ""
    times: bool = False
    across: bool = False
    everywhere: bool = False
    beside: str = ""
    causes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def result(self, words: Words, *doubts: Doubt) -> CheckResult:
        """Return what the check says, with its doubts."""
        return CheckResult(self.code, self.text.format_map(words), doubts)

    def doubt(
        self, words: Words, counters: Sequence[str], kernels: tuple[str, ...] | None = None, *, times: bool = False
    ) -> Doubt:
        """Return the doubt about these counters."""
        brief = self.brief.format_map(words)
        return Doubt(self.code, brief, tuple(counters), self.times or times, self.across, kernels)


class ImportedTables:
    """The counters (alias c) joined with the dispatches (alias d), as written."""

    def __init__(self, con: Connection, folder: Path, manifest: Manifest, merged: StoredProfile) -> None:
        self.con, self.facts, self.merged, self.arch = con, manifest.facts, merged, manifest.arch
        counted, dispatches = (parquet([folder / f"{name}.parquet"]) for name in ("counters", "dispatches"))
        for name in manifest.replayed[:1]:
            # Counters of replayed kernels go with the duration of their replays.
            counted = f"(SELECT * REPLACE ({sql_name(f'duration_ns@{name}')} AS duration_ns) FROM {counted})"
        self.relation = f"{counted} c JOIN {dispatches} d USING (dispatch_id)"
        self.bounds = {
            name: item.bounds[read]
            for item in merged.passes
            for read, name in item.counters.items()
            if read in item.bounds
        }
        """Minimum and maximum of every counter that has values."""

    def ask(self, *picks: str) -> list[float]:
        """Return one row of numbers; NULL counts as 0."""
        row = one_row(self.con, f"SELECT {', '.join(picks)} FROM {self.relation}")
        return [float(v or 0) for v in row]

    def kernels_where(self, condition: str) -> tuple[str, ...] | None:
        """Return the kernels with a dispatch for which a condition holds; None if it holds for all kernels."""
        rows = all_rows(self.con, f"SELECT DISTINCT c.kernel FROM {self.relation} WHERE {condition} ORDER BY ALL")
        return tuple(str(name) for (name,) in rows) if len(rows) < self.merged.kernels else None

    def highest_by_kernel(self, figure: str, limit: float) -> dict[str, float]:
        """Return the kernels for which a figure exceeds a limit, with its maximum, the highest first."""
        rows = all_rows(
            self.con,
            f"SELECT c.kernel, max({figure}) AS most FROM {self.relation} GROUP BY ALL HAVING most > {limit!r} "
            "ORDER BY 2 DESC, 1",
        )
        return {str(name): float(value) for name, value in rows}

    def has(self, *counters: str) -> bool:
        """Return whether all of these counters were collected."""
        return set(counters) <= set(self.merged.counters)


def launched_waves(wave: int) -> str:
    """Return SQL for the number of waves of a launch."""
    return f"ceil(d.grid / nullif(d.workgroup_size, 0)) * ceil(d.workgroup_size / {wave})"


def some_names(counters: list[str]) -> str:
    """Return the first names of a list, and how many follow."""
    return first_few(counters, LISTED)
