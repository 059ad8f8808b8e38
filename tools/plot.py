"""plot: pictures of a roofline, occupancy, speed of light, a timeline, the host, or two workloads side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import PrivateAttr

from ..analysis.base.database import connect
from ..analysis.base.problems import BadArgument, BadInput, NotFound, Problem, StoreProblem
from ..analysis.base.temporary_files import draft_of, private_folder
from ..analysis.catalogue.work_formulas import LEVELS
from ..analysis.engine.evaluation import FigureRequest, figures
from ..analysis.rooflines.inputs import RooflineRequest, prepare_inputs
from ..analysis.rooflines.roofline import RooflineKind, build_roofline
from ..analysis.store import measured_ceilings
from ..analysis.store.store import Manifest, Store
from ..analysis.tables.derived import stored_value
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .base.parameters import By, CeilingSource, CeilingValues, Pattern, Reference
from .base.results import NextCall, Result
from .compute_occupancy import kernel_notes, of_workload
from .device.benchmarks import outcomes as peak_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..analysis.plot.bars import ComparedWork
    from ..analysis.plot.style import Picture

Kind = Literal["roofline", "speed_of_light", "compare", "occupancy", "timeline", "host"]
_FOLDER = "plots"
_MOST_FACTS = 60
_SAME_IN_WORDS: dict[Kind, tuple[str, dict[str, Any]]] = {
    "roofline": ("compute_roofline", {}),
    "speed_of_light": ("compute_metrics", {"metrics": ["2"]}),
    "compare": ("compute_metrics", {"metrics": ["2"]}),
    "occupancy": ("compute_occupancy", {}),
    "timeline": ("compute_timeline", {}),
    "host": ("find_hotspots", {"by": "host_line"}),
}
"""The tool with the same figures as a table, and its arguments."""


class PlotResult(Result):
    """The paths of the picture as PNG and SVG, and its contents in words. ``image`` is the PNG itself."""

    kind: str
    workload: str
    png_path: str
    svg_path: str
    description: str
    _image: bytes = PrivateAttr(default=b"")

    @property
    def image(self) -> bytes:
        """The PNG; not included in the result as JSON or text."""
        return self._image


@dataclass(frozen=True)
class Drawing:
    """What is drawn: the function that draws it, its contents, and its facts in words."""

    draw: Callable[[Any], Figure]
    content: Any
    facts: list[str]

    def picture(self, width_px: int) -> Picture:
        """Return it as PNG and SVG."""
        from ..analysis.plot.style import render

        return render(lambda: self.draw(self.content), width_px)


def plot(
    store: Store,
    kind: Kind,
    workload: Reference,
    candidate: Reference | None = None,
    kernel: Pattern | None = None,
    by: By = "kernel",
    datatype: Reference | None = None,
    roofline_kind: RooflineKind | None = None,
    ceiling_source: CeilingSource = "empirical",
    ceilings: CeilingValues | None = None,
    kernels: int = 5,
    width_px: int = 800,
) -> PlotResult:
    """Draw as PNG and SVG: roofline, percent of peak (speed_of_light), two workloads (compare, with candidate),
    occupancy, timeline, or host (stacks)."""
    try:
        manifest = store.resolve(workload)
    except NotFound:
        if kind == "roofline" and (rows := measured_device(store, workload)):
            subject = [str(rows[0]["device_uuid"])]
            return _answer(store, kind, subject, _device_drawing(rows), width_px, peak_tables.next_calls())
        raise
    if (candidate is None) == (kind == "compare"):
        fix = "Give candidate, the workload after the change" if candidate is None else "Omit it, or use compare"
        raise BadArgument(f"kind={kind!r} {'needs' if candidate is None else 'does not take'} candidate", fix=fix)
    if kind != "roofline" and (datatype or roofline_kind or ceilings):
        raise BadArgument("datatype, roofline_kind and ceilings are only for kind='roofline'", fix="Omit them")
    if kernel is not None and kind in ("timeline", "host"):
        raise BadArgument("kernel is only for the other kinds", fix="Omit it")
    subjects = [manifest, *([store.resolve(candidate)] if candidate is not None else [])]
    with ExitStack() as stack:
        opened = [stack.enter_context(Workload.open(store, one, kernel, by)) for one in subjects]
        if kind == "compare":
            drawing = comparison_drawing(opened[0], opened[1], kernel)
        elif kind == "roofline":
            options = RooflineOptions(roofline_kind, datatype, ceiling_source, ceilings or {}, kernels)
            drawing = roofline_drawing(opened[0], kernel, options)
        else:
            drawing = DRAWINGS[kind](opened[0], *([] if kernel is None else [kernel]))
    return _answer(store, kind, [one.id for one in subjects], drawing, width_px, _next(kind, manifest, by))


@dataclass(frozen=True)
class RooflineOptions:
    """The options of a roofline; without ``kind``, it is an instruction roofline if the GPU does not count FLOP."""

    kind: RooflineKind | None = None
    datatype: str | None = None
    source: Literal["empirical", "theoretical"] = "empirical"
    ceilings: Mapping[str, float] = field(default_factory=dict)
    kernels: int = 5
    levels: Sequence[str] = LEVELS
    dispatches: str | Sequence[int] | None = None
    each: Literal["kernel", "dispatch"] = "kernel"
    """What a point represents."""


def roofline_drawing(workload: Workload, kernel: str | None, options: RooflineOptions) -> Drawing:
    """Return the roofline of a workload's longest kernels."""
    from ..analysis.plot import roofline, roofline_content

    asked = RooflineRequest(kernel, options.dispatches, options.each, options.kernels)
    inputs = prepare_inputs(workload, asked, options.source, options.ceilings)
    shares = {name: time.share_pct for name, time in workload.kernels.items()}
    subject = roofline_content.RooflineSubject(workload.name, shares, options.datatype)
    computed = build_roofline(inputs, options.levels, options.datatype, options.kind or "flop")
    if options.kind or not computed.points or any(p.status != "not_supported" for p in computed.points):
        return Drawing(roofline.draw, *roofline_content.of_kernels(computed, subject))
    note = f"{workload.arch} has no counters of floating-point operations: this is the instruction roofline."
    of_instructions = build_roofline(inputs, options.levels, kind="instruction")
    picture, facts = roofline_content.of_kernels(of_instructions, replace(subject, datatype=None))
    picture = replace(picture, statements=[note, *picture.statements])
    return Drawing(roofline.draw, picture, [note, *facts])


def measured_device(store: Store, word: str) -> list[dict[str, Any]]:
    """The usable rows of a device: ``cpu`` for the host, a uuid or the beginning of one; empty if there are none."""
    with closing(connect()) as con:
        rows = measured_ceilings.latest(con, store)
    column = "gpu" if word.lower() in ("cpu", "host") else "device_uuid"
    beginning = "cpu" if column == "gpu" else word
    rows = [
        row
        for row in rows
        if row["status"] in measured_ceilings.USABLE
        and row["value"]
        and str(row[column]).startswith(beginning)
        and (column == "gpu" or len(word) >= 8)
    ]
    return measured_ceilings.fullest(
        [row for row in rows if all(row[name] == rows[0][name] for name in ("device_uuid", "partition"))]
    )


def _device_drawing(rows: list[dict[str, Any]]) -> Drawing:
    """Return the measured roofline of a device, without kernels."""
    from ..analysis.plot import roofline, roofline_content

    return Drawing(roofline.draw, *roofline_content.of_device(rows))


def _occupancy_drawing(workload: Workload, kernel: str | None = None) -> Drawing:
    """Return the occupancy of the longest selected kernel."""
    from ..analysis.plot import occupancy

    launched = of_workload(workload, kernel)
    first = launched.kernels[0]
    lead = first.occupancy("hardware")
    if isinstance(lead, Problem):
        others = (each.occupancy("hardware") for each in launched.kernels)
        if not launched.informative and all(isinstance(outcome, Problem) for outcome in others):
            raise lead
        raise BadInput(f"The occupancy of {first.name!r} cannot be drawn", lead.text)
    achieved = first.profiled.achieved_waves_per_cu if first.profiled else None
    notes = [*kernel_notes(first, lead), *launched.notes]
    shown = occupancy.of_kernel(lead, str(first.name), workload.name, achieved, notes)
    return Drawing(occupancy.draw, *shown)


def _timeline_drawing(workload: Workload) -> Drawing:
    """Return where the wall time goes, with lanes of devices and host."""
    from ..analysis.plot import timeline, timeline_content
    from ..analysis.timeline.timeline import timeline as computed

    kind = tuple[timeline_content.TimelinePicture, list[str]]
    content = stored_value(workload, "timeline-picture", kind, lambda: timeline_content.of_timeline(computed(workload)))
    return Drawing(timeline.draw, *content)


def _host_drawing(workload: Workload) -> Drawing:
    """Return the stacks of the host: all time, and the time for which devices wait for them."""
    from ..analysis.plot import host, host_content
    from ..analysis.timeline.host_tree import host_tree

    def content() -> tuple[host_content.HostPicture, list[str]]:
        tree = host_tree(workload)
        if tree is None:
            raise BadInput(
                f"Workload {workload.name!r} has no stacks of the host",
                "its profile contains neither samples of the host's threads nor Python calls",
                "Record a timeline with profile_command, or import a trace of torch.profiler with with_stack=True",
            )
        return host_content.of_tree(tree, f"Stacks of the host: {workload.name}")

    kind = tuple[host_content.HostPicture, list[str]]
    return Drawing(host.draw, *stored_value(workload, "host-picture", kind, content))


def _speed_of_light_drawing(workload: Workload, kernel: str | None = None) -> Drawing:
    """Return the percent of peak of each subsystem."""
    from ..analysis.plot import bars

    of_panel = figures(workload, [bars.PANEL], FigureRequest(kernel, quartiles=False))
    return Drawing(bars.draw, *bars.speed_of_light(workload.manifest, of_panel, kernel))


DRAWINGS: dict[Kind, Callable[..., Drawing]] = {
    "occupancy": _occupancy_drawing,
    "timeline": _timeline_drawing,
    "host": _host_drawing,
    "speed_of_light": _speed_of_light_drawing,
}
"""The kinds that take a workload, and perhaps kernels of it."""


def comparison_drawing(
    before: Workload, after: Workload, kernel: str | None, outcome: ComparedWork | None = None
) -> Drawing:
    """Return two workloads side by side, with the outcome of their comparison, which is computed if it is not given."""
    from ..analysis.plot import bars

    outcome = outcome or _compared_work(before, after, kernel)
    metrics, view = [bars.PANEL, bars.DURATION], FigureRequest(kernel, quartiles=False)
    both = (figures(before, metrics, view), figures(after, metrics, view))
    return Drawing(bars.draw, *bars.comparison((before.manifest, after.manifest), both, kernel, outcome))


def _compared_work(before: Workload, after: Workload, kernel: str | None) -> ComparedWork | None:
    """Return the verdict on the longest pair of kernels; None if they cannot be compared, as without launches."""
    from ..analysis.comparison.compare import compare
    from ..analysis.comparison.sentences import summary
    from ..analysis.plot.bars import ComparedWork

    try:
        comparison = compare(before, after, kernel=kernel, limit=1)
    except Problem:
        return None
    return ComparedWork(summary(comparison), comparison.main.work.answer) if comparison.main else None


def _answer(
    store: Store, kind: Kind, subjects: list[str], drawing: Drawing, width_px: int, following: list[NextCall]
) -> PlotResult:
    """Save a picture and build the answer."""
    notes = []
    picture = drawing.picture(width_px)
    name = f"{'-'.join(subjects)}-{kind}-{hashlib.sha256(picture.svg).hexdigest()[:10]}"
    width = "" if width_px == 800 else f"-{width_px}"
    files = {f"{name}{width}.png": picture.png, f"{name}.svg": picture.svg}
    try:
        png, svg = _save_files(store.root / _FOLDER, files)
    except OSError as error:
        notes.append(f"The store is not writable ({error.strerror or error}): the files are in a temporary folder.")
        png, svg = _save_elsewhere(files)
    shown = drawing.facts[:_MOST_FACTS]
    if len(drawing.facts) > len(shown):
        shown.append(f"{len(drawing.facts) - len(shown)} more: see the answer of {_SAME_IN_WORDS[kind][0]}.")
    result = PlotResult(
        answer=sentence("plot.done", path=png),
        kind=kind,
        workload=subjects[0],
        png_path=str(png),
        svg_path=str(svg),
        description="\n".join(shown),
        notes=notes,
        next=following,
    )
    result._image = picture.png
    return result


def _save_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write the files; each gets its name only when it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with draft_of(folder / name) as draft:
            draft.write_bytes(content)
    return [folder / name for name in files]


def _save_elsewhere(files: Mapping[str, bytes]) -> list[Path]:
    try:
        return _save_files(private_folder() / _FOLDER, files)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreProblem("The picture cannot be written anywhere", why, "Select a store with --store") from error


def _next(kind: Kind, manifest: Manifest, by: str) -> list[NextCall]:
    tool, more = _SAME_IN_WORDS[kind]
    separate = {"by": by} if by == "launch" and tool in ("compute_roofline", "compute_metrics") else {}
    return [next_call(tool, "the same figures as a table", workload=manifest.id, **separate, **more)]
