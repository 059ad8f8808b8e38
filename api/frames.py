"""Tables of answers and of SQL as pandas DataFrames: units in ``attrs``, whole numbers whole, missing as NA.

``frame.attrs["units"]`` maps the columns that have one unit to it; ``frame.attrs["notes"]`` has what is to be known of
the figures. Both are plain, so that they survive Parquet and JSON.
"""

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
"""Figures whose unit stands in another column: a column of them that is empty is one of numbers all the same."""
_UTC = "UTC"
"""Unit of columns that hold points in time."""
_INT64 = range(-(2**63), 2**63)


def of_table(table: Table, notes: Sequence[str] = ()) -> pd.DataFrame:
    """A table of a tool."""
    rows = table.rows
    columns = {name: [row[i] for row in rows] for i, name in enumerate(table.columns)}
    units = {name: unit for name, unit in zip(table.columns, table.units, strict=True) if unit}
    return of_columns(columns, units, notes)


def of_any(table: Table | None) -> pd.DataFrame:
    """A table of a tool, or an empty one where the answer has none."""
    return of_table(table or Table(columns=[], units=[], rows=[], total_rows=0))


def of_columns(columns: Mapping[str, Sequence[Any]], units: Mapping[str, str], notes: Sequence[str]) -> pd.DataFrame:
    """Columns of values, None for what is missing."""
    import pandas as pd

    made = {name: _series(list(values), name in units or name in _NUMBERS) for name, values in columns.items()}
    return _label_columns(pd.DataFrame(made, columns=list(columns)), units, notes)


def of_records(records: Sequence[Mapping[str, Any]], units: Mapping[str, str] = {}) -> pd.DataFrame:
    """Rows that are mappings by column, all of the same columns."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return of_columns({name: [record.get(name) for record in records] for name in names}, units, ())


def of_rows(rows: QueryRows, notes: Sequence[str] = ()) -> pd.DataFrame:
    """All rows of a query."""
    import numpy as np
    import pandas as pd

    made: dict[str, Any] = {}
    for name, values in rows.columns.items():
        if name in rows.wide:
            made[name] = _series([None if v is None else int(v) for v in values.tolist()], True)
        elif isinstance(values, np.ma.MaskedArray):
            made[name] = _masked_array(values)
        else:
            made[name] = values.astype("int64") if values.dtype.kind == "i" else values
        if rows.units.get(name) == _UTC:  # texts in SQL, where they sort and are cut as such
            made[name] = pd.to_datetime(pd.Series(made[name], dtype="object"), utc=True, format="ISO8601")
    return _label_columns(pd.DataFrame(made, columns=list(rows.columns)), rows.units, [*rows.notes, *notes])


def _masked_array(values: Any) -> Any:
    """An array of NumPy some of whose values are missing."""
    import numpy as np
    import pandas as pd

    mask = np.ma.getmaskarray(values)
    kind = values.dtype.kind
    if kind in "iu":
        wide = "int64" if kind == "i" else values.dtype
        return pd.arrays.IntegerArray(values.data.astype(wide), mask.copy())
    if kind == "b":
        return pd.arrays.BooleanArray(values.data.copy(), mask.copy())
    if kind == "f":
        return values.filled(np.nan)
    if kind in "Mm":
        return values.filled(np.datetime64("NaT") if kind == "M" else np.timedelta64("NaT"))
    return np.where(mask, None, values.data)


def _series(values: list[Any], numeric: bool) -> Any:
    """A column with the type that its values have."""
    import pandas as pd

    known = [v for v in values if v is not None]
    missing = len(known) < len(values)
    if not known:
        return pd.Series(values, dtype="float64" if numeric else "object")
    if all(isinstance(v, bool) for v in known):
        return pd.Series(values, dtype="boolean" if missing else "bool")
    if all(isinstance(v, int) and not isinstance(v, bool) for v in known):
        if any(v not in _INT64 for v in known):
            return pd.Series(values, dtype="object")
        return pd.Series(values, dtype="Int64" if missing else "int64")
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in known):
        return pd.Series([float("nan") if v is None else float(v) for v in values], dtype="float64")
    if all(isinstance(v, str) for v in known):
        return pd.Series(values)
    return pd.Series(values, dtype="object")


def _label_columns(frame: pd.DataFrame, units: Mapping[str, str], notes: Sequence[str]) -> pd.DataFrame:
    frame.attrs["units"] = dict(units)
    frame.attrs["notes"] = list(notes)
    return frame
