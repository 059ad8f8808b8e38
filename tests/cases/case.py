"""A case of the readers as data: a profile, a question in SQL, and the rows that answer it; or how it is refused.

tests/cases/<format>/<name>/
    profile/        the files of the profile; a single file is imported as such, several as a folder
    query.sql       one SELECT over the workload
    expected.csv    its rows, floats with all digits, NULL as an empty cell
    case.toml       optional: the arguments ``gpu`` and ``format`` of import_profile, the codes of its warnings,
                    and ``refused`` (the kind of the problem) in the place of query and rows
"""

from __future__ import annotations

import csv
import io
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rooflens.analysis.base.problems import Problem
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tools.import_profile import import_profile

FOLDER = Path(__file__).resolve().parent
ARGUMENTS = ("gpu", "format")


@dataclass(frozen=True)
class Outcome:
    """What an import came to: the rows as CSV and the codes of its warnings, or the kind of the refusal."""

    rows: str | None
    warnings: tuple[str, ...]
    refused: str | None = None


@dataclass(frozen=True)
class ReaderCase:
    """One folder below tests/cases."""

    folder: Path

    @property
    def name(self) -> str:
        """The format and the name, as pytest shows them."""
        return str(self.folder.relative_to(FOLDER))

    @property
    def profile(self) -> Path:
        """What is imported."""
        files = [path for path in (self.folder / "profile").rglob("*") if path.is_file()]
        return files[0] if len(files) == 1 else self.folder / "profile"

    @property
    def stated(self) -> dict[str, object]:
        """The content of case.toml."""
        file = self.folder / "case.toml"
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    @property
    def expected(self) -> Outcome:
        """What the folder says must come out."""
        refused = self.stated.get("refused")
        if refused is not None:
            return Outcome(None, (), str(refused))
        warnings = self.stated.get("warnings", [])
        assert isinstance(warnings, list)
        return Outcome((self.folder / "expected.csv").read_text(encoding="utf-8"), tuple(warnings))

    def outcome(self, store: Store) -> Outcome:
        """What comes out now, in an empty store."""
        arguments = {name: str(self.stated[name]) for name in ARGUMENTS if name in self.stated}
        try:
            imported = import_profile(store, str(self.profile), name="case", **arguments)  # type: ignore[arg-type]
        except Problem as problem:
            return Outcome(None, (), problem.code)
        workload = Workload.open(store, imported.workload)
        warnings = tuple(dict.fromkeys(sorted(warning.code for warning in workload.manifest.warnings)))
        return Outcome(self._rows(store, imported.workload), warnings)

    def _rows(self, store: Store, workload: str) -> str:
        from rooflens.tools.query_counters import query_counters

        query = (self.folder / "query.sql").read_text(encoding="utf-8")
        table = query_counters(store, query, workload=workload, limit=1000).table
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
        return out.getvalue()


def reader_cases() -> list[ReaderCase]:
    """Every folder with a profile."""
    return [ReaderCase(path.parent) for path in sorted(FOLDER.glob("*/*/profile"))]
