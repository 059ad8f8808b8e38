"""Compare the engine with recorded values of rocprof-compute.

Release 3.3 (../shared/oracle) takes the mean of ratios over dispatches, 3.8 (../shared/oracle38) the ratio of sums.
"""

from __future__ import annotations

import csv
import gzip
import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from rooflens.analysis.catalogue.metrics import Metric
from rooflens.analysis.engine.evaluation import Aggregation, Figure
from rooflens.analysis.rooflines import ceilings
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests import SHARED
from rooflens.tests.support.figures import evaluate
from rooflens.tests.support.recordings import stored
from rooflens.tools.import_profile import import_profile

NUMBERS = {
    "Avg": "value", "Average": "value", "Value": "value", "Mean": "value", "Min": "over.min",
    "Max": "over.max", "Q1": "over.q1", "Median": "over.median", "Q3": "over.q3", "Std Dev": "over.std",
    "Peak": "peak", "Pct of Peak": "pct_of_peak", "Percent of Peak": "pct_of_peak",
}  # fmt: skip
TEXTS = ("Type", "Transaction", "Xfer", "Coherency")
MEASURED_PEAK = "Peak (Empirical)"
AGGREGATION: dict[str, Aggregation] = {"3.3": "mean", "3.8": "sum_ratio"}
CEILINGS = {f"VALU FLOPs ({t})": f"valu.{t.lower()}" for t in ("F16", "F32", "F64")}
CEILINGS |= {f"MFMA FLOPs ({t})": f"matrix.{t.lower()}" for t in ("F64", "F32", "F16", "BF16", "F8", "F6F4")}
CEILINGS |= {"MFMA IOPs (Int8)": "matrix.i8", "HBM Bandwidth": "hbm.bw", "LDS Bandwidth": "lds.bw"}
CEILINGS |= {"L2 Cache Bandwidth": "l2.bw", "L1 Cache Bandwidth": "vl1d.bw"}


@dataclass(frozen=True)
class Difference:
    """One cell of the oracle that the engine does not reproduce."""

    case: str
    arch: str
    metric: str
    id: str
    field: str
    norm: str
    theirs: str
    ours: str
    reason: str | None


def cases(release: str = "3.3") -> list[dict[str, str]]:
    """The recorded workloads of a release: the rows of its index, else its files."""
    if release == "3.3":
        with (SHARED / "oracle" / "INDEX.csv").open() as file:
            return [row | {"release": release} for row in csv.DictReader(file)]
    names = [path.name.removesuffix(".csv.gz") for path in sorted((SHARED / "oracle38").glob("*.csv.gz"))]
    return [{"workload": name, "file": f"{name}.csv.gz", "peer_filter": "", "release": release} for name in names]


def workload(store: Store, case: dict[str, str]) -> Manifest:
    """The case's workload, imported once per store. Raises BadInput where it cannot be read."""
    if model := case.get("model"):  # only the older index has this column
        name, path = f"{case['workload']}__{model}", SHARED / "workloads" / case["workload"] / model
    else:
        name, path = f"{case['workload']}@3.8", SHARED / "workloads38" / case["workload"]
    known = {m.name: m for m in store.scan()[0]}
    if name not in known:
        with tempfile.TemporaryDirectory() as folder:
            if model or (changed := retimed(path, case, Path(folder))) == path:
                stored(store, path, name)
            else:
                import_profile(store, str(changed), name=name)
        known = {m.name: m for m in store.scan()[0]}
    return known[name]


def retimed(path: Path, case: dict[str, str], folder: Path) -> Path:
    """A profile whose every pass has the times of the one that release 3.8 took them from, so that only the figures
    are left to compare. Each pass of its long tables is a run of its own, and the first that it reads counts there."""
    tables = [t for t in path.glob("*pmc_perf*.csv") if "GUID" in t.read_text().partition("\n")[0].split(",")]
    stated = [float(r["value"]) for r in rows(case) if r["metric"] == "Kernel Time" and r["field"] == "Avg"]
    if not tables or not stated:
        return path
    times: dict[str, dict[str, tuple[str, str]]] = {}
    for table in tables:
        with table.open(newline="") as file:
            for row in csv.DictReader(file):
                launch = {row["Dispatch_ID"]: (row["Start_Timestamp"], row["End_Timestamp"])}
                times.setdefault(row["GUID"], {}).update(launch)
    fits = (t for t in times.values() if abs(_mean_time(t) - stated[0]) < 1e-6)
    taken = next(fits, None)
    assert taken, f"no pass of {path.name} has the kernel time {stated[0]}"
    copy = folder / path.name
    shutil.copytree(path, copy)
    for table in tables:
        with table.open(newline="") as file, (copy / table.name).open("w", newline="") as written:
            reader = csv.DictReader(file)
            writer = csv.DictWriter(written, reader.fieldnames or [])
            writer.writeheader()
            for row in reader:
                start, end = taken[row["Dispatch_ID"]]
                writer.writerow(row | {"Start_Timestamp": start, "End_Timestamp": end})
    return copy


def _mean_time(launches: dict[str, tuple[str, str]]) -> float:
    return sum(int(end) - int(start) for start, end in launches.values()) / len(launches)


def rows(case: dict[str, str]) -> Iterator[dict[str, str]]:
    """The oracle's cells of metrics (ids that start with a digit)."""
    folder = "oracle" if case["release"] == "3.3" else "oracle38"
    with gzip.open(SHARED / folder / case["file"], "rt") as file:
        yield from (r for r in csv.DictReader(file) if r["metric_id"][0].isdigit())


def compare(store: Store, case: dict[str, str], panels: set[str] | None = None) -> tuple[int, list[Difference]]:
    """The number of cells compared and those that differ, for one case in all its normalisations."""
    manifest = workload(store, case)
    wanted = [r for r in rows(case) if panels is None or r["metric_id"].split(".")[0] in panels]
    norms = sorted({r["norm_unit"] for r in wanted})
    first, *others = norms or [""]
    figures = {first: _figures(store, manifest, case, first, sorted(panels) if panels else ["*"])} if norms else {}
    # What is not normalised is the same under every normalisation (test_oracle.py looks whether it is).
    normed = sorted({figure.metric.name for figure in figures.get(first, {}).values() if varies(figure.metric)})
    for norm in others:
        figures[norm] = figures[first] | (_figures(store, manifest, case, norm, normed) if normed else {})
    reached = _measured(store, manifest) if any(r["field"] == MEASURED_PEAK for r in wanted) else {}
    different, count = [], 0
    for row in wanted:
        if row["field"] in ("Unit", "Tips"):
            continue
        count += 1
        column = None if row["field"] in NUMBERS or row["field"] in TEXTS else row["field"]
        figure = figures[row["norm_unit"]].get((row["metric_id"], column))
        ours = _cell(figure, row["field"])
        if row["field"] == MEASURED_PEAK:
            ours = reached.get(row["metric"], "")
        if not agree(row["value"], ours):
            different.append(
                Difference(
                    case["file"],
                    manifest.arch or "",
                    row["metric"],
                    row["metric_id"],
                    row["field"],
                    row["norm_unit"],
                    row["value"],
                    ours,
                    str(figure.reason or "") if figure else "no such metric",
                )
            )
    return count, different


def varies(metric: Metric) -> bool:
    """Whether the value of a metric may depend on the normalisation."""
    return metric.norm or bool(metric.uses)


def agree(theirs: str, ours: str) -> bool:
    """Equal emptiness, equal text, numbers within 1e-9 relative. Release 3.8 writes N/A into most empty cells."""
    theirs = "" if theirs == "N/A" else theirs
    if theirs == "" or ours == "":
        return theirs == ours
    try:
        a, b = float(theirs), float(ours)
    except ValueError:
        return theirs == ours
    return a == b or (math.isfinite(a) and abs(a - b) <= 1e-9 * max(abs(a), abs(b)))


def _figures(
    store: Store, manifest: Manifest, case: dict[str, str], norm: str, asked: list[str]
) -> dict[tuple[str, str | None], Figure]:
    """Figures by id, and by the oracle's column where a channel's row holds several quantities."""
    kernel, dispatches, release = None, None, case["release"]
    option, *numbers = case["peer_filter"].split() or [""]
    if option == "-k":
        kernel = ",".join(f"#{int(n) + 1}" for n in numbers)
    if option == "-d":
        dispatches = [_dispatch_of_row(store, manifest, int(n)) for n in numbers]
    found = evaluate(
        store, manifest, asked, kernel=kernel, dispatches=dispatches,
        normalization=norm, aggregation=AGGREGATION[release],  # type: ignore[arg-type]
    )  # fmt: skip
    return {(_id(f, release), f.metric.labels.get("Column")): f for f in found if f.metric.release in (None, release)}


def _id(figure: Figure, release: str) -> str:
    """What a release calls a figure."""
    return figure.metric.newer_id or figure.id if release == "3.8" else figure.id


def _measured(store: Store, manifest: Manifest) -> dict[str, str]:
    """The measured ceilings recorded with a workload, by the rows of release 3.8's panel 4 that show them."""
    with Workload.open(store, manifest.id) as opened:
        found = ceilings.empirical_ceilings(opened) if opened.has("ceilings") else None
        known = found.known if found else {}
    stated = {name: ceiling for name, ceiling in known.items() if not ceiling.derived_from}
    return {row: str(stated[name].value) for row, name in CEILINGS.items() if name in stated}


def _dispatch_of_row(store: Store, manifest: Manifest, row: int) -> int:
    import duckdb

    ids = duckdb.sql(f"SELECT dispatch_id FROM read_parquet('{store.file(manifest, 'dispatches')}')").fetchall()
    return int(ids[row][0])


def _cell(figure: Figure | None, field: str) -> str:
    if figure is None:
        return ""
    value = figure.metric.labels.get(field) if field in TEXTS else attrgetter(NUMBERS.get(field, "value"))(figure)
    return "" if value is None else str(value)
