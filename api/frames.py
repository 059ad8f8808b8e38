"""Tables of tools, records and rows of queries as pandas DataFrames, with units and notes in ``attrs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..tools.base.results import Table

if TYPE_CHECKING:
    import pandas as pd

    from ..tools.sql.unlimited_query import QueryRows

_NUMBERS = frozenset(
    ("avg", "min", "max", "peak", "value", "q1", "median", "q3", "std", "low", "high", "baseline", "candidate",
     "intensity", "performance", "attainable", "operations", "speedup", "per_work", "ratio", "speedup_bound",
     "vgpr", "agpr", "sgpr", "vgprs", "agprs", "sgprs")
)  # fmt: skip
"""Columns of figures whose unit is in another column: even if such a column is empty, its type is numeric."""
_UNITS = {"pct": "%", "ns": "ns", "us": "us", "ms": "ms", "mhz": "MHz", "bytes": "B"}
"""The last word of a column's name, if that is a unit."""
_UTC = "UTC"
"""The unit of columns that contain points in time."""
_CREATED = "created"
"""The column of tools for the point in time at which a workload was stored."""
_INT64 = range(-(2**63), 2**63)


def of_table(table: Table, notes: Sequence[str]) -> pd.DataFrame:
    """A table of a tool as a DataFrame, in which None is a missing value."""
    units = {name: unit for name, unit in zip(table.columns, table.units, strict=True) if unit}
    columns = {}
    for at, name in enumerate(table.columns):
        values = [row[at] for row in table.rows]
        columns[name] = _times(values) if name == _CREATED else series(values, name in units or name in _NUMBERS)
    return _label_columns(columns, units, notes)


def of_records(records: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> pd.DataFrame:
    """A DataFrame from rows that are mappings, whose columns have the units that end their names."""
    names = list(dict.fromkeys(name for record in records for name in record))
    units = [_UNITS.get(name.rpartition("_")[2]) for name in names]
    rows = [[record.get(name) for name in names] for record in records]
    return of_table(Table(columns=names, units=units, rows=rows, total_rows=len(rows)), notes)


def of_rows(rows: QueryRows, notes: Sequence[str]) -> pd.DataFrame:
    """All rows of a query."""
    import numpy as np

    made: dict[str, Any] = {}
    for name, values in rows.columns.items():
        if rows.units.get(name) == _UTC:
            made[name] = _times(values)
        elif name in rows.wide:
            made[name] = series([None if v is None else int(v) for v in values.tolist()], True)
        else:
            made[name] = _mask_values(np.ma.getdata(values), np.ma.getmaskarray(values))
    return _label_columns(made, rows.units, [*rows.notes, *notes])


def first_rows(frame: pd.DataFrame, most: int) -> Table:
    """The first rows of a DataFrame of this module as a table of a tool."""
    first = frame.head(most)
    return Table(
        columns=list(frame.columns),
        units=[frame.attrs["units"].get(name) for name in frame.columns],
        rows=first.astype(object).where(first.notna(), None).to_numpy().tolist(),
        total_rows=len(frame),
        truncated=len(first) < len(frame),
    )


def _times(values: Any) -> Any:
    """A column of points in time, which are texts in SQL and in tables."""
    import pandas as pd

    return pd.to_datetime(pd.Series(values, dtype="object"), utc=True, format="ISO8601")


def _mask_values(values: Any, missing: Any) -> Any:
    """A column from a NumPy array; missing values become NA, NaN or NaT, as their type needs it."""
    import pandas as pd

    column = pd.Series(values.astype("int64") if values.dtype.kind == "i" else values)
    if not missing.any():
        return column
    return (column.convert_dtypes() if column.dtype.kind in "iub" else column).mask(missing)


def series(values: list[Any], numeric: bool) -> Any:
    """A column with the type of its values; a column without values is ``numeric`` or contains objects."""
    import pandas as pd

    kinds, nullable = {type(v) for v in values if v is not None}, None in values
    if kinds == {str}:
        return pd.Series(values)
    kind = "object"
    if kinds <= {int, float} and (float in kinds or (numeric and not kinds)):
        kind = "float64"
    elif kinds == {int} and all(v is None or v in _INT64 for v in values):
        kind = "Int64" if nullable else "int64"
    elif kinds == {bool}:
        kind = "boolean" if nullable else "bool"
    return pd.Series(values, dtype=kind)


def _label_columns(columns: Mapping[str, Any], units: Mapping[str, str], notes: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(columns, columns=list(columns))
    frame.attrs["units"] = dict(units)
    frame.attrs["notes"] = list(notes)
    return frame
