"""The launch configurations of a workload: their resources, their share of the time, and their achieved occupancy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..base.notes import Note, Reason
from ..base.text import count_text
from ..catalogue.metrics import by_name, targets_with_metrics
from ..catalogue.targets import find_target
from ..engine.evaluation import Figure, FigureRequest, figures
from ..engine.time_shares import replace_cycle_shares_by_time
from ..store.measured_ceilings import USABLE
from ..store.schema import kernel_of
from ..workload import Workload

ACHIEVED = "occupancy.waves"
"""The metric for the average number of resident waves."""
_ACHIEVED_PCT = "occupancy.achieved_pct"
"""The achieved occupancy where a target has a metric for it, as diagnoses use it."""
_RESOURCES = frozenset({"vgpr", "agpr", "sgpr", "lds_bytes", "workgroup_size"})


@dataclass(frozen=True)
class LaunchConfiguration:
    """One kernel launched with one set of resources. Registers are per work-item (SGPRs per wave), LDS is in bytes.

    ``number`` selects it ("#1.2"), ``time_pct`` is its share of the selected kernels' time, ``grid`` its number of
    work-items. The achieved figures are those of its launches, or None if they were not measured.
    """

    number: str
    kernel: str
    configuration: str
    vgprs: int | None
    agprs: int | None
    sgprs: int | None
    lds_bytes: int | None
    workgroup_size: int | None
    launches: int
    time_pct: float | None
    grid: int | None
    achieved_waves_per_cu: float | None = None
    achieved_pct: float | None = None
    doubt: Reason | None = None
    """Why its resources or its achieved occupancy are doubted."""

    @property
    def status(self) -> str:
        """The status, as of a figure."""
        return "suspect" if self.doubt else "ok"

    @property
    def reason(self) -> str | None:
        """The text of the doubt."""
        return self.doubt.text if self.doubt else None


@dataclass(frozen=True)
class Configurations:
    """The configurations of the selected kernels, longest total time first; ``kernels`` counts distinct kernels.

    ``not_achieved`` says why the achieved occupancy is unknown, or is None if it is known.
    """

    rows: list[LaunchConfiguration]
    kernels: int
    not_achieved: str | None


def configurations(workload: Workload, kernel: str | None = None) -> Configurations:
    """The launch configurations of a workload. Raises the same errors as ``Workload.select``."""
    with Workload(workload.store, workload.manifest, "launch") as apart:
        selection = apart.select(kernel)
        rows = apart.rows(
            "SELECT kernel, any_value(configuration), any_value(vgpr), any_value(agpr), any_value(sgpr), "
            "any_value(lds_bytes), any_value(workgroup_size), count(*), "
            "100 * sum(duration_ns) / sum(sum(duration_ns)) OVER (), any_value(grid) "
            f"FROM {apart.relation('dispatches')} d WHERE {selection.condition('d')} "
            "GROUP BY kernel ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
        )
        achieved, unknown = _achieved_figures(apart, kernel)
        times = {label: apart.kernels[label] for label, *_ in rows}
    # A target with metrics has facts.
    slots = 0.0 if unknown else workload.facts.get("max_waves_per_cu", 0.0)
    result_rows = []
    for label, configuration, *resources in rows:
        name = kernel_of(label, configuration)
        pct, suspicion = achieved.get(label, (None, None))
        waves = None if pct is None else pct * slots / 100
        doubt = workload.doubts.about(_RESOURCES, [name]) or suspicion
        row = LaunchConfiguration(f"#{times[label].number}", name, configuration, *resources)
        result_rows.append(replace(row, achieved_waves_per_cu=waves, achieved_pct=pct, doubt=doubt))
    return Configurations(result_rows, len({row.kernel for row in result_rows}), unknown)


def _achieved_figures(apart: Workload, kernel: str | None) -> tuple[dict[str, tuple[float, Reason | None]], str | None]:
    """Configuration -> its achieved occupancy in percent and why that is suspect, or else why there is none."""
    if apart.arch not in targets_with_metrics() or ACHIEVED not in by_name(apart.arch):
        return {}, f"no metric for it is known on {apart.arch or None}"
    view = FigureRequest(kernel, by_kernel=True)
    name = _ACHIEVED_PCT if _ACHIEVED_PCT in by_name(apart.arch) else ACHIEVED
    measured = replace_cycle_shares_by_time(apart, figures(apart, [name], view), view)
    usable = {
        f.kernel: (pct, f.reason if f.status == "suspect" else None)
        for f in measured
        if f.kernel and (pct := _achieved_pct(f)) is not None and f.status in USABLE
    }
    why = next((f.reason.text for f in measured if f.reason), "the counters have no value")
    return usable, None if usable else why


def _achieved_pct(figure: Figure) -> float | None:
    """The achieved occupancy in percent: the metric itself, or the resident waves as a share of the slots."""
    return figure.value if figure.name == _ACHIEVED_PCT else figure.pct_of_peak


def repeats_vgprs(arch: str, row: LaunchConfiguration) -> bool:
    """Whether the AGPRs of a row only repeat its VGPRs, as profilers write on targets with separate register files."""
    target = find_target(arch)
    separate = target is not None and target.agprs == "separate"
    return separate and bool(row.agprs) and row.agprs == row.vgprs


def profile_notes(workload: Workload, arch: str, rows: list[LaunchConfiguration], dynamic_lds_bytes: int) -> list[Note]:
    """Notes on what the profile does not state about registers and LDS."""
    notes, target = [], find_target(arch)
    if workload.manifest.vendor == "amd" and not dynamic_lds_bytes:
        static = (
            "LDS is only static LDS if this was imported from CSV files of rocprofv3 of ROCm 7.0 or later: then"
            if workload.manifest.format == "rocprofv3"
            else "Profiler CSV files contain only static LDS;"
        )
        text = f"{static} pass dynamic_lds_bytes if the launch adds LDS."
        notes.append(Note("static_lds_only", text))
    if any(row.agprs is None for row in rows) and target and target.agprs == "unified":
        text = "The profile has no column for accumulation registers; if the kernel uses any, occupancy may be lower."
        notes.append(Note("no_agprs", text))
    halved = sum(bool(row.vgprs and not row.agprs) for row in rows)
    if halved and target and any(defect.halves_registers for defect in target.defect):
        text = (
            f"{halved} of {count_text(len(rows), 'row states', 'rows state')} no AGPRs: profilers of ROCm SDK 1.0 "
            "report half of the registers "
            f"on {arch}. If one of them wrote this profile, vgprs must be doubled; the code object is exact."
        )
        notes.append(Note("halved_registers", text))
    if any(repeats_vgprs(arch, row) for row in rows):
        text = f"On {arch} the two do not add up, and profilers repeat vgprs as agprs: such agprs are taken as 0."
        notes.append(Note("repeated_vgprs", text))
    return notes
