"""A store as an object: its workloads by name, SQL queries, imports, runs, plans and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.base.problems import BadArgument, NotFound
from ..analysis.base.text import count_text
from ..analysis.store.schema import iso
from ..analysis.store.store import Store
from ..analysis.tables import schema
from ..tools.compute_occupancy import OccupancyResult, compute_occupancy
from ..tools.get_run import RunResult
from ..tools.import_profile import ImportResult, import_profile
from ..tools.list_devices import DevicesResult, list_devices
from ..tools.list_workloads import WorkloadsResult, list_workloads
from ..tools.plan_profile import PlanResult, plan_profile
from ..tools.profile_command import profile_command
from ..tools.run_peak_benchmarks import run_peak_benchmarks
from ..tools.search_metrics import SearchResult, search_metrics
from ..tools.sql import unlimited_query
from . import display
from .answers import Answer
from .calls import Asked, asks, changing, compare, report
from .display import DisplayedObject, View
from .workload import OpenWorkload

if TYPE_CHECKING:
    import pandas as pd

    from ..tools.compare_workloads import CompareResult


class OpenStore(DisplayedObject):
    """A store of workloads, as returned by ``rooflens.open()``.

    ``store["name"]`` is a workload by id, unique id prefix, name (the newest with this name) or ``latest``. Other
    processes may add workloads at any time; every call sees the current content. Nothing stays open between calls,
    and several threads may use a store at the same time.
    """

    _about: Asked = {}
    """The arguments that all its questions share."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def root(self) -> Path:
        """The folder of the store."""
        return self._store.root

    @property
    def read_only(self) -> bool:
        """Whether the store is opened for reading only."""
        return self._store.read_only

    # -- workloads -------------------------------------------------------------------------------------

    def __getitem__(self, workload: str) -> OpenWorkload:
        """The workload with an id, a unique id prefix, a name or ``latest``. Raises NotFound with similar names."""
        if not isinstance(workload, str):
            raise TypeError(f"a workload is selected by a text, not by {type(workload).__name__}")
        return OpenWorkload(self._store, self._store.resolve(workload))

    def __contains__(self, workload: object) -> bool:
        if not isinstance(workload, str):
            return False
        try:
            self._store.resolve(workload)
        except (NotFound, BadArgument):
            return False
        return True

    def __iter__(self) -> Iterator[OpenWorkload]:
        """Its workloads, newest first."""
        return iter([OpenWorkload(self._store, m) for m in reversed(self._store.scan()[0])])

    def __len__(self) -> int:
        return len(self._store.scan()[0])

    def __bool__(self) -> bool:
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return list(dict.fromkeys(m.name for m in reversed(self._store.scan()[0])))

    @asks(list_workloads, by="kernel")
    def workloads(self, result: WorkloadsResult, asked: Asked) -> pd.DataFrame:
        """Its workloads, newest first: id, name, time (UTC), device, and the size of its content."""
        import pandas as pd

        frame = display.of_table(result.table, result.notes)
        frame["created"] = pd.to_datetime(frame["created"], utc=True)
        return frame

    def tables(self) -> pd.DataFrame:
        """The columns of every SQL table with type, unit and meaning; every counter is a column."""
        rows = [
            {"table": table, "column": name, "type": c.type, "unit": c.unit, "description": c.description}
            for table, described in schema().items()
            for name, c in described.columns.items()
        ]
        return display.of_records(rows)

    def sql(self, sql: str, **tables: pd.DataFrame) -> pd.DataFrame:
        """All rows of one SELECT statement (DuckDB) over all workloads, and over DataFrames passed by name.

        >>> store.sql("SELECT w.name, d.kernel, d.duration_ns FROM dispatches d JOIN workloads w USING (workload)")
        """
        manifests, broken = self._store.scan()
        with changing(self._store):
            rows = unlimited_query.query(self._store, manifests, sql, tables)
        return display.of_rows(rows, [f"Left out: {sentence}" for sentence in broken])

    def ceilings(self) -> pd.DataFrame:
        """The ceilings of devices, measured or stated by profiles, with the origin of each figure."""
        return self.sql("FROM ceilings")

    def log(self) -> pd.DataFrame:
        """The experiment log: what was changed, why, and with what result."""
        return self.sql("FROM log")

    def compare(
        self,
        baseline: str | OpenWorkload,
        candidate: str | OpenWorkload | Sequence[str | OpenWorkload],
        **options: Any,
    ) -> Answer[CompareResult]:
        """Decide whether a change helped: times with intervals, sameness of the work, and the parts of the change.

        ``options`` are the other parameters of compare_workloads (docs/reference/tools.md): kernel, by, metrics, ...
        ``group`` compares split or fused kernels as one: {"name": ["pattern before", "pattern after"]}. ``checked`` is
        the result of the program's own check of the candidate. ``hypothesis`` and ``change`` are written to the log.
        """
        return compare(self._store, baseline, candidate, options)

    def report(self, *workloads: str | OpenWorkload, output: str | Path | None = None) -> Path:
        """Write an HTML page about workloads and return its path. The first workload is the baseline of the others."""
        words = [one if isinstance(one, str) else one.id for one in workloads or ("latest",)]
        return report(self._store, words, output)

    # -- new workloads ---------------------------------------------------------------------------------

    @asks(import_profile, "path", listened=True)
    def import_profile(self, result: ImportResult, asked: Asked) -> OpenWorkload:
        """Import a profile; ``progress`` (such as ``print``) is called with the progress.

        Doubts about the profile are in ``warnings`` of the workload. Raises BadInput if the file is not a profile.
        """
        return self[result.workload]

    @asks(profile_command, "command", "metrics", listened=True)
    def profile(self, result: RunResult, asked: Asked) -> OpenWorkload:
        """Run a program under the profiler of this machine and wait for its workload.

        ``command`` is a list of arguments, which no shell interprets. An interrupt cancels the run. Raises RunFailed if
        the program or its profiler fails, and MissingTool if there is no profiler.
        """
        return self[str(result.workload)]

    # -- what needs no profile --------------------------------------------------------------------------

    @asks(plan_profile, "gpu", "metrics")
    def plan(self, result: PlanResult, asked: Asked) -> Answer[PlanResult]:
        """The counter passes that metrics need on a GPU, and the commands for any machine. Nothing is run."""
        return Answer(result, f"Plan for {asked['gpu']}")

    @asks(search_metrics, "query", "gpu")
    def search_metrics(self, result: SearchResult, asked: Asked) -> pd.DataFrame:
        """The metrics of the catalogue that match (all without a query): id, unit, formula, counters, GPUs, meaning."""
        return display.of_table(result.table, result.notes)

    @asks(compute_occupancy, "gpu")
    def occupancy(self, result: OccupancyResult, asked: Asked) -> Answer[OccupancyResult]:
        """The occupancy from numbers, or of the kernels in a compiled AMD code object."""
        return Answer(result, f"Occupancy on {result.gpu}")

    @asks(list_devices)
    def devices(self, result: DevicesResult, asked: Asked) -> pd.DataFrame:
        """The GPUs and processors of this machine; notes explain what prevents profiling."""
        return display.of_records([device.model_dump(mode="json") for device in result.devices], result.notes)

    @asks(run_peak_benchmarks, "device", listened=True)
    def benchmark(self, result: RunResult, asked: Asked) -> pd.DataFrame:
        """Measure what a device can reach, or return results of the last 90 days, unless ``again`` is given."""
        frame = display.of_any(result.ceilings)
        frame.attrs["notes"] = list(result.notes)
        return frame

    # -- showing itself --------------------------------------------------------------------------------

    def _view(self) -> View:
        manifests, broken = self._store.scan()
        mode = ", read-only" if self.read_only else ""
        title = f"rooflens store {self._store.address} ({count_text(len(manifests), 'workload')}{mode})"
        facts = {}
        if manifests:
            newest = manifests[-1]
            facts["newest"] = f"{newest.name!r} ({newest.id}), {iso(newest.created_ns)}"
        return View(title, facts, notes=[f"Left out: {sentence}" for sentence in broken])

    def _repr_html_(self) -> str:
        columns = ["name", "workload", "created", "arch", "device", "kernels", "dispatches", "tags"]
        tables = {"workloads, newest first": self.workloads()[columns]} if len(self) else {}
        return replace(self._view(), tables=tables).html()


def open(store: str | Path | None = None, *, read_only: bool = False) -> OpenStore:
    """Open a store of workloads: a folder, else ``$ROOFLENS_STORE``, else the user's data folder.

    A folder that does not exist yet is an empty store; the first import creates it. With ``read_only`` it must exist,
    and everything that would write to it raises NotAllowed. A store need not be closed, because nothing stays open.

    Raises Problem if the folder cannot be a store, or if a newer version of rooflens wrote it.
    """
    located = Store.locate(store)
    located.read_only = located.read_only or read_only
    if read_only and located.address == str(located.root) and not located.root.exists():
        raise NotFound(
            f"There is no store at {located.root}",
            "a store can be opened for reading only if it exists",
            "Check the path, or open it without read_only",
        )
    located.scan()
    return OpenStore(located)


_FOLDER = Path(__file__).parents[1] / "server" / "samples"


def samples() -> dict[str, Path]:
    """The shipped profiles: name -> a path for ``import_profile``. A README in their folder describes them."""
    return {entry.name: entry for entry in sorted(_FOLDER.iterdir()) if entry.is_dir()}
