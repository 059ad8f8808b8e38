"""What the tables of a trace mean as events and ranges: the SQL by column that a reader states in its layout.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.untrusted_text import bounded_name
from .merging.contract import parquet, row_of
from .parsing.module_data import module_data
from .parsing.spool import Spool
from .timelines.call_kinds import direction_of
from .timelines.timeline_tables import EVENT, RANGE

if TYPE_CHECKING:
    import duckdb

_WORDS = {"WAY": direction_of("text"), "KERNEL": bounded_name("text")}
"""SQL that all layouts may use in braces."""


class EventLayout:
    """The file layout.toml beside a module.

    A part of it has ``columns``, SQL by column, in addition to those of the table ``shared`` that it names.
    """

    def __init__(self, module: str) -> None:
        self.stated = module_data(module, "layout.toml")

    def columns(self, part: Mapping[str, Any], **words: str) -> dict[str, str]:
        """Return SQL by column of a part; ``words`` is SQL that the layout names in braces."""
        known = self.stated["shared"].get(part.get("shared"), {}) | part["columns"]
        return {column: sql.format(**_WORDS, **words) for column, sql in known.items()}

    def select(self, what: str, columns: dict[str, str], rows: Mapping[str, str], **words: str) -> str:
        """Return SQL with the given columns for all parts of ``what``; empty if the trace has none of their rows.

        ``rows`` are FROM items by the names in ``from``.
        """
        return " UNION ALL ".join(
            f"SELECT {row_of(columns, self.columns(part, **words))} FROM {rows[source]} WHERE {part.get('where', True)}"
            for part in self.stated[what]
            for source in part["from"]
            if source in rows
        )

    def spool(self, con: duckdb.DuckDBPyConnection, work: Path, name: str) -> Spool:
        """Return a new spool with the columns that the layout states for it."""
        return Spool(con, work / name, self.stated["spools"][name])

    def timeline(self, decided: str, kernels: Path, more: Mapping[str, str], **words: str) -> tuple[str, str]:
        """Return SQL for the events and the ranges of a trace, whose rows ``decided`` have a role each.

        ``kernels`` is the file with its launches, and ``more`` are further FROM items.
        """
        rows = {"decided": decided, "kernels": parquet([kernels]), **more}
        return self.select("events", EVENT, rows, **words), self.select("ranges", RANGE, rows)
