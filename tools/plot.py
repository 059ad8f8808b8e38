"""plot: pictures of a roofline, of occupancy, of speed of light, and of two workloads side by side."""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from ..analysis.problems import BadArgument, NotFound, StoreProblem
from ..analysis.store import Manifest, Store
from .results import NextCall, Result

if TYPE_CHECKING:
    from ..analysis.plot.style import Picture

Kind = Literal["roofline", "speed_of_light", "compare", "occupancy"]
_FOLDER = "plots"
_MOST_FACTS = 60
_SAME_IN_WORDS = {
    "roofline": "compute_roofline",
    "speed_of_light": "compute_metrics",
    "compare": "compute_metrics",
    "occupancy": "compute_occupancy",
}


class PlotResult(Result):
    """Where the picture lies, as PNG and as SVG, and what it shows in words. ``image`` is the PNG itself."""

    kind: str
    workload: str
    png_path: str
    svg_path: str
    description: str
    _image: bytes = PrivateAttr(default=b"")

    @property
    def image(self) -> bytes:
        """The PNG; not a part of the result as JSON or text."""
        return self._image


def plot(
    store: Store,
    kind: Kind,
    workload: Annotated[str, Field(description='id, name, "latest"; roofline also "cpu" or a GPU uuid')],
    candidate: Annotated[str | None, Field(description="compare: after the change")] = None,
    kernel: str | None = None,
    datatype: str | None = None,
    roofline_kind: Literal["flop", "instruction"] | None = None,
    ceiling_source: Literal["empirical", "theoretical"] = "empirical",
    ceilings: dict[str, float] | None = None,
    kernels: Annotated[int, Field(ge=1, le=12)] = 5,
    width_px: Annotated[int, Field(ge=480, le=4000)] = 800,
) -> PlotResult:
    """Draw a workload as PNG and SVG: its roofline, percent of peak by subsystem (speed_of_light), two workloads side
    by side (compare, with candidate), or occupancy. datatype to ceilings: as for compute_roofline."""
    try:
        manifest = store.resolve(workload)
    except NotFound:
        if kind == "roofline" and (device := _of_device(store, workload, width_px)):
            return device
        raise
    if (candidate is None) == (kind == "compare"):
        fix = "Give candidate, the workload after the change" if candidate is None else "Leave it out, or use compare"
        raise BadArgument(f"kind={kind!r} {'needs' if candidate is None else 'takes no'} candidate", fix=fix)
    if kind != "roofline" and (datatype or roofline_kind or ceilings):
        raise BadArgument("datatype, roofline_kind and ceilings belong to kind='roofline'", fix="Leave them out")
    other = store.resolve(candidate) if candidate else None
    asked: dict[str, Any] = {
        "datatype": datatype,
        "kind": roofline_kind,
        "source": ceiling_source,
        "kernels": kernels,
        "ceilings": ceilings,
    }
    picture, facts = _picture(store, kind, manifest, other, kernel, asked, width_px)
    whose = f"{manifest.id}{f'-{other.id}' if other else ''}"
    return _shown(store, kind, manifest.id, whose, picture, facts, width_px, _next(kind, manifest))


def _of_device(store: Store, word: str, width_px: int) -> PlotResult | None:
    """The measured roofline of a device ("cpu" or a uuid), where run_peak_benchmarks has measured one."""
    from . import plot_device
    from .benchmarks import report as peak_tables

    if not (rows := plot_device.find(store, word)):
        return None
    from ..analysis.plot import roofline
    from ..analysis.plot.style import render

    scene, facts = plot_device.device_scene(rows)
    picture, uuid = render(lambda: roofline.draw(scene), width_px), str(rows[0]["device_uuid"])
    return _shown(store, "roofline", uuid, uuid, picture, facts, width_px, peak_tables.next_calls())


def _shown(
    store: Store, kind: Kind, subject: str, whose: str, picture: Picture, facts: list[str], width_px: int,
    following: list[NextCall],
) -> PlotResult:  # fmt: skip
    """Save a picture and answer with it."""
    notes = []
    name = f"{whose}-{kind}-{hashlib.sha256(picture.svg).hexdigest()[:10]}"
    try:
        png, svg = _saved(store.root / _FOLDER, name, width_px, picture)
    except OSError as error:
        notes.append(f"The store cannot be written ({error.strerror or error}): the files are in a temporary folder.")
        png, svg = _saved_elsewhere(name, width_px, picture)
    shown = facts[:_MOST_FACTS]
    if len(facts) > len(shown):
        shown.append(f"{len(facts) - len(shown)} more are in the answer of {_SAME_IN_WORDS[kind]}.")
    result = PlotResult(
        kind=kind,
        workload=subject,
        png_path=str(png),
        svg_path=str(svg),
        description="\n".join(shown),
        notes=notes,
        next=following,
    )
    result._image = picture.png
    return result


def _picture(
    store: Store,
    kind: Kind,
    manifest: Manifest,
    other: Manifest | None,
    kernel: str | None,
    asked: dict[str, Any],
    width_px: int,
) -> tuple[Picture, list[str]]:
    """The picture and its facts; ``asked`` are the choices that only a roofline has."""
    from ..analysis.plot import compare, occupancy, roofline, speed_of_light
    from ..analysis.plot.style import render
    from .plot_roofline import roofline_scene
    from .plot_scenes import compare_scene, occupancy_scene, speed_scene

    if other is not None:
        compared, facts = compare_scene(store, manifest, other, kernel)
        return render(lambda: compare.draw(compared), width_px), facts
    if kind == "occupancy":
        resident, facts = occupancy_scene(store, manifest, kernel)
        return render(lambda: occupancy.draw(resident), width_px), facts
    if kind == "speed_of_light":
        reached, facts = speed_scene(store, manifest, kernel)
        return render(lambda: speed_of_light.draw(reached), width_px), facts
    placed, facts = roofline_scene(store, manifest, kernel, **asked)
    return render(lambda: roofline.draw(placed), width_px), facts


def _saved(folder: Path, name: str, width_px: int, picture: Picture) -> tuple[Path, Path]:
    """Write both files, each complete before it has its name."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = folder / f"{name}{'' if width_px == 800 else f'-{width_px}'}.png", folder / f"{name}.svg"
    for path, content in ((png, picture.png), (svg, picture.svg)):
        draft = folder / f".{path.name}.{uuid.uuid4().hex}"
        try:
            draft.write_bytes(content)
            os.replace(draft, path)  # noqa: PTH105
        finally:
            draft.unlink(missing_ok=True)
    return png, svg


def _saved_elsewhere(name: str, width_px: int, picture: Picture) -> tuple[Path, Path]:
    try:
        return _saved(_temporary(), name, width_px, picture)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreProblem("The picture can be written nowhere", why, "Name a store with --store") from error


@cache
def _temporary() -> Path:
    """One private folder a process."""
    return Path(tempfile.mkdtemp(prefix="rooflens-plots-"))


def _next(kind: Kind, manifest: Manifest) -> list[NextCall]:
    arguments: dict[str, object] = {"workload": manifest.id}
    if kind in ("speed_of_light", "compare"):
        arguments["metrics"] = ["2"]
    return [NextCall(tool=_SAME_IN_WORDS[kind], arguments=arguments, why="the same figures as a table")]
