"""A workload as an object, with the complete answers of all tools about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..analysis.base.database import sql_name
from ..analysis.base.problems import BadArgument, NotFound, near
from ..analysis.base.text import count_text
from ..analysis.catalogue.work_formulas import LEVELS
from ..analysis.store.schema import iso, pass_times
from ..analysis.store.store import Manifest, Store
from ..analysis.tables import columns, schema
from ..analysis.workload import Workload
from ..tools import plot
from ..tools.answers.source_text import allowing, roots_of
from ..tools.compute_metrics import MetricsResult, compute_metrics
from ..tools.compute_occupancy import OccupancyResult, compute_occupancy
from ..tools.compute_roofline import RooflineResult, compute_roofline
from ..tools.compute_timeline import TimelineResult, compute_timeline
from ..tools.diagnose_bottleneck import DiagnosisResult, diagnose_bottleneck
from ..tools.find_hotspots import HotspotsResult, find_hotspots
from ..tools.list_workloads import WorkloadsResult, list_workloads
from ..tools.sql import unlimited_query
from . import display
from .answers import Answer
from .calls import Asked, Dispatches, asks, changing, compare, dispatch_ids, report
from .display import Chart, DisplayedObject, Drawing, View

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..tools.compare_workloads import CompareResult

By = Literal["kernel", "launch"]


class OpenWorkload(DisplayedObject):
    """A workload of a store, as returned by ``store["name"]``. It never changes, but it can be deleted.

    In all methods, ``kernel`` is a pattern (RE2) that is searched in the names of kernels, or ranks by time ("#1",
    "#1,#3"; "#1.2" is the second launch configuration of the first kernel). ``dispatches`` are ids or a text such as
    "0,2,5-9".
    """

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._store, self._manifest = store, manifest

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its unique id."""
        return self._manifest.id

    @property
    def name(self) -> str:
        """Its name; several workloads can share one."""
        return self._manifest.name

    @property
    def arch(self) -> str | None:
        """The target of its device (gfx90a, sm_90); None if the profile does not state it."""
        return self._manifest.arch

    @property
    def device(self) -> str | None:
        """The name of its device."""
        return self._manifest.device

    @property
    def created(self) -> pd.Timestamp:
        """When it was stored, in UTC."""
        import pandas as pd

        return pd.Timestamp(self._manifest.created_ns, unit="ns", tz="UTC")

    @property
    def command(self) -> str | None:
        """The command that was profiled, if the profile states it."""
        return self._manifest.command

    @property
    def tags(self) -> list[str]:
        """Its labels."""
        return list(self._manifest.tags)

    @property
    def facts(self) -> dict[str, float]:
        """Numeric facts of the device, as the profile states them."""
        return dict(self._manifest.facts)

    @property
    def warnings(self) -> list[str]:
        """Doubts about the profile that were found at import."""
        return [warning.text for warning in self._manifest.warnings]

    @property
    def folder(self) -> Path:
        """The folder of its Parquet files; those of a shared store are downloaded first."""
        with changing(self._store):
            return self._store.folder(self._manifest)

    # -- tables ----------------------------------------------------------------------------------------

    @asks(list_workloads, by="kernel")
    def kernels(self, result: WorkloadsResult, asked: Asked) -> pd.DataFrame:
        """Its kernels by total time: calls, times in ns, share, registers and LDS, status and reason of the times."""
        return display.of_table(result.table, result.notes)

    @asks(list_workloads, by="launch")
    def configurations(self, result: WorkloadsResult, asked: Asked) -> pd.DataFrame:
        """Its launch configurations by total time, each with the number that selects it."""
        return display.of_table(result.table, result.notes)

    @asks(list_workloads, by="range")
    def ranges(self, result: WorkloadsResult, asked: Asked) -> pd.DataFrame:
        """Its ranges (NVTX, ROCTX) with the launches within them and their time."""
        return display.of_table(result.table, result.notes)

    @asks(list_workloads, by="kernel")
    def passes(self, result: WorkloadsResult, asked: Asked) -> pd.DataFrame:
        """The passes that its counters were collected in, with matched and unmatched dispatches."""
        return display.of_any(result.workload.passes if result.workload else None)

    def dispatches(self, kernel: str | None = None, dispatches: Dispatches = None) -> pd.DataFrame:
        """Every launch: grid, registers, LDS; start and end in ns as integers, durations as float64."""
        return self.table("dispatches", kernel=kernel, dispatches=dispatches)

    def counters(self, kernel: str | None = None, dispatches: Dispatches = None) -> pd.DataFrame:
        """Raw counters, a row per launch and a column per counter; NaN is not collected, 0 is measured as zero."""
        return self.table("counters", kernel=kernel, dispatches=dispatches)

    def table(
        self,
        name: str,
        *,
        kernel: str | None = None,
        dispatches: Dispatches = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """An SQL table of this workload (``store.tables()`` lists them), or some of its columns and launches.

        Raises NotFound for an unknown table or column, BadArgument for a selection in a table without launches.
        """
        described = schema()
        if name not in described:
            raise NotFound(
                f"There is no table {name!r}", near(name, described), f"The tables are {', '.join(described)}"
            )
        known = self._columns(name)
        shown = list(known if columns is None else columns)
        if unknown := [column for column in shown if column not in known]:
            raise NotFound(f"{name} has no column {unknown[0]!r}", near(unknown[0], known))
        picks = ", ".join(map(sql_name, shown))
        if kernel is None and dispatches is None:
            return self.sql(f"SELECT {picks} FROM {name}")
        if lacking := {"kernel", "dispatch_id"} - set(described[name].columns):
            raise BadArgument(f"{name} cannot be selected by launch", f"it has no {', '.join(sorted(lacking))}")
        with self._open(kernel) as opened:
            condition = opened.select(kernel, dispatch_ids(dispatches)).condition("d")
            ids = opened.rows(f"SELECT dispatch_id FROM {opened.relation('dispatches')} d WHERE {condition}")
        chosen = display.of_records([{"dispatch_id": i} for (i,) in ids])
        return self.sql(
            f"SELECT {picks} FROM {name} WHERE dispatch_id IN (SELECT dispatch_id FROM chosen)", chosen=chosen
        )

    def sql(self, sql: str, **tables: pd.DataFrame) -> pd.DataFrame:
        """All rows of one SELECT statement (DuckDB) over the tables of this workload and over DataFrames, by name.

        The tables are those of query_counters; see docs/reference/schema.md. The result is not truncated. Raises
        Problem if the query has a mistake.
        """
        with changing(self._store):
            return display.of_rows(unlimited_query.query(self._store, [self._current_manifest], sql, tables))

    # -- questions -------------------------------------------------------------------------------------

    @asks(compute_metrics, "metrics")
    def metrics(self, result: MetricsResult, asked: Asked) -> pd.DataFrame:
        """Figures with unit, peak, status and reason, by names, ids, panels, subsystems or presets, or "*" for all.

        ``avg`` follows the aggregation, the other statistics are per dispatch. A missing figure is NaN, and ``status``
        and ``reason`` explain why.
        """
        return display.of_table(result.table, result.notes)

    @asks(compute_roofline, "kernel")
    def roofline(self, result: RooflineResult, asked: Asked) -> Answer[RooflineResult]:
        """The position of its kernels below the ceilings of the device, for every memory level; with a picture."""
        kernel, by = asked["kernel"], asked["by"]
        drawn = plot.RooflineOptions(
            asked["kind"], asked["datatype"], asked["ceiling_source"], asked["ceilings"],
            levels=asked["levels"] or LEVELS, dispatches=asked["dispatches"],
            each="dispatch" if by == "dispatch" else "kernel",
        )  # fmt: skip
        opened_by: By = "launch" if by == "launch" else "kernel"

        def on_axes(axes: Axes) -> None:
            from ..analysis.plot.roofline import draw_on

            with self._open(kernel, opened_by) as opened:
                draw_on(axes, plot.roofline_picture(opened, kernel, drawn)[0])

        drawing = self._drawing(lambda opened, width: plot.on_roofline(opened, kernel, drawn, width), kernel, opened_by)
        return Answer(result, f"Roofline of {self.name}", drawing, on_axes)

    def speed_of_light(self, kernel: str | None = None) -> Chart:
        """A picture of the percentage of peak of each subsystem; ``metrics("2")`` has the figures."""
        drawing = self._drawing(lambda opened, width: plot.draw_speed_of_light(opened, kernel, width), kernel)
        return Chart(f"Speed of light of {self.name}", drawing)

    @asks(compute_occupancy, "kernel")
    def occupancy(self, result: OccupancyResult, asked: Asked) -> Answer[OccupancyResult]:
        """Resident waves of its kernels, what limits them, and the smallest changes that would allow more."""
        kernel = asked["kernel"]
        drawing = self._drawing(lambda opened, width: plot.draw_occupancy(opened, kernel, width), kernel)
        return Answer(result, f"Occupancy of {self.name}", drawing)

    @asks(compute_timeline, top_n=100)
    def timeline(self, result: TimelineResult, asked: Asked) -> Answer[TimelineResult]:
        """Where the wall time is spent: device busy, copies, idle by cause; with a picture.

        Only the ``top_n`` longest gaps, kernels and ranges (100 at most) are listed, because the activity of the host
        is determined for each gap separately. The SQL tables events and ranges contain all of them.
        """
        return Answer(result, f"Timeline of {self.name}", self._drawing(plot.over_time))

    @asks(diagnose_bottleneck, "kernel")
    def diagnose(self, result: DiagnosisResult, asked: Asked) -> Answer[DiagnosisResult]:
        """What limits each kernel: verdicts, findings with evidence, loads of units, counters that would decide."""
        return Answer(result, f"Diagnosis of {self.name}")

    def hotspots(
        self, kernel: str | None = None, *, source_roots: Sequence[str | Path] = (), **options: Any
    ) -> Answer[HotspotsResult]:
        """The source lines or instructions of a kernel that take the time, why they wait, and for what.

        The source text is taken from the profile, or else from files below ``source_roots``. ``options`` are the other
        parameters of find_hotspots (docs/reference/tools.md): by, context.
        """
        with allowing(roots_of([str(root) for root in source_roots])):
            return self._hotspots(kernel, **options)

    @asks(find_hotspots, "kernel")
    def _hotspots(self, result: HotspotsResult, asked: Asked) -> Answer[HotspotsResult]:
        return Answer(result, f"Hot spots of {self.name}")

    def compare(
        self, candidate: str | OpenWorkload | Sequence[str | OpenWorkload], **options: Any
    ) -> Answer[CompareResult]:
        """Compare this workload, as the baseline, with another one; see ``OpenStore.compare``."""
        return compare(self._store, self, candidate, options)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the HTML page about this workload; see ``OpenStore.report``."""
        return report(self._store, [self._current_manifest.id], output)

    # -- its parts -------------------------------------------------------------------------------------

    @property
    def _current_manifest(self) -> Manifest:
        """Its manifest. Raises NotFound if the workload is no longer in the store."""
        try:
            return self._store.resolve(self.id)
        except NotFound as problem:
            raise NotFound(
                f"Workload {self.name!r} ({self.id}) is no longer in the store {self._store.root}",
                "it was deleted, or the folder no longer exists",
                "workloads() of the store lists the existing ones",
            ) from problem

    @property
    def _about(self) -> Asked:
        """The arguments that all its questions share."""
        return {"workload": self._current_manifest.id}

    @contextmanager
    def _open(self, kernel: str | None = None, by: By = "kernel") -> Iterator[Workload]:
        """The opened workload, with its kernels selected."""
        with changing(self._store), Workload.open(self._store, self._current_manifest, kernel, by) as opened:
            yield opened

    def _drawing(
        self, draw: Callable[[Workload, int], plot.Drawn], kernel: str | None = None, by: By = "kernel"
    ) -> Drawing:
        """A function that opens the workload and draws it with ``draw``."""

        def drawing() -> plot.Drawn:
            with self._open(kernel, by) as opened:
                return draw(opened, display.WIDTH_PX)

        return drawing

    def _columns(self, table: str) -> dict[str, Any]:
        manifests = [self._current_manifest]
        return dict(columns(table, manifests, pass_times(self._store, manifests) if table == "counters" else ()))

    def _view(self) -> View:
        m = self._manifest
        where = ", ".join(part for part in (m.device, m.arch) if part) or "device not stated"
        held = [
            f"{count_text(m.dispatches, 'dispatch')} of {count_text(m.kernels, 'kernel')}",
            count_text(len(m.counters), "counter"),
        ]
        held += [count_text(m.events, "event")] if m.events else []
        held += [count_text(m.samples, "sample")] if m.samples else []
        tags = f"; {', '.join(m.tags)}" if m.tags else ""
        facts = {where: f"{', '.join(held)}; {m.format}, {iso(m.created_ns)}{tags}"}
        return View(f"Workload {m.name!r} ({m.id})", facts)
