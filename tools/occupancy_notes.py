"""What a reader must know about an occupancy figure, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import catalog
from ..analysis.occupancy import Occupancy, occupancy
from ..analysis.occupancy_simplified import Simplified, error
from ..analysis.problems import Problem
from .occupancy_sources import Subject

Figure = Occupancy | Simplified | Problem
_COMPILER_MODE = (
    "Compiler mode is the figure of clang's remark kernel-resource-usage: the least limit per SIMD, without LDS "
    "blocks. Hardware places whole work-groups and may hold fewer waves."
)
_ONE_RULE = "NVIDIA has one rule for both modes, that of the CUDA occupancy calculator."
_FAR_BELOW = 0.5
_MARGIN = 1.05


def occupancy_notes(subject: Subject, lead: Figure, figures: Sequence[Figure]) -> list[str]:
    """Notes on the first kernel's figure, and on those that could not be computed."""
    notes = []
    if isinstance(lead, Simplified):
        notes += _of_simplified(subject, lead)
    elif isinstance(lead, Occupancy):
        notes += [*_of_exact(subject, lead), *_of_achieved(subject, lead)]
    if lacking := sum(isinstance(f, Problem) for f in figures):
        notes.append(f"{lacking} of {len(figures)} kernels could not be computed; the column reason says why.")
    return notes


def _of_exact(subject: Subject, figure: Occupancy) -> list[str]:
    notes = []
    amd = catalog.gpu(figure.gpu).vendor == "amd"
    n, most = figure.waves_per_workgroup, figure.max_waves_per_cu
    if figure.mode == "compiler":
        notes.append(_COMPILER_MODE if amd else _ONE_RULE)
    if figure.waves_per_cu == 0:
        so = "yet it ran, so the profile or the rule is wrong" if "launches" in subject.more else "such a launch fails"
        notes.append(f"Not one work-group of {n} waves fits ({', '.join(figure.limiters)}): {so}.")
    elif figure.mode == "hardware" and figure.limiters == ("wave_slots",) and figure.waves_per_cu < most:
        left = most - figure.waves_per_cu
        notes.append(f"{left} of {most} wave slots stay empty: no whole work-group of {n} waves fits there.")
    if figure.unit.startswith("work-group processor"):
        notes.append("A CU is a work-group processor here: two compute units that share LDS and work-groups.")
    if figure.mode == "hardware" and amd:
        notes.append("The hardware rule follows the documented allocation; rooflens has not measured it on a GPU.")
    return notes


def _of_achieved(subject: Subject, figure: Occupancy) -> list[str]:
    achieved, possible = subject.more.get("achieved_pct"), figure.occupancy_pct
    if achieved is None or not possible:
        return []
    if achieved > possible * _MARGIN:
        return [
            f"Measured occupancy ({achieved:.3g} %) is above what the profile's registers and LDS allow "
            f"({possible:.3g} %): one of the two is wrong."
        ]
    if achieved < possible * _FAR_BELOW:
        return [
            f"Measured occupancy ({achieved:.3g} %) is far below the possible {possible:.3g} %: look at the size of "
            "the grid, at waves that end at different times and at launch cost before registers or LDS."
        ]
    return []


def _of_simplified(subject: Subject, figure: Simplified) -> list[str]:
    """How far the formula is from the hardware rule, here and on this target in general."""
    exact = occupancy(
        subject.gpu,
        vgprs=subject.vgprs or 0,
        agprs=subject.agprs,
        sgprs=subject.sgprs,
        lds_bytes=subject.lds_bytes,
        dynamic_lds_bytes=subject.dynamic_lds_bytes,
        workgroup_size=subject.workgroup_size or 1,
    )
    notes = [
        f"Simplified formula of the EmPRiSM report: {figure.waves_per_cu} of {figure.max_waves_per_cu} waves per CU. "
        f"The hardware rule gives {exact.waves_per_cu} of {exact.max_waves_per_cu} ({exact.occupancy_pct:.3g} %, "
        f"limited by {', '.join(exact.limiters)}).",
        error(subject.gpu).text(subject.gpu),
    ]
    if subject.agprs:
        notes.append("The formula knows no accumulation registers; agprs were left out of it.")
    return notes
