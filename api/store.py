"""Stores and workloads as objects, with the complete answers of all tools about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..analysis.base.problems import BadArgument, NotFound, near
from ..analysis.base.text import count_text
from ..analysis.store.store import Manifest, Store
from ..tools import plot
from ..tools.compare_workloads import compare_workloads
from ..tools.compute_metrics import compute_metrics
from ..tools.compute_occupancy import compute_occupancy
from ..tools.compute_roofline import compute_roofline
from ..tools.compute_timeline import compute_timeline
from ..tools.diagnose_bottleneck import diagnose_bottleneck
from ..tools.find_hotspots import find_hotspots
from ..tools.import_profile import import_profile as read_profile
from ..tools.list_devices import list_devices
from ..tools.list_workloads import list_workloads
from ..tools.plan_profile import plan_profile
from ..tools.profile_command import profile_command
from ..tools.query_counters import QueryResult
from ..tools.run_peak_benchmarks import run_peak_benchmarks
from ..tools.search_metrics import search_metrics as find_metrics
from ..tools.sql import unlimited_query
from . import frames, pictures
from .answers import Answer, shown_figure
from .calls import Asked, changing, verb

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FIRST = 1000
"""Rows of a query that are in its result and its text; ``df()`` has all."""


def _query(
    store: Store, manifests: Sequence[Manifest], sql: str, tables: Mapping[str, Any], notes: Sequence[str]
) -> Answer[QueryResult]:
    with changing(store):
        rows = frames.of_rows(unlimited_query.query(store, manifests, sql, tables), notes)
    return Answer(QueryResult(table=frames.first_rows(rows, _FIRST), notes=rows.attrs["notes"]), rows=rows)


class OpenWorkload:
    """A workload of a store, as returned by ``store["name"]``. It never changes, but it can be deleted.

    ``id`` is unique, ``name`` can be shared. ``arch`` (gfx90a, sm_90), ``device`` and ``command`` are None if the
    profile does not state them. ``tags`` are labels, ``facts`` are figures of the device, ``warnings`` are doubts about
    the profile that were found at import, and ``created_ns`` is the time of the import in ns since 1970 (UTC).

    In all methods, ``kernel`` is a pattern (RE2) that is searched in the names of kernels, or ranks by time ("#1",
    "#1,#3"; "#1.2" is the second launch configuration of the first kernel). ``dispatches`` are ids or a text such as
    "0,2,5-9". ``source_roots`` are folders of source files, for profiles without text. An invalid argument and a
    deleted workload raise a Problem.
    """

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._store, self._manifest = store, manifest
        self.warnings = [warning.text for warning in manifest.warnings]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._manifest, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *Manifest.model_fields})

    @property
    def folder(self) -> Path:
        """The folder of its Parquet files; those of a shared store are downloaded first."""
        with changing(self._store):
            return self._store.folder(self._manifest)

    kernels = verb(list_workloads, "Its kernels by total time, or its launch configurations or ranges (NVTX, ROCTX).")
    metrics = verb(compute_metrics)
    roofline = verb(compute_roofline, main="points", picture=pictures.roofline)
    occupancy = verb(compute_occupancy, main="kernels", picture=pictures.one(plot.DRAWINGS["occupancy"]))
    timeline = verb(compute_timeline, main="findings", picture=pictures.one(plot.DRAWINGS["timeline"]), top_n=100)
    diagnose = verb(diagnose_bottleneck, main="kernels")
    hotspots = verb(find_hotspots, main="hotspots", further="source_roots")
    compare = verb(
        compare_workloads, main="kernels", picture=pictures.comparison, subject="baseline", detail="everything"
    )

    def sql(self, sql: str, **tables: pd.DataFrame) -> Answer[QueryResult]:
        """All rows of one SELECT statement (DuckDB) over the tables of this workload; see ``OpenStore.sql``."""
        return _query(self._store, [self._current_manifest()], sql, tables, ())

    def plot(self, kind: Literal["speed_of_light", "host"], kernel: str | None = None) -> Figure:
        """A matplotlib figure of the percentages of peak by subsystem, or of the stacks of the host (of all kernels).

        Answers draw the other pictures. Raises Problem if there is nothing to draw.
        """
        kinds = ("speed_of_light", "host")
        if kind not in kinds:
            raise BadArgument(f"There is no picture {kind!r}", near(kind, kinds), f"Pictures: {', '.join(kinds)}")
        selected = {} if kind == "host" else {"kernel": kernel}
        asked = {**self._about(), **selected}
        return shown_figure(lambda: pictures.one(plot.DRAWINGS[kind])(self._store, None, asked))

    def report(self, output: str | Path | None = None) -> Path:
        """Write the HTML page about this workload; see ``OpenStore.report``."""
        return OpenStore(self._store).report(self, output=output)

    def __repr__(self) -> str:
        m = self._manifest
        held = f"{count_text(m.dispatches, 'dispatch')} of {count_text(m.kernels, 'kernel')}"
        return f"Workload {m.name!r} ({m.id}): {held}, {m.device or 'device not stated'}, {m.arch or 'no target'}"

    def _about(self, subject: str = "workload") -> Asked:
        return {subject: self._current_manifest().id}

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


def _opened(tool: Callable[..., Any], doc: str) -> Callable[..., OpenWorkload]:
    """A method that returns the workload that ``tool`` made."""
    ask = verb(tool, doc, further="progress")

    @wraps(ask)
    def method(self: OpenStore, *given: Any, **options: Any) -> OpenWorkload:
        return self[str(ask(self, *given, **options).workload)]

    method.__annotations__ = {"return": "OpenWorkload"}
    return method


class OpenStore:
    """A store of workloads, as returned by ``rooflens.open()``.

    ``store["name"]`` is a workload by id, unique id prefix, name (the newest with this name) or ``latest``. Other
    processes may add workloads at any time; every call sees the current content. Nothing stays open between calls,
    and several threads may use a store at the same time. ``root`` is its folder, and ``read_only`` says whether it is
    opened for reading only. ``progress`` (such as ``print``) is called with what is done; an interrupt cancels a run,
    and a run that fails raises RunFailed.
    """

    def __init__(self, store: Store) -> None:
        self._store, self.root, self.read_only = store, store.root, store.read_only

    def __getitem__(self, workload: str) -> OpenWorkload:
        """The workload with an id, a unique id prefix, a name or ``latest``. Raises NotFound with similar names."""
        if not isinstance(workload, str):
            raise TypeError(f"a workload is selected by a text, not by {type(workload).__name__}")
        return OpenWorkload(self._store, self._store.resolve(workload))

    def __contains__(self, workload: object) -> bool:
        with suppress(TypeError, NotFound, BadArgument):
            return bool(self[workload])  # type: ignore[index]
        return False

    def __iter__(self) -> Iterator[OpenWorkload]:
        """Its workloads, newest first."""
        return (OpenWorkload(self._store, m) for m in reversed(self._store.scan()[0]))

    def __len__(self) -> int:
        return len(self._store.scan()[0])

    def __bool__(self) -> bool:
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return list(dict.fromkeys(workload.name for workload in self))

    workloads = verb(
        list_workloads, "Its workloads, newest first, with the times of their imports in UTC.", by="kernel"
    )
    compare = verb(compare_workloads, main="kernels", picture=pictures.comparison, detail="everything")
    plan = verb(plan_profile, main="passes")
    search_metrics = verb(find_metrics)
    occupancy = verb(compute_occupancy, main="kernels")
    devices = verb(list_devices, main="devices")
    benchmark = verb(run_peak_benchmarks, main="ceilings", further="progress")
    import_profile = _opened(
        read_profile, "Import a profile or trace and return its workload, whose ``warnings`` doubt it."
    )
    profile = _opened(
        profile_command,
        "Run a program, a list of arguments, under the profiler of this machine, wait, and return its workload.",
    )

    def sql(self, sql: str, **tables: pd.DataFrame) -> Answer[QueryResult]:
        """All rows of one SELECT statement (DuckDB) over all workloads, and over DataFrames passed by name.

        ``SHOW TABLES`` and ``DESCRIBE counters`` list tables and columns, which docs/reference/schema.md describes;
        ``FROM ceilings`` has what devices can reach, ``FROM log`` the experiments. Raises Problem for a mistake.

        >>> store.sql("SELECT w.name, d.kernel, d.duration_ns FROM dispatches d JOIN workloads w USING (workload)")
        """
        manifests, broken = self._store.scan()
        return _query(self._store, manifests, sql, tables, [f"Left out: {sentence}" for sentence in broken])

    def report(self, *workloads: str | OpenWorkload, output: str | Path | None = None) -> Path:
        """Write an HTML page about workloads and return its path. The first workload is the baseline of the others.

        Raises a Problem like `rooflens report`: for unknown workloads, for more than eight, and if the file exists.
        """
        # The page belongs to the server, which also offers it to clients as an app. There should be only one page.
        from ..server.commands.exports import write

        words = [one if isinstance(one, str) else one._about()["workload"] for one in workloads or ("latest",)]
        with changing(self._store):
            return write(self._store, words, None if output is None else Path(output)).absolute()

    def _about(self, _: str) -> Asked:
        """A store has no workload of its own to ask about."""
        return {}

    def __repr__(self) -> str:
        manifests, broken = self._store.scan()
        held = [count_text(len(manifests), "workload"), *(["read-only"] if self.read_only else [])]
        held += [f"{len(broken)} left out"] if broken else []
        return f"rooflens store {self._store.address} ({', '.join(held)})"

    def _repr_html_(self) -> str:
        return self.workloads()._repr_html_()


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
