"""A case of the readers as data: a profile, questions in SQL, and the rows that answer them; or how it is refused.

tests/cases/readers/<format>/<name>/
    profile/        the files of the profile; a single file is imported as such, several as a folder
    NAME.sql        one SELECT over the workload, as many files as there are questions
    NAME.csv        its rows, floats with all digits, NULL as an empty cell
    case.toml       optional: ``path`` (what of profile/ is imported, where it is not that), the arguments ``gpu`` and
                    ``format`` of import_profile, the codes of its warnings, ``refused`` (the kind of the problem) in
                    the place of questions and rows, and ``says`` (texts that the refusal, a warning or a note contains)
"""

from __future__ import annotations

import csv
import io
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rooflens.analysis.base.problems import Problem
from rooflens.analysis.store.store import Store
from rooflens.tools.import_profile import import_profile
from rooflens.tools.sql.unlimited_query import query

FOLDER = Path(__file__).resolve().parent
ARGUMENTS = ("gpu", "format")


@dataclass(frozen=True)
class Outcome:
    """What an import came to: rows as CSV by question and the codes of its warnings, or the kind of the refusal."""

    rows: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    text: str = field(default="", compare=False)
    """The refusal, or the warnings and notes."""


@dataclass(frozen=True)
class ReaderCase:
    """One folder below tests/cases/readers."""

    folder: Path

    @property
    def name(self) -> str:
        """The format and the name, as pytest shows them."""
        return str(self.folder.relative_to(FOLDER))

    @property
    def profile(self) -> Path:
        """What is imported, which may be a pattern."""
        if "path" in self.settings:
            return self.folder / "profile" / str(self.settings["path"])
        files = [path for path in (self.folder / "profile").rglob("*") if path.is_file()]
        return files[0] if len(files) == 1 else self.folder / "profile"

    @property
    def settings(self) -> dict[str, object]:
        """The content of case.toml."""
        file = self.folder / "case.toml"
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    @property
    def questions(self) -> dict[str, str]:
        """The SQL of each question, by its name."""
        return {file.stem: file.read_text(encoding="utf-8") for file in sorted(self.folder.glob("*.sql"))}

    @property
    def said(self) -> list[str]:
        """Texts that the refusal, or a warning or note, contains."""
        texts = self.settings.get("says", [])
        assert isinstance(texts, list)
        return texts

    @property
    def expected(self) -> Outcome:
        """What the folder says must come out."""
        refused = self.settings.get("refused")
        if refused is not None:
            return Outcome(refused=str(refused))
        warnings = self.settings.get("warnings", [])
        assert isinstance(warnings, list)
        answers = {file.stem: file.read_text(encoding="utf-8") for file in self.folder.glob("*.csv")}
        return Outcome(answers, tuple(warnings))

    def outcome(self, store: Store) -> Outcome:
        """What comes out now, in an empty store."""
        arguments = {name: str(self.settings[name]) for name in ARGUMENTS if name in self.settings}
        try:
            imported = import_profile(store, str(self.profile), name="case", **arguments)  # type: ignore[arg-type]
        except Problem as problem:
            return Outcome(refused=problem.code, text=str(problem))
        manifest = store.resolve(imported.workload)
        warnings = tuple(dict.fromkeys(sorted(warning.code for warning in manifest.warnings)))
        rows = {name: as_csv(query(store, [manifest], sql).columns) for name, sql in self.questions.items()}
        return Outcome(rows, warnings, text="\n".join([*imported.warnings, *imported.notes]))


def as_csv(columns: dict[str, np.ndarray | np.ma.MaskedArray]) -> str:
    """Rows as text, floats with all digits and NULL as an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    cells = (["" if cell is None else cell for cell in np.ma.asarray(column).tolist()] for column in columns.values())
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()


def reader_cases() -> list[ReaderCase]:
    """Every folder with a profile."""
    return [ReaderCase(path.parent) for path in sorted(FOLDER.glob("*/*/profile"))]
