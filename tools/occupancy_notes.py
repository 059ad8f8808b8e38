"""What a reader must know about an occupancy figure: in words, for the first kernel and for all."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import catalog
from ..analysis.occupancy import Occupancy, occupancy
from ..analysis.occupancy_simplified import Simplified, error
from ..analysis.problems import Problem
from .occupancy_sources import Subject

Figure = Occupancy | Simplified | Problem
_FAR_BELOW = 0.5
_MARGIN = 1.05


def occupancy_notes(subject: Subject, lead: Figure, figures: Sequence[Figure]) -> list[str]:
    """Notes on the first kernel's figure, and on those that could not be computed."""
    notes = []
    if isinstance(lead, Simplified):
        notes += _of_simplified(subject, lead)
    elif isinstance(lead, Occupancy):
        notes += [*_of_exact(lead), *_of_achieved(subject, lead)]
    if lacking := sum(isinstance(f, Problem) for f in figures):
        notes.append(f"{lacking} of {len(figures)} kernels could not be computed; the column reason says why.")
    return notes


def _of_exact(figure: Occupancy) -> list[str]:
    notes = []
    vendor = catalog.gpu(figure.gpu).vendor
    n = figure.waves_per_workgroup
    if figure.mode == "compiler":
        notes.append(
            "Compiler mode is the figure of clang's remark kernel-resource-usage: the least limit per SIMD, without LDS "
            "blocks. Hardware places whole work-groups and may hold fewer waves."
            if vendor == "amd"
            else "NVIDIA has one rule, that of the CUDA occupancy calculator, for both modes."
        )
    if figure.waves_per_cu == 0:
        notes.append(f"Not one work-group of {n} waves fits ({', '.join(figure.limiters)}): such a launch fails.")
    elif figure.mode == "hardware" and figure.limiters == ("wave_slots",) and figure.occupancy_pct < 100:
        left = figure.max_waves_per_cu - figure.waves_per_cu
        notes.append(
            f"{left} of {figure.max_waves_per_cu} wave slots stay empty: no whole work-group of {n} waves fits there."
        )
    if figure.unit.startswith("work-group processor"):
        notes.append(
            "Figures per CU are per work-group processor: two compute units share LDS and a work-group's waves."
        )
    if figure.mode == "hardware" and vendor == "amd":
        notes.append("The hardware rule follows the documented allocation; rooflens has not measured it on a GPU.")
    return notes


def _of_achieved(subject: Subject, figure: Occupancy) -> list[str]:
    achieved = subject.more.get("achieved_pct")
    if achieved is None or not figure.occupancy_pct:
        return []
    if achieved > figure.occupancy_pct * _MARGIN:
        return [f"Measured occupancy ({achieved:.3g} %) is above what the registers and LDS of the profile allow "
                f"({figure.occupancy_pct:.3g} %): one of the two is wrong."]  # fmt: skip
    if achieved < figure.occupancy_pct * _FAR_BELOW:
        return [f"Measured occupancy ({achieved:.3g} %) is far below the possible {figure.occupancy_pct:.3g} %: look at the "
                "size of the grid, waves that end at different times, and launch cost, before registers or LDS."]  # fmt: skip
    return []


def _of_simplified(subject: Subject, figure: Simplified) -> list[str]:
    """How far the formula is from the hardware rule, here and on this target in general."""
    exact = occupancy(
        subject.gpu, vgprs=subject.vgprs or 0, agprs=subject.agprs, sgprs=subject.sgprs, lds_bytes=subject.lds_bytes,
        dynamic_lds_bytes=subject.dynamic_lds_bytes, workgroup_size=subject.workgroup_size or 1,
    )  # fmt: skip
    notes = [
        f"Simplified formula of the EmPRiSM report: {figure.waves_per_cu} of {figure.max_waves_per_cu} waves per CU. The "
        f"hardware rule gives {exact.waves_per_cu} of {exact.max_waves_per_cu} ({exact.occupancy_pct:.3g} %, limited by "
        f"{', '.join(exact.limiters)}).",
        error(subject.gpu).text(subject.gpu),
    ]
    if subject.agprs:
        notes.append("The formula knows no accumulation registers; agprs were left out of it.")
    return notes
